"""When SENDs wait for company: a rest behind each batch, where many come that nobody waits for.

A message of gRPC from an edge to an owner, and the one that answers it, cost both processes more than reading,
routing and writing a SEND does. Batches keep that down where many SENDs come in a read. Where they come one by one,
some thousand in a second, the answer of the owner is back before the next two are there.

Rule: pure; times are monotonic seconds that callers hand in. Only what nobody waits for rests: an answer that is asked
for (a receipt, a subscription, an acknowledgement that makes room) never does.
"""

# Example. linger_ms is 1, DENSE 4. SENDs without receipts come every 0.2 ms; the owner answers within 0.3 ms.
#     0.0        the first one behind a pause: it leaves at once, and so do the next ones
#     1.0        five have left in this millisecond: dense. The batch that leaves now begins a rest
#     1.2 – 1.8  four gather; one with a receipt would have left at once, and they with it
#     2.0        the rest is over: they leave as one batch, and begin the next rest
#     9.0        the producer has ended; the next SEND finds no rest, and fewer than three in a millisecond: no rest

from __future__ import annotations

from typing import Final

DENSE: Final = 4
"""So many commands in one rest's time are worth a rest. A client that waits for each answer makes two or three in a
millisecond: alone on the link it never meets one."""
STILL_DENSE: Final = 3
"""… and so many are worth one more: what comes evenly would else rest in turns with not resting."""
ENOUGH_BYTES: Final = 16 * 1024
"""With so much queued a message costs little for each byte: it leaves at once."""


class Linger:
    """Of one link.

    seconds   how long a rest is; 0: there is none
    resting   a batch has left, and what nobody waits for stays for the next one"""

    __slots__ = ("_commands", "_dense", "_since", "resting", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.resting = False
        self._since = 0.0
        self._commands = 0
        self._dense = False

    def begins(self, commands: int, now: float) -> bool:
        """A batch of so many commands leaves. True: a rest begins, and the caller says when it is over()."""
        if not self.seconds:
            return False
        self._commands += commands
        passed = now - self._since
        if passed >= self.seconds:
            self._dense = self._commands * self.seconds >= (STILL_DENSE if self._dense else DENSE) * passed
            self._since, self._commands = now, 0
        if not self._dense or self.resting:
            return False
        self.resting = True
        return True

    def over(self) -> None:
        """What has gathered leaves."""
        self.resting = False
