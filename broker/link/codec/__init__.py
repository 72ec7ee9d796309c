"""Commands and effects as bytes between edges and owners."""
