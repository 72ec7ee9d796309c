"""The STOMP 1.0, 1.1 and 1.2 rules, each over a real socket against a real broker.

C01 … C66 in the names of the tests number the sentences of the three specifications that concern a server:
docs/stomp-rules.md lists them. Tests without a number are about what the broker promises beyond the specifications.
"""
