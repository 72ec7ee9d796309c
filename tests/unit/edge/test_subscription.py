"""A consumer of one slot: how its MESSAGE frames are written, what room it owes, and what it is a part of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Subscribe
from broker.core.effects import Deliver
from broker.core.ids import SLOTS
from broker.core.message import BLOB, ESCAPED, REDELIVERED, TEXT, Blob, Run
from broker.core.virtual_host import VirtualHost
from broker.edge.destinations.shown_destination import Shown
from broker.edge.subscriptions.subscription import (
    DIGITS,
    HostedSubscription,
    ShownSubscription,
    SlotSubscription,
    host_told,
)
from broker.wire.versions import Version

V10, V11, V12 = Version.V10, Version.V11, Version.V12


class Edge:
    def __init__(self) -> None:
        self.digits: dict[int, int] = {}
        self.granted: list[Any] = []
        self.submitted = 0

    def handle(self, consumer: int) -> bytes:
        return b"boot-%d" % consumer

    def grant(self, sub: SlotSubscription) -> None:
        self.granted.append(sub)

    def submit_grants(self) -> None:
        self.submitted += 1


def subscription(
    version: Version = V12, ack: AckMode = AckMode.AUTO, kind: type = SlotSubscription, id: str | None = "7",
    lines: bytes = b"", host: Any = None, room: int = 400, operation: str = "consume",
) -> Any:  # fmt: skip
    session: Any = SimpleNamespace(
        edge=Edge(), version=version, outbound="outbound",
        entrance=SimpleNamespace(dialect=SimpleNamespace(lines=lines, host=host)),
    )  # fmt: skip
    raw = (id or "").encode()
    return kind(session, 5, 3, "a", id, raw, ack, b"boot-5", room, b"/queue/a", operation, ("q",))


def run(*records: bytes, lines: bytes = b"", flags: int = 0, first: int = 10, **more: Any) -> Run:
    return Run(range(first, first + len(records)), lines, list(records), 0, flags, **more)


# ── frames ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_frame_says_whose_it_is_and_which_it_is():
    assert subscription().render(run(b"a:b\n\nx\0")) == (
        b"MESSAGE\nsubscription:7\nmessage-id:boot-5-10\na:b\n\nx\0"
    )  # fmt: skip
    assert subscription(V10, id=None).render(run(b"\nx\0")) == b"MESSAGE\nmessage-id:boot-5-10\n\nx\0"


@pytest.mark.parametrize(
    ("version", "ack", "named"),
    [(V12, AckMode.INDIVIDUAL, True), (V12, AckMode.CLIENT, True), (V12, AckMode.AUTO, False),
     (V11, AckMode.INDIVIDUAL, False)],
)  # fmt: skip
def test_what_is_acknowledged_by_an_id_of_its_own_has_one(version, ack, named):
    """STOMP 1.2, and only where something is to be acknowledged."""
    for records in ((b"\nx\0",), (b"\nx\0", b"\ny\0")):
        text = subscription(version, ack).render(run(*records))
        assert text.count(b"\nack:boot-5-") == (len(records) if named else 0)


@pytest.mark.parametrize("ack", [AckMode.AUTO, AckMode.INDIVIDUAL])
@pytest.mark.parametrize("lines", [b"", b"color:red\n"])
def test_one_message_is_written_like_one_of_many(ack, lines):
    """The way for one is a short cut."""
    one, other = run(b"\nx\0", lines=lines), run(b"\nx\0", b"\ny\0", lines=lines)
    frames = subscription(ack=ack).frames(other)
    assert subscription(ack=ack).render(one) == frames[0] and len(frames) == 2
    assert subscription(ack=ack).render(other) == b"".join(frames)


def test_subscribers_of_one_run_share_what_is_alike():
    shared = run(b"\nx\0", b"\ny\0")
    first = subscription().render(shared)
    assert shared.parts is not None
    kept = shared.parts
    assert subscription().render(shared) == first and shared.parts is kept


def test_what_was_out_before_says_so():
    """In front of the sender's headers: of repeated ones the first counts."""
    again = subscription().render(run(b"\nx\0", attempts=2))
    assert b"redelivered:true\ndelivery-count:3\nmessage-id:" in again
    lost = subscription().render(run(b"\nx\0", flags=REDELIVERED))
    assert b"redelivered:true\nmessage-id:" in lost and b"delivery-count" not in lost


