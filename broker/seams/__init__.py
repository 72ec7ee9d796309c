"""The only modules that ask the operating system for time, files or randomness."""
