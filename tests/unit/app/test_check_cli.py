"""stampede cluster check: a slot that could not be looked at is no slot in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.app.commands import check_cli
from broker.app.commands.check_cli import ATTEMPTS, Verdict, verdicts
from broker.core.slots import Member, SlotRecord

RECORD = SlotRecord(0, 4, "a", ("a", "b"), ("a", "b"))
FINE = {"messages": 5, "looked_at": ["a", "b"], "differences": [], "failed": {}}


def picture(admin: str = "a:2", record: SlotRecord | None = RECORD) -> Any:
    owners = {"a": Member("a", "owner", "a:1", "boot", admin=admin)}
    return SimpleNamespace(view=SimpleNamespace(records={0: record} if record else {}, owners=owners))


@pytest.fixture
def asked(monkeypatch):
    """What is answered, one after the other; the last one again and again."""
    answers: list[Any] = []
    urls: list[str] = []

    def ask(url: str, _headers: Any, _timeout_s: float) -> Any:
        urls.append(url)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(check_cli, "answer_of", ask)
    return answers, urls


def look(*pictures: Any) -> tuple[list[Verdict], int]:
    given, pauses = list(pictures), []
    found = list(verdicts(lambda: given.pop(0) if len(given) > 1 else given[0], [0], lambda: pauses.append(1), {}))
    return found, len(pauses)


def test_the_leader_is_asked_and_what_differs_is_told(asked):
    answers, urls = asked
    answers.append({**FINE, "differences": ["b lacks 7"]})
    assert look(picture()) == ([Verdict(0, 5, ["a", "b"], ["b lacks 7"], "")], 0)
    assert urls == ["http://a:2/api/check?slot=0"]


def test_what_was_not_looked_at_is_tried_again_with_a_new_picture(asked):
    answers, _ = asked
    answers += [OSError("away"), {**FINE, "failed": {"b": "busy", "a": "busy, too"}}, FINE]
    assert look(picture()) == ([Verdict(0, 5, ["a", "b"], [], "")], 2)


def test_and_given_up_in_the_end_with_its_reason(asked):
    answers, urls = asked
    answers.append(OSError("away"))
    ((verdict,), pauses) = look(picture())
    assert verdict.problem == "a at a:2: away" and (pauses, len(urls)) == (ATTEMPTS - 1, ATTEMPTS)
    answers[0] = {**FINE, "failed": {"b": "busy", "a": "x"}}
    assert look(picture())[0][0].problem == "a: x; b: busy"


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (picture(record=None), "no live leader"),
        (picture(record=SlotRecord(0, 4, "", ("a",), ("a",))), "no live leader"),
        (picture(record=SlotRecord(0, 4, "dead", ("a",), ("a",))), "no live leader"),
        (picture(admin=""), "a has no admin port"),
    ],
)
def test_who_cannot_be_asked_is_named(asked, seen, why):
    assert why in look(seen)[0][0].problem and asked[1] == []
