"""Questions of operators and their answers, beside the batches of a stream."""

from __future__ import annotations

from collections import deque
from itertools import count
from types import SimpleNamespace

import msgspec

from broker.core.address import Routing
from broker.core.commands import Act, Manage
from broker.link.codec.command_codec import put_command, read_commands
from broker.link.questions import MOST, SHARE, Asked, OperatorAnswers
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.loop_watchdog import PORTION_S
from broker.seams.read_turns import UNHURRIED


class Pair:
    """Both ends; steps run when they are told to."""

    def __init__(self) -> None:
        self.steps: deque = deque()
        self.asked = Asked()
        self.answers = OperatorAnswers(self.steps.append, count().__next__)
        self.got: list[tuple[bytes | None, str]] = []

    def ask(self, question: bytes, edge: str = "e1") -> None:
        up = pb.Up.FromString(
            self.asked.ask(question, lambda answer, why: self.got.append((answer, why))).SerializeToString()
        )
        self.answers.answer(edge, up.asks, lambda told: self.asked.told([told]))

    def run(self) -> None:
        while self.steps:
            self.steps.popleft()()


def view(question):
    if question["kind"] == "fails":
        raise KeyError("fails")

    def work():
        for _ in range(question["steps"]):
            yield
        if question["kind"] == "breaks":
            raise ValueError("a mistake of ours")
        return {"kind": question["kind"]}

    return work()


def test_answers_come_in_any_order_with_others_in_between():
    pair = Pair()
    pair.answers.open(view)
    pair.ask(b'{"kind":"long","steps":9}')
    pair.ask(b'{"kind":"short","steps":1}')
    assert pair.got == [] and len(pair.steps) == 2
    pair.run()
    assert pair.got == [(b'{"kind":"short"}', ""), (b'{"kind":"long"}', "")]


def test_portions_get_longer_the_longer_somebody_waits_and_not_where_nobody_does():
    clock, portions = SimpleNamespace(now=0.0), []

    def slow(question):
        for _ in range(5000):
            clock.now += PORTION_S / 2
            yield
        return {"kind": "slow"}

    for more in ({}, {UNHURRIED: True}):
        clock.now, pair = 0.0, Pair()
        pair.answers = OperatorAnswers(pair.steps.append, lambda: clock.now)
        pair.answers.open(slow)
        pair.ask(msgspec.json.encode({"kind": "slow", **more}))
        taken = 0
        while pair.steps:
            pair.steps.popleft()()
            taken += 1
        assert pair.got == [(b'{"kind":"slow"}', "")]
        portions.append(taken)
    assert portions[1] >= 5000 // 3 and portions[0] < portions[1] * 0.75, portions


def test_what_cannot_be_answered_is_said(caplog):
    pair = Pair()
    pair.ask(b'{"kind":"early","steps":0}')
    pair.answers.open(view)
    for question in (b"no json", b'{"kind":"fails"}', b"{}", b'{"kind":"breaks","steps":2}'):
        pair.ask(question)
    pair.run()
    assert [answer for answer, _ in pair.got] == [None] * 5
    assert "not ready" in pair.got[0][1] and all(why for _, why in pair.got)
    pair.ask(b'{"kind":"next","steps":0}')
    assert pair.got[-1] == (b'{"kind":"next"}', ""), "one that failed harms no other"


def test_an_edge_that_asks_without_end_is_bounded():
    pair = Pair()
    pair.answers.open(view)
    for _ in range(MOST + 3):
        pair.ask(b'{"kind":"long","steps":3}')
    assert len(pair.got) == 3 and len(pair.steps) == MOST
    pair.run()
    assert len(pair.got) == MOST + 3


def test_and_takes_nothing_from_another():
    pair = Pair()
    pair.answers.open(view)
    for _ in range(MOST):
        pair.ask(b'{"kind":"long","steps":3}')
    for edge in ("e2", "e3"):
        for _ in range(SHARE + 1):
            pair.ask(b'{"kind":"short","steps":1}', edge)
        assert len(pair.steps) % SHARE == 0 and "ask again" in pair.got[-1][1]
    assert len(pair.got) == 2 and len(pair.steps) == MOST + 2 * SHARE
    pair.run()
    assert sum(answer is not None for answer, _ in pair.got) == MOST + 2 * SHARE
    pair.ask(b'{"kind":"next","steps":0}', "e4")
    assert pair.got[-1] == (b'{"kind":"next"}', "") and not pair.answers._under_way, (
        "nothing is remembered of who has asked"
    )


def test_a_stream_that_ends_answers_everything():
    pair = Pair()
    pair.answers.open(view)
    pair.ask(b'{"kind":"long","steps":3}')
    pair.asked.lost("gone")
    pair.run()
    assert pair.got == [(None, "gone")]


def test_what_an_operator_does_travels():
    up = pb.Up()
    command = Manage(9, 3, 4, Act.CREATE, "a", "b", Routing.MULTICAST, "x = 1", True)
    put_command(command, up)
    put_command(Manage(9, 3, 5, Act.PURGE, "a", "b"), up)
    first, second = read_commands(pb.Up.FromString(up.SerializeToString()), 1)
    assert isinstance(first, Manage) and isinstance(second, Manage)
    assert (first.slot, first.seq, first.act, first.address, first.queue) == (9, 4, Act.CREATE, "a", "b")
    assert (first.routing, first.selector, first.force) == (Routing.MULTICAST, "x = 1", True)
    assert (second.act, second.selector, second.force) == (Act.PURGE, None, False)
    assert first.session == 1 << 40 | 3
