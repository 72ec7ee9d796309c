"""Receipts that are waited for.

Rule: every future made here gets a result or an exception once: from its RECEIPT, from the ERROR that answers it, or
when the connection ends.
"""

from __future__ import annotations

import asyncio

from .errors import ClientError, ConnectionLost


class Receipts:
    """Made and used in one event loop."""

    __slots__ = ("_number", "_open")

    def __init__(self) -> None:
        self._number = 0
        self._open: dict[str, asyncio.Future[None]] = {}

    def expect(self) -> tuple[tuple[str, str], asyncio.Future[None]]:
        """The header line that asks for a receipt, and what is done when it comes."""
        self._number += 1
        id = f"r{self._number}"
        answer = self._open[id] = asyncio.get_running_loop().create_future()
        return ("receipt", id), answer

    def confirm(self, id: str) -> None:
        """Its RECEIPT has come. One that nobody waits for (any more) is ignored."""
        answer = self._open.pop(id, None)
        if answer is not None and not answer.done():
            answer.set_result(None)

    def refuse(self, id: str, error: ClientError) -> bool:
        """An ERROR answers it. Does anybody wait for it?"""
        answer = self._open.pop(id, None)
        if answer is None or answer.done():
            return False
        answer.set_exception(error)
        return True

    def lose(self, text: str) -> None:
        """The connection is over: none of them will come."""
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(text))
        self._open.clear()
