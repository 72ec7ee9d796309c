"""A slot in several owners: the leader's side and the follower's."""
