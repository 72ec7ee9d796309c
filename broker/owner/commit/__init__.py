"""Persist, then tell: written and synced by a thread; released when that, and the followers, have it."""
