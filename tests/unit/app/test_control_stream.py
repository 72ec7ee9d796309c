"""Questions between a broker and its edge processes: each has an answer, or hears that there will be none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.app.edges.control_stream import ControlStream, Parted
from broker.core.errors import BrokerError, Code, ConfigError, RefusedError
from broker.seams.stream import Ended


class Line:
    """A stream to the other talk; `cut`: nothing arrives any more."""

    peer = "other"
    pending = 0

    def __init__(self) -> None:
        self.to: ControlStream
        self.cut = False

    def send(self, message: bytes) -> None:
        if not self.cut:
            asyncio.get_running_loop().call_soon(self.to.on_message, message)

    def close(self, why: str, kind: Any = None) -> None:
        self.to.on_closed(Ended(why))

    def abort(self, why: str, kind: Any = None) -> None: ...


async def answering(kind: str, about: Any) -> Any:
    errors = {
        "refused": RefusedError(Code.CLIENT_ID_IN_USE, "ada"), "config": ConfigError("set it"),
        "broker": BrokerError("not now"),
    }  # fmt: skip
    if kind in errors:
        raise errors[kind]
    heard.append((kind, about))
    return about


heard: list[Any] = []


@pytest.fixture
async def talk() -> ControlStream:
    heard.clear()
    ends: list[Ended] = []
    mine, other, there, back = (
        ControlStream(answering, ends.append),
        ControlStream(answering, ends.append),
        Line(),
        Line(),
    )
    there.to, back.to = other, mine
    mine.begin(there)
    other.begin(back)
    mine.line, mine.ends = there, ends  # type: ignore[attr-defined]
    return mine


async def test_answers_belong_to_their_questions(talk):
    assert await asyncio.gather(*[talk.ask("echo", n) for n in range(5)]) == [0, 1, 2, 3, 4]


async def test_what_is_told_has_no_answer(talk):
    talk.tell("note", ["a"])
    assert await talk.ask("echo", "b") == "b"
    assert heard == [("note", ["a"]), ("echo", "b")]


async def test_refusals_come_as_they_were_raised(talk):
    with pytest.raises(RefusedError, match="ada") as refused:
        await talk.ask("refused")
    assert refused.value.code is Code.CLIENT_ID_IN_USE
    with pytest.raises(ConfigError, match="set it"):
        await talk.ask("config")
    with pytest.raises(BrokerError, match="not now"):
        await talk.ask("broker")


async def test_whoever_waits_hears_of_the_end(talk):
    talk.line.cut = True
    waiting = talk.ask("echo", 1)
    talk.on_closed(Ended("gone"))
    with pytest.raises(Parted, match="gone"):
        await waiting
    with pytest.raises(Parted):
        await talk.ask("echo", 2)
    talk.tell("note")
    assert [str(end) for end in talk.ends] == ["gone"]


async def test_an_answer_that_nobody_wants_any_more_harms_nobody(talk):
    talk.ask("echo", 1).cancel()
    assert await talk.ask("echo", 2) == 2
