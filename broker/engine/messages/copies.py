"""Copies of messages that go to many queues: how many there are that have not been handed out.

    50 messages of a read to a topic with 500 subscribers are 25,000 deliveries: 30 to 80 ms, if they go out in the
    turn that brought them. They go out some thousand a turn (end_of_turn.py), and a session that sends more to
    such an address waits meanwhile (owner/inbox/deferred.py): else queues would get longer than memory has room for.

Rule: only messages that many queues get are counted, so that all others cost nothing. Must not know queues.
"""

from __future__ import annotations

from typing import Final

WIDE: Final = 16
"""Queues that get a message, above which its copies count."""
SPREAD: Final = 4000
"""Copies that wait to be handed out: then who sends more of that kind waits."""
AWAITED: Final = 8000
"""Queues that messages are to enter when the log has them: with one commit, in one step."""


class Copies:
    """due   in queues, not handed out, at most so many.    awaited   entries that wait for the log.
    many   enough of either: what makes more waits."""

    __slots__ = ("awaited", "due", "many")

    def __init__(self) -> None:
        self.due = self.awaited = 0
        self.many = False

    def entered(self, queues: int, messages: int) -> None:
        """So many messages have entered so many queues each."""
        self.due += queues * messages
        self.many = self.many or self.due >= SPREAD

    def waits(self, queues: int) -> None:
        """A run is to enter so many queues with a commit."""
        self.awaited += queues
        self.many = self.many or self.awaited >= AWAITED

    def arrived(self, queues: int, messages: int) -> None:
        """It has."""
        self.awaited -= queues
        self.entered(queues, messages)

    def went(self, messages: int) -> None:
        """So many messages were handed out, and there is more to hand out."""
        # What goes out may be no copy of a topic at all: an estimate from above, corrected to 0 whenever all is out.
        self.due = max(self.due - messages, 0)
        self.many = self.due >= SPREAD or self.awaited >= AWAITED

    def all_out(self) -> None:
        """What can go has gone."""
        self.went(self.due)
