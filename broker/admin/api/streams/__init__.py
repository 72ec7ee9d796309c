"""What is answered piece by piece: events as they come, bodies as they are read."""
