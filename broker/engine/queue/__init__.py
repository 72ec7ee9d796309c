"""A queue and its parts, each changed by its own methods only."""
