"""The state of a slot and the bounds it is held to."""
