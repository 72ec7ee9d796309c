"""The write-ahead log on disk: one per process, shared by its slots.

Rule: what `write()` has returned for is on stable storage and comes back after any crash, or the journal
refuses to open. Knows records, runs and files; must not know queues' contents, sessions, sockets or loops.
"""
