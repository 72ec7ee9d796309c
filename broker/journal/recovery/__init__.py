"""What a log says lives, read back after a start."""
