"""What goes out: which consumer gets what, in turns, by selector, by policy; and what it says of it (ACK, NACK)."""
