"""Composition roots and the command line: the only place where objects of different rooms meet.

One rule: wiring and life cycle, no logic of the broker itself. May import everything; nothing imports it.
"""
