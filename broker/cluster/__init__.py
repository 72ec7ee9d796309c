"""Who leads what, who is alive, what the settings are. Rule: decides over metadata, never over messages."""