@pytest.mark.parametrize(
    ("version", "shown"),
    [(V12, b"a:1\\c2\\r"), (V11, b"a:1\\c2"), (V10, b"a:1:2")],
)
def test_headers_are_written_as_the_version_reads_them(version, shown):
    text = subscription(version).render(run(b"a:1\\c2\\r\n\nx\0", flags=ESCAPED))
    assert shown in text
    large = run(b"content-length:9\n\n", lines=b"a:1\\c2\\r\n", flags=ESCAPED | BLOB, blob=Blob(1, 9))
    assert shown in subscription(version).render(large)


@pytest.mark.parametrize("lines", [b"", b"color:red\n\n"])
def test_a_text_has_no_length_for_who_tells_texts_by_that(lines):
    record = b"content-length:1\n\nx\0" if not lines else b"x\0"
    lines = lines.replace(b"\n\n", b"\ncontent-length:1\n\n")
    text = run(record, lines=lines, flags=TEXT)
    assert b"content-length" not in subscription(V10).render(text)
    for version in (V11, V12):
        again = run(record, lines=lines, flags=TEXT)
        assert b"content-length:1" in subscription(version).render(again)


def test_bytes_keep_their_length_in_every_version():
    """Within a run of texts, too: each record says what it is."""
    mixed = run(b"content-length:1\n\nx\0", b"content-length:2\na:b\n\n\0y\0", flags=TEXT)
    text = subscription(V10).render(mixed)
    assert b"content-length:2" in text and b"content-length:1" not in text


def test_a_browser_hears_of_its_end_in_a_frame_of_its_own():
    sub = subscription(operation="browse")
    assert sub.browses and not subscription().browses
    text = sub.browse_end()
    assert b"browser:end\n" in text and b"destination:/queue/a\n" in text and text.endswith(b"\n\n\0")


def test_the_lines_of_a_dialect_stand_in_every_frame():
    text = subscription(lines=b"persistent:true\n").render(run(b"\n\0"))
    assert b"subscription:7\npersistent:true\nmessage-id" in text


def test_where_a_message_is_kept_is_told_once_asked_for():
    sub = subscription()
    before = sub.overhead
    for _ in range(2):
        sub.tell_slot()
        assert sub.render(run(b"\nx\0")).count(b"message-slot:3\n") == 1
        assert sub.overhead == before + len(b"message-slot:3\n")
    assert b"message-slot:3\n" in sub.render(run(b"\nx\0", attempts=1))


def test_names_of_its_own_are_in_what_it_shows_and_in_what_it_counts():
    sub = subscription(kind=ShownSubscription)
    before = sub.overhead
    sub.shows(Shown("/topic/x", False))
    assert sub.overhead > before
    for text in (sub.render(run(b"destination:/queue/a\n\nx\0")), *sub.frames(run(b"destination:/queue/a\n\nx\0"))):
        assert b"destination:/topic/x\n" in text


# ── room ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [V10, V12])
@pytest.mark.parametrize("ack", [AckMode.AUTO, AckMode.INDIVIDUAL])
def test_what_stands_in_front_of_each_message_is_counted_to_the_byte(version, ack):
    sub = subscription(version, ack)
    number = 10 ** (DIGITS - 1)
    assert len(sub.render(run(b"\n\0", first=number))) == sub.overhead + len(b"\n\0")


def test_how_long_numbers_are_is_learnt_from_the_first_delivery():
    sub = subscription()
    sub.owe(Deliver(5, run(b"\n\0", first=10**9), 7))
    assert sub.session.edge.digits == {3: 10}
    sub.owe(Deliver(5, run(b"\n\0", first=10**11), 7))
    assert sub.session.edge.digits == {3: 10}, "once"


def test_room_goes_back_when_a_quarter_is_owed():
    sub = subscription(room=400)
    deliver = Deliver(5, run(b"\n\0"), 60)
    assert not sub.owe(Deliver(5, run(b"\n\0"), 100)) and sub.grant().nbytes == 100
    assert [sub.owe(deliver), sub.owe(deliver)] == [False, True]
    grant = sub.grant()
    assert (grant.slot, grant.consumer, grant.nbytes, sub.owed) == (3, 5, 120, 0)
    sub.gives_back_above(0)
    assert sub.owe(deliver)


def test_room_that_was_held_back_is_given_at_once():
    sub = subscription()
    sub.owes(50)
    sub.give_room()
    assert sub.owed == 50 and sub.session.edge.granted == [sub] and sub.session.edge.submitted == 1


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────


