"""Space of what is settled, given back."""
