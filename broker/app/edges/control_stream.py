"""What the broker and its edge processes ask of each other beside messages: a stream of questions and answers.

Rule: never per message. Every question is answered, if only by its end: when the stream breaks, the caller that waits
hears of it. Knows no question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from broker.cluster.tasks import Tasks
from broker.core.errors import CODES, BrokerError, Code, ConfigError, RefusedError
from broker.seams.stream import Ended, Stream

TALK_SERVICE: Final = "talk"
ASK, ANSWER, REFUSAL, TELL = range(4)
Answering = Callable[[str, Any], Awaitable[Any]]
"""(kind of the question, what else it says) → the answer; what msgspec can write. Raises BrokerError."""


class Parted(BrokerError):
    """The other process has ended, or was ended."""


class ControlStream:
    """One end of the stream, and its StreamEnd. ended: called when it is over."""

    def __init__(self, answering: Answering, ended: Callable[[Ended], None]) -> None:
        self._answering = answering
        self._ended = ended
        self._stream: Stream | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._tasks = Tasks()

    def begin(self, stream: Stream) -> None:
        """The stream is there."""
        self._stream = stream

    def ask(self, kind: str, about: Any = None) -> asyncio.Future[Any]:
        """The answer, to be awaited. Raises there what the other end has raised, or Parted."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._stream is None:
            answer.set_exception(Parted("it has ended"))
            return answer
        self._number += 1
        self._waiting[self._number] = answer
        self._send(ASK, self._number, kind, about)
        return answer

    def tell(self, kind: str, about: Any = None) -> None:
        """The same, and nobody waits for an answer."""
        self._send(TELL, 0, kind, about)

    def close(self, why: str) -> None:
        """Ends the stream."""
        if self._stream is not None:
            self._stream.close(why)

    def on_message(self, message: bytes) -> None:
        sort, number, kind, about = msgspec.msgpack.decode(message)
        if sort in (ASK, TELL):
            self._tasks.spawn(self._answer(number, kind, about), f"answer to {kind}")
            return
        answer = self._waiting.pop(number, None)
        if answer is None or answer.done():
            return
        if sort == ANSWER:
            answer.set_result(about)
        else:
            answer.set_exception(_error(kind, *about))

    def on_closed(self, why: Ended) -> None:
        self._stream = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(Parted(why.detail))
        self._ended(why)

    async def _answer(self, number: int, kind: str, about: Any) -> None:
        try:
            answer = await self._answering(kind, about)
        except RefusedError as error:
            self._refuse(number, "refused", error.code, error.detail)
        except BrokerError as error:
            self._refuse(number, "config" if isinstance(error, ConfigError) else "", Code.INTERNAL, str(error))
        except BaseException:
            self._refuse(number, "", Code.INTERNAL, "it could not say")
            raise
        else:
            if number:
                self._send(ANSWER, number, "", answer)

    def _refuse(self, number: int, kind: str, code: Code, detail: str) -> None:
        if number:
            self._send(REFUSAL, number, kind, (code.number, detail))

    def _send(self, *told: Any) -> None:
        if self._stream is not None:
            self._stream.send(msgspec.msgpack.encode(told))


def _error(kind: str, number: int, detail: str) -> BrokerError:
    if kind == "refused":
        return RefusedError(CODES.get(number, Code.INTERNAL), detail)
    return ConfigError(detail) if kind == "config" else BrokerError(detail)
