"""Management by messages, as Artemis has it."""
