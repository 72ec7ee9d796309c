"""The read API: rows of the log, for archives."""
