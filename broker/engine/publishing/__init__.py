"""What arrives: admitted, numbered, routed, put into queues; also what comes again, repeats itself or was prepared
by a transaction."""
