"""The log as others read it."""
