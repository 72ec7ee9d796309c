"""What one edge asks of all others: everybody is asked once, answers come as one, and who is silent is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from broker.link.codec.codec import NUMBER_BITS
from broker.link.edge_relay import ROUNDS, EdgeRelay, RelayedAnswers
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.two import SLOT, Two
from tests.unit.link.world import Edge, make_settings


class Owner:
    """With edges that answer when they are told to."""

    def __init__(self) -> None:
        self.timers: list[Any] = []
        self.relay = EdgeRelay(lambda seconds, then: self.timers.append(then))
        self.asked: dict[str, list[pb.Ask]] = {}
        self.told: list[pb.Told] = []

    def ask(self, *edges: str, id: int = 7, only: str = "") -> None:
        others = {edge: self.asked.setdefault(edge, []).append for edge in edges}
        self.relay.forward([pb.Ask(id=id, question=b"{}", edges=True, edge=only)], others, self.told.append)

    def answers(self, edge: str, answer: bytes = b'{"of":1}', failed: str = "") -> None:
        ask = self.asked[edge].pop()
        self.relay.heard(edge, [pb.Told(id=ask.id, answer=answer, failed=failed)])

    @property
    def said(self) -> RelayedAnswers:
        (told,) = self.told
        assert told.id == 7 and not told.failed
        return msgspec.json.decode(told.answer, type=RelayedAnswers)


def test_all_others_are_asked_and_answer_as_one():
    owner = Owner()
    owner.ask("e1", "e2")
    assert [ask.question for asks in owner.asked.values() for ask in asks] == [b"{}", b"{}"]
    owner.answers("e2")
    assert owner.told == []
    owner.answers("e1", b'{"of":2}')
    assert {edge: bytes(raw) for edge, raw in owner.said.answers.items()} == {"e1": b'{"of":2}', "e2": b'{"of":1}'}
    for late in owner.timers:
        late()
    assert len(owner.told) == 1, "said once"


def test_one_that_is_named_is_asked_alone():
    owner = Owner()
    owner.ask("e1", "e2", only="e2")
    assert owner.asked["e1"] == [] and len(owner.asked["e2"]) == 1
    owner.answers("e2")
    assert list(owner.said.answers) == ["e2"]


def test_one_that_is_named_and_not_there_is_answered_at_once():
    owner = Owner()
    owner.ask("e1", only="e3")
    assert owner.asked["e1"] == [] and owner.said == RelayedAnswers({}, {})


@pytest.mark.parametrize("why", ["refuses", "is lost", "is silent"])
def test_who_says_nothing_is_named(why):
    owner = Owner()
    owner.ask("e1", "e2")
    owner.answers("e1")
    if why == "refuses":
        owner.answers("e2", b"", "too much to do")
    elif why == "is lost":
        owner.relay.lost("e2")
    else:
        owner.timers[0]()
    assert list(owner.said.answers) == ["e1"] and list(owner.said.failed) == ["e2"]
    assert {"refuses": "too much", "is lost": "was lost", "is silent": "no answer"}[why] in owner.said.failed["e2"]


def test_an_edge_that_is_alone_has_an_answer_at_once():
    owner = Owner()
    owner.ask()
    assert owner.said == RelayedAnswers({}, {})


def test_an_edge_answers_for_itself_alone_and_once():
    owner = Owner()
    owner.ask("e1", "e2")
    (ask,) = owner.asked["e1"]
    owner.relay.heard("stranger", [pb.Told(id=ask.id, answer=b"{}")])
    owner.relay.heard("e1", [pb.Told(id=ask.id, answer=b"1"), pb.Told(id=ask.id, answer=b"2")])
    owner.answers("e2")
    assert bytes(owner.said.answers["e1"]) == b"1" and set(owner.said.answers) == {"e1", "e2"}


def test_more_than_it_can_ask_at_a_time_is_refused_and_room_comes_back():
    owner = Owner()
    for _ in range(ROUNDS + 1):
        owner.ask("e1")
    assert len(owner.asked["e1"]) == ROUNDS and "ask again" in owner.told[0].failed
    owner.relay.lost("e1")
    assert len(owner.told) == ROUNDS + 1
    owner.told.clear()
    owner.ask("e2")
    owner.answers("e2")
    assert set(owner.said.answers) == {"e2"}


def view(name: str) -> Any:
    def answer(question: dict[str, Any]) -> Any:
        yield
        yield
        return {"edge": name, "asked": question["kind"]}

    return answer


def test_an_edge_learns_from_another_by_an_owner():
    two = Two()
    other = Edge(two.world, make_settings(), "edge-1", "c", token=9)
    other.port.route(SLOT, 1, two.a.name, two.a.address)
    two.world.run()
    got: list[tuple[bytes | None, str]] = []

    def ask() -> RelayedAnswers:
        two.port.ask_edges(b'{"kind":"clients"}', lambda answer, why: got.append((answer, why)))
        two.world.run()
        return msgspec.json.decode(got.pop()[0] or b"", type=RelayedAnswers)

    assert "not ready" in ask().failed["edge-1"], "it has not begun to answer"
    other.port.answers.open(view("edge-1"))
    two.port.answers.open(view("edge-0"))
    assert {edge: bytes(raw) for edge, raw in ask().answers.items()} == {
        "edge-1": b'{"edge":"edge-1","asked":"clients"}'
    }, "not who asks"
    assert two.a.server.edge_of(9 << NUMBER_BITS | 5) == "edge-1" and two.a.server.edge_of(5) == ""
    other.port.close()
    two.world.run()
    assert ask() == RelayedAnswers({}, {}), "one without a stream is not asked"


def test_without_an_owner_nobody_is_asked():
    edge = Edge(Two().world, make_settings(), "edge-1", "c", token=9)
    got: list[tuple[bytes | None, str]] = []
    edge.port.ask_edges(b"{}", lambda answer, why: got.append((answer, why)))
    assert got == [(None, "no owner is reached, and edges are asked by one")]
