"""Copies of brokers: where they lie, and what belongs to one of a whole cluster."""
