"""COMMIT, in one slot and over several."""
