"""Who comes in where, and what they may do."""
