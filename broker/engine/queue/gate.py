"""What of a queue has been accepted and waits for the log.

    entries   runs that wait
    pages     those of them that will go to the page index
    nbytes    of the others: bytes that will stay in memory

Rule: what has come in goes out once, by the same way (`paged`), or the bound of the queue in memory is wrong for good.
"""

from __future__ import annotations

from broker.core.message import Run


class CommitGate:
    """Of one queue."""

    __slots__ = ("entries", "nbytes", "pages")

    def __init__(self) -> None:
        self.entries = self.nbytes = self.pages = 0

    def wait(self, run: Run, paged: bool) -> None:
        """The run waits; what it waits for is in `Slot.pending`."""
        self.entries += 1
        if paged:
            self.pages += 1
        else:
            self.nbytes += run.nbytes

    def wait_for_pages(self, runs: int) -> None:
        """Runs that were in memory wait to become positions."""
        self.entries += runs
        self.pages += runs

    def release(self, run: Run, paged: bool) -> None:
        """The log has it."""
        self.entries -= 1
        if paged:
            self.pages -= 1
        else:
            self.nbytes -= run.nbytes
