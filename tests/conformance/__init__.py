"""The STOMP 1.0, 1.1 and 1.2 rules, each over a real socket against a real broker.

C01 … C66 in the names of the tests number the sentences of the three specifications that concern a server, in the
order of: framing and headers (C01 … C18), connecting and heart-beats (C19 … C33), client frames (C34 … C56), server
frames (C57 … C66). Tests without a number are about what the broker promises beyond the specifications.
"""
