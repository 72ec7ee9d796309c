"""The follower's side: slots that others lead, what comes of their logs, and the streams it comes on.

Rule: follows, and decides nothing. Must not know the leader's side (leader.py): what passes between them is in proto/.
"""
