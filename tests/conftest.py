"""Makes `tests` importable from every folder (pytest puts the folder above this package on the path)."""
