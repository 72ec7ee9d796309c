"""Records as bytes, their places, and the files they are in."""
