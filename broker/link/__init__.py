"""How edges reach owners. Rule: moves commands and effects; decides nothing."""
