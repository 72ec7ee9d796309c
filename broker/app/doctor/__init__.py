"""What stops or slows a broker, found before it does."""
