"""What is told of a session beside what it asked for: to its client, to subscribers of notices, to the audit log.

Rule: nothing here changes what becomes of a frame; a session asks for the words and sends them.
"""
