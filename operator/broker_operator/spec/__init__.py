"""Resources as values."""
