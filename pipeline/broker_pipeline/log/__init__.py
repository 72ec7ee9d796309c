"""A broker's log over its read API: ranges of it, from whichever replica."""
