"""Consumers of a queue: their credit, their place, and what each may have."""
