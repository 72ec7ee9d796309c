"""Addresses as values: what they are set to, what wildcards match, what they may use."""
