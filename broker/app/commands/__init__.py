"""The commands of `stampede`."""
