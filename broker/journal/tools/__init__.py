"""A folder looked at, copied, mended by commands, without a broker."""
