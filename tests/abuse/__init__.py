"""Hostile and broken clients: each ends with an exact reason, bounded memory, and no harm to the client beside it."""
