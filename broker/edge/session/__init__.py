"""One client: its state, what it waits for, its writing half."""
