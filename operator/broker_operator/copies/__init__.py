"""StompBackup and StompRestore: when what is copied, and the Jobs that do it."""
