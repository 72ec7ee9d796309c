"""The STOMP 1.0, 1.1 and 1.2 rules C01 … C66 (see README.md here), each over a real socket against a real broker."""
