"""A question whose answer comes at once, or later, or when nobody is there any more."""

from __future__ import annotations

import pytest

from broker.core.errors import Code, RefusedError
from broker.edge.destinations.asking import ask
from broker.edge.destinations.directory import Done

NO = RefusedError(Code.CLIENT_ID_IN_USE, "another has it")


class Asker:
    def __init__(self) -> None:
        self.closed = False
        self.inbound = self
        self.heard: list[object] = []

    def park(self) -> None:
        self.heard.append("park")

    def unpark(self) -> None:
        self.heard.append("unpark")

    def fail(self, code: Code, detail: str, receipt: bytes | None = None) -> None:
        self.heard.append((code, detail, receipt))

    def fault(self) -> None:
        self.heard.append("fault")

    def then(self) -> None:
        self.heard.append("then")


def at_once(answer: RefusedError | None):
    return lambda done: done(answer)


def test_a_yes_at_once_keeps_no_frame_waiting() -> None:
    asker = Asker()
    ask(asker, b"r", at_once(None), asker.then)
    assert asker.heard == ["then"]


def test_a_no_at_once_is_raised_where_it_was_asked() -> None:
    asker = Asker()
    with pytest.raises(RefusedError) as refused:
        ask(asker, b"r", at_once(NO), asker.then)
    assert refused.value is NO and asker.heard == []


def test_what_is_raised_after_a_yes_at_once_is_the_callers() -> None:
    def then() -> None:
        raise NO

    asker = Asker()
    with pytest.raises(RefusedError):
        ask(asker, b"r", at_once(None), then)
    assert asker.heard == []


def test_a_yes_that_comes_later_lets_the_frames_go_on_after_it() -> None:
    asker, asked = Asker(), list[Done]()
    ask(asker, b"r", asked.append, asker.then)
    assert asker.heard == ["park"]
    asked[0](None)
    assert asker.heard == ["park", "then", "unpark"]


def test_a_no_that_comes_later_ends_the_connection_with_its_receipt() -> None:
    asker, asked = Asker(), list[Done]()
    ask(asker, b"r", asked.append, asker.then)
    asked[0](NO)
    assert asker.heard == ["park", (NO.code, NO.detail, b"r")]


def test_what_goes_wrong_later_ends_it_too() -> None:
    for error, heard in ((NO, (NO.code, NO.detail, None)), (ValueError("a mistake"), "fault")):

        def then(error: Exception = error) -> None:
            raise error

        asker, asked = Asker(), list[Done]()
        ask(asker, None, asked.append, then)
        asked[0](None)
        assert asker.heard == ["park", heard]


@pytest.mark.parametrize("answer", [None, NO])
def test_nothing_happens_to_a_connection_that_has_ended_meanwhile(answer: RefusedError | None) -> None:
    asker, asked = Asker(), list[Done]()
    ask(asker, b"r", asked.append, asker.then)
    asker.closed = True
    asked[0](answer)
    assert asker.heard == ["park"]
