"""What a client is subscribed to, and how fast it may get it."""
