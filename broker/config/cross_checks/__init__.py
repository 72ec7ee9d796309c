"""What of the settings cannot go together, by what it is about; checks.py calls all of it."""
