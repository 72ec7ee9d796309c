"""Typed settings, their loading and their explanation.

One rule: every limit has a unit, a default and a reason. Must not know what the settings steer.
"""
