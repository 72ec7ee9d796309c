"""A slot as it was: from the log after a restart, and with consumers that come back to a new leader."""
