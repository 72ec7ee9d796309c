"""SUBSCRIBE and UNSUBSCRIBE, carried out: what is asked for, its parts, and those that come later."""