class SplitSubscription:
    def __init__(self, *parts: Any, whole: bool = False) -> None:
        self.parts = list(parts)
        self.whole = whole


def test_a_part_for_another_slot_begins_with_nothing():
    sub = subscription(ack=AckMode.INDIVIDUAL)
    sub.tell_slot()
    sub.owes(50)
    sub.asks(Subscribe(3, 1, 0, 5, "a", Routing.ANYCAST, AckMode.AUTO))
    other = sub.sibling(9, 8, 25)
    assert (other.consumer, other.slot, other.quarter, other.owed) == (9, 8, 25, 0)
    text = other.render(run(b"\nx\0"))
    assert b"message-id:boot-9-10\nack:boot-9-10\n" in text and b"message-slot:8\n" in text
    assert b"message-slot:3" not in text and b"message-slot:3" in sub.render(run(b"\nx\0"))


def test_alone_it_is_everywhere_where_its_address_is():
    sub = subscription()
    assert not sub.spread and not sub.wide
    assert (list(sub.lacking([3])), list(sub.lacking([3, 4]))) == ([], [4])
    assert list(sub.addresses()) == [sub]


def test_a_part_knows_where_others_are_missing():
    one, two, other = subscription(), subscription(), subscription()
    two.slot, other.slot, other.address = 4, 5, "b"
    for part in (one, two, other):
        part.join(SplitSubscription(one, two, other))
    assert list(one.lacking([3, 4, 5])) == [5], "that one is of another address"
    assert [part.address for part in one.addresses()] == ["a", "b"]
    one.leave_others()
    assert one.split is None


def test_one_that_is_in_all_slots_lacks_none():
    sub = subscription()
    sub.join(SplitSubscription(*[sub] * SLOTS))
    assert sub.spread and not sub.wide
    sub.join(SplitSubscription(*[sub] * SLOTS, whole=True))
    assert sub.wide and not sub.spread and list(sub.lacking([7, 8])) == []


def test_what_an_acknowledgement_settles_says_who_keeps_count():
    sub = subscription()
    assert sub.covered([4, 5]) == [(sub, [4, 5])]
    order: Any = SimpleNamespace(settle=lambda part, numbers: [("other", numbers)])
    sub.counted(order, paced=True)
    assert sub.covered([4]) == [("other", [4])] and sub.sink == "outbound", "what paces it stays in front"
    sub.counted(order, paced=False)
    assert sub.sink is order
    sub.goes_through("rates")  # type: ignore[arg-type]
    assert sub.sink == "rates"
    sub.over("nobody")  # type: ignore[arg-type]
    assert (sub.sink, sub.order, sub.split) == ("nobody", None, None)


# ── virtual hosts ────────────────────────────────────────────────────────────────────────────────────

SHOP = VirtualHost("shop")


def inner(name: str) -> bytes:
    return SHOP.inside(name).encode()


@pytest.mark.parametrize("body", [b"", b"\n\nbody"])
def test_origins_of_dead_letters_have_the_names_that_clients_know(body):
    """Only header lines: a body that looks like one is somebody's own."""
    line = b"_AMQ_ORIG_ADDRESS:" + inner("orders")
    assert host_told(b"a:b\n" + line + body, SHOP) == b"a:b\n_AMQ_ORIG_ADDRESS:orders" + body
    assert host_told(b"a:b\n\n" + line, SHOP) == b"a:b\n\n" + line
    assert host_told(b"\n" + line, SHOP) == b"\n" + line


@pytest.mark.parametrize("shared", [True, False])
def test_a_client_of_a_host_is_told_of_its_own_names(shared):
    line = b"_AMQ_ORIG_ADDRESS:" + inner("orders") + b"\n"
    sub = subscription(kind=HostedSubscription, host=SHOP)
    sub.begins(None)
    dead = run(b"\nx\0", lines=line) if shared else run(line + b"\nx\0")
    for text in (sub.render(dead), sub.frames(dead)[0]):
        assert b"_AMQ_ORIG_ADDRESS:orders\n" in text and inner("orders") not in text
    plain = run(b"\nx\0")
    assert sub._plainly(plain) is plain, "nothing is copied where nothing changes"


def test_a_name_of_its_own_is_shown_beside_that():
    sub = subscription(kind=HostedSubscription, host=SHOP)
    before = sub.overhead
    sub.begins(Shown("/topic/x", False))
    assert sub.overhead > before
    assert b"destination:/topic/x\n" in sub.render(run(b"destination:/queue/a\n\nx\0"))
