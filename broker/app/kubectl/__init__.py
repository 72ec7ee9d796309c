"""What kubectl runs as `kubectl stampede`."""
