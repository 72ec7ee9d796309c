"""What of a queue has been accepted and waits for the log.

    entries   runs that wait
    pages     those of them that will go to the page index
    nbytes    of all but those: bytes that will stay in memory
    messages, paged_bytes   of all that wait, and of those that go to the index: what usage counts, so that
                            nobody need walk over `Slot.pending` for that

Rule: what has come in goes out once, by the same way (`paged`), or the bound of the queue in memory is wrong for good.
"""

# Example. A queue may hold 100 bytes in memory. Two durable runs of 60 bytes come in one turn, before the disk has
# either.
#     first    wait(run, paged=False): entries 1, nbytes 60
#     second   60 + 60 > 100: it will be paged. wait(run, True): entries 2, pages 1, nbytes 60
#     release  the first leaves nbytes (0) and is ready; the second leaves pages and becomes a position
# Without nbytes both would have been told that there is room: what waits for the log is not in the queue yet. Were
# `paged` decided again at the release, a third run could overtake the second (it would find memory free), and nbytes
# would keep the 60 of whoever changed sides.

from __future__ import annotations

from collections.abc import Sequence

from broker.core.message import Run


class CommitGate:
    """Of one queue."""

    __slots__ = ("entries", "messages", "nbytes", "paged_bytes", "pages")

    def __init__(self) -> None:
        self.entries = self.nbytes = self.pages = self.messages = self.paged_bytes = 0

    def wait(self, run: Run, paged: bool) -> None:
        """The run waits; what it waits for is in `Slot.pending`."""
        self.entries += 1
        self.messages += len(run.records)
        if paged:
            # While any of these wait, the queue goes on paging though its index is empty: they will stand there
            # (PageStore.drop, `more`).
            self.pages += 1
            self.paged_bytes += run.nbytes
        else:
            self.nbytes += run.nbytes

    def wait_for_pages(self, runs: Sequence[Run]) -> None:
        """Runs that were in memory wait to become positions."""
        for run in runs:
            self.wait(run, paged=True)

    def release(self, run: Run, paged: bool) -> None:
        """The log has it."""
        self.entries -= 1
        self.messages -= len(run.records)
        if paged:
            self.pages -= 1
            self.paged_bytes -= run.nbytes
        else:
            self.nbytes -= run.nbytes
