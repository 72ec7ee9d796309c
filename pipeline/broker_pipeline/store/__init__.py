"""Where an archive lies, and which of its files count."""
