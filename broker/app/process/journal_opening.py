"""Opening the journal: in a thread, saying how far it is, and ending when it is asked to.

Rule: a caller that gives up waiting has given up the folder too: nothing goes on behind its back. Must not know what
the journal is opened for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from broker.core.errors import BrokerError, JournalError
from broker.journal.journal import Journal

from .garbage import uncollected


class Opening:
    """`share`: how much of the log has been read, 0 to 1; what reads it a second time goes on with it."""

    def __init__(self) -> None:
        self.share = 0.0
        self._halted = False

    async def open(self, opener: Callable[..., Journal]) -> Journal:
        """`opener`: Journal.open with all its arguments but `watch`. Cancelled: the thread ends within a segment, and
        what it has opened is closed."""
        thread = asyncio.ensure_future(asyncio.to_thread(partial(opener, watch=self._watch)))
        with uncollected():
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                self._halted = True
                with suppress(BrokerError, OSError):
                    (await thread).close(clean=False)
                raise

    def _watch(self, share: float) -> None:
        if self._halted:
            raise JournalError("asked to stop before the journal was read")
        self.share = share / 2

    def second(self, share: float) -> None:
        """The second pass, over what lives."""
        self.share = 0.5 + share / 2

    def state(self) -> dict[str, Any]:
        """For /readyz."""
        return {"owner": f"recovering, {self.share:.0%}".replace("%", " %")}
