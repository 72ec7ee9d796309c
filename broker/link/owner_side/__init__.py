"""Edges as an owner sees them."""
