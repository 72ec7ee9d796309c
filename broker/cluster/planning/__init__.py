"""Which owner leads and follows which slot. Rule: pure."""
