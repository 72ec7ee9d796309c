"""The operator as a client of the owners: messages looked at and moved."""
