"""What a client's frames ask for, carried out: the reading half of a session, and changes while it lasts."""
