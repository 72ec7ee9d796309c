"""Which queues an address has, and what else gets a message: diverts, dead letters, those who come later."""
