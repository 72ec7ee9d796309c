"""Wildcards of all slots of a process: one entry each, and in a slot a consumer with the first message only."""

from __future__ import annotations

from random import Random

from broker.core.address import AckMode, Routing
from broker.core.commands import Subscribe, SubscribeAll
from broker.engine.address.address_settings import matches
from broker.engine.address.wildcards import PIECE, Wildcards, slots_in

DOT = "."


def subscribed(wildcards: Wildcards, consumer: int, address: str, session: int = 1) -> None:
    model = Subscribe(0, session, 0, consumer, address, Routing.MULTICAST, AckMode.AUTO)
    wildcards.add(SubscribeAll(model), DOT)


def due(wildcards: Wildcards, slot: int, address: str) -> list[int]:
    found = wildcards.due(slot, address, DOT)
    assert {command.slot for command in found} <= {slot}
    return [command.consumer for command in found]


def test_who_is_due_in_a_slot_is_due_there_once() -> None:
    wildcards = Wildcards()
    subscribed(wildcards, 512, "a.*")
    subscribed(wildcards, 256, "a.#")
    assert due(wildcards, 7, "b.x") == [] == due(wildcards, 7, "$a.x")
    assert due(wildcards, 7, "a.x") == [256 + 7, 512 + 7]
    assert due(wildcards, 7, "a.x") == due(wildcards, 7, "a.y") == []
    assert due(wildcards, 8, "a") == [256 + 8]
    subscribed(wildcards, 768, "#")
    assert due(wildcards, 7, "a.x") == [768 + 7], "a later one counts for addresses that were asked for before"
    assert due(wildcards, 7, "b.x") == []


def test_the_end_of_one_tells_where_it_was_awake_and_leaves_nothing() -> None:
    wildcards = Wildcards()
    subscribed(wildcards, 256, "a.*")
    subscribed(wildcards, 512, "a.*", session=2)
    due(wildcards, 3, "a.x")
    due(wildcards, 200, "a.y")
    assert wildcards.end(256, session=2) is None and wildcards.end(512, session=1) is None
    awake = wildcards.end(256, session=1)
    assert awake is not None and list(slots_in(awake)) == [3, 200]
    assert wildcards.end(256, session=1) is None
    assert due(wildcards, 4, "a.x") == [512 + 4] and wildcards.some == 1
    assert wildcards.end(512, session=2) is not None and not wildcards.some and not wildcards._sessions


def test_a_session_ends_in_pieces_and_nothing_of_it_is_due_meanwhile() -> None:
    wildcards = Wildcards()
    for number in range(1, 5 * PIECE):
        subscribed(wildcards, number * 256, f"a{number}.#")
    subscribed(wildcards, 5 * PIECE * 256, "#", session=2)
    due(wildcards, 9, "a1.x")
    assert list(slots_in(wildcards.end_session(1))) == [9]
    assert due(wildcards, 10, "a2.x") == [5 * PIECE * 256 + 10]
    pieces = 1
    while wildcards.tidy():
        pieces += 1
        assert wildcards.some > 5 * PIECE - pieces * PIECE - 1, "a piece was larger than PIECE"
    assert pieces >= 4 and wildcards.some == 1
    assert wildcards.end_session(1) == 0 == wildcards.end_session(3)


def part(slot: int, first: int, address: str, session: int = 1, room: int = 100) -> Subscribe:
    return Subscribe(slot, session, 0, first + slot, address, Routing.MULTICAST, AckMode.AUTO, room=room)


def test_parts_that_come_one_by_one_share_an_entry_for_as_long_as_one_sleeps() -> None:
    wildcards = Wildcards()
    for slot in range(256):
        assert wildcards.sleep(slot, part(slot, 512, "a.*"), DOT)
    assert wildcards.some == 1
    for slot in range(256):
        assert due(wildcards, slot, "a.x") == [512 + slot] and due(wildcards, slot, "a.x") == []
    assert not wildcards.some and not wildcards._sessions


def test_a_part_unlike_the_others_is_kept_by_who_has_it() -> None:
    wildcards = Wildcards()
    assert wildcards.sleep(1, part(1, 512, "a.*"), DOT) and wildcards.sleep(2, part(2, 512, "a.*"), DOT)
    assert not wildcards.sleep(3, part(3, 512, "b.*"), DOT)
    assert not wildcards.sleep(3, part(3, 511, "a.*"), DOT), "no number of a block"
    assert not wildcards.sleep(2, part(2, 512, "a.*", room=90), DOT), "one that comes again with less room"
    assert due(wildcards, 2, "a.x") == [] and due(wildcards, 1, "a.x") == [513] and not wildcards.some


def test_parts_are_those_of_a_plain_table() -> None:
    """Against one that keeps every consumer by itself, over slots that come and go and sessions that end."""
    random = Random(11)
    for _ in range(60):
        wildcards, plain = Wildcards(), {}
        addresses = ["a.x", "a.y", "b.x", "c"]
        patterns = {256 * n: random.choice(["a.*", "a.#", "#", "*.x", "c"]) for n in range(1, 7)}
        for _ in range(200):
            slot, first = random.randrange(4), random.choice(sorted(patterns))
            session = 1 + first // 256 % 3
            match random.randrange(8):
                case 0 | 1 | 2:
                    assert wildcards.sleep(slot, part(slot, first, patterns[first], session), DOT)
                    plain[slot, first] = session
                case 3:
                    known = plain.pop((slot, first), None) is not None
                    assert wildcards.forget(slot, first + slot, session) is known
                case 4:
                    wildcards.forget_session(slot, session)
                    plain = {at: who for at, who in plain.items() if at[0] != slot or who != session}
                case 5:
                    wildcards.drop(slot)
                    plain = {at: who for at, who in plain.items() if at[0] != slot}
                case 6:
                    wildcards.tidy()
                case _:
                    address = random.choice(addresses)
                    words = address.split(DOT)
                    mine = [f for at, f in sorted(plain) if at == slot and matches(patterns[f].split(DOT), words)]
                    assert due(wildcards, slot, address) == [f + slot for f in mine]
                    for found in mine:
                        del plain[slot, found]
        for session in (1, 2, 3):
            for slot in range(4):
                wildcards.forget_session(slot, session)
        while wildcards.tidy():
            pass
        assert not wildcards.some and not wildcards._sessions and not wildcards._trie._root.children
