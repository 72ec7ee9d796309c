"""The brain of a slot. Rule: deterministic; same commands and same `now` give the same effects."""
