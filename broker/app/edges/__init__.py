"""Edge processes of one broker (`stampede serve --edges`): the parent owns the slots, they speak STOMP (ADR 21)."""
