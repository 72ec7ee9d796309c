"""Owners as an edge sees them: each slot, its leader, and what is not answered yet."""
