"""What edges share in Redis and may forget."""
