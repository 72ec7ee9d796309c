"""SEND frames become commands: as few as may be, never what was not meant, and receipts that say what is so."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.commands import Publish, Transact
from broker.core.effects import Done
from broker.core.errors import Code, RefusedError
from broker.core.ids import slots_of
from broker.core.message import BLOB, DURABLE, TEXT, Blob
from broker.core.reasons import Reason
from broker.edge.requests import publishing
from broker.link.owner_port import Away
from broker.wire.events import Head, Sends

from .bench import Bench


def send(*bodies: bytes, to: str = "/queue/a", receipt: str = "", **headers: str) -> bytes:
    """Frames of one read; each has a content-length, and the receipt of its place."""
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return b"".join(
        b"SEND\ndestination:%b\n%b%bcontent-length:%d\n\n%b\0"
        % (to.encode(), lines.encode(), b"receipt:%b%d\n" % (receipt.encode(), n) if receipt else b"", len(body), body)
        for n, body in enumerate(bodies)
    )


def published(bench: Bench) -> list[Publish]:
    commands = [command for command in bench.port.commands if type(command) is Publish]
    bench.port.commands.clear()
    return commands


def bodies(command: Publish) -> list[bytes]:
    return [
        (command.run.lines + record).partition(b"\n\n")[2][:-1] for record in command.run.records
    ]  # fmt: skip


@pytest.fixture
async def bench() -> Bench:
    return Bench()


SPLIT = EngineSettings(addresses={"a": {"partitions": 4}})


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────────


async def test_neighbours_of_one_destination_are_one_command(bench):
    session, _ = bench.session()
    session.receive(send(b"1", b"2", b"3") + send(b"4", to="/queue/b") + send(b"5"))
    found = published(bench)
    assert [(each.address, bodies(each)) for each in found] == [("a", [b"1", b"2", b"3"]), ("b", [b"4"]), ("a", [b"5"])]
    session.receive(send(b"6"))
    assert len(published(bench)) == 1, "what was submitted is not added to"


async def test_many_queues_in_turn_are_one_command_each(bench):
    """In the order of the frames to each; a receipt, as ever, is for all in front of it."""
    session, _ = bench.session()

    def frame(n: int, receipt: str = "") -> bytes:
        return send(b"%d" % n, to=f"/queue/{n % 10}", receipt=receipt)

    for _ in range(3):  # what is known then
        session.receive(b"".join(map(frame, range(30))))
    published(bench)
    session.receive(b"".join(map(frame, range(50))) + frame(50, "r") + frame(61) + frame(70))
    found = [(each.address, [int(body) for body in bodies(each)]) for each in published(bench)]
    assert found == [*[(str(n), list(range(n, 50, 10))) for n in range(10)], ("0", [50]), ("1", [61]), ("0", [70])]


async def test_what_was_asked_in_between_stays_in_between(bench):
    session, _ = bench.session()
    bench.port.commands.clear()
    session.receive(send(b"1") + b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0" + send(b"2"))
    assert [type(each).__name__ for each in bench.port.commands] == ["Publish", "Subscribe", "Publish"]


async def test_what_wants_no_receipt_does_not_join_what_wants_one(bench):
    """Its answer would wait for what nobody asked about."""
    session, _ = bench.session()
    session.receive(send(b"first", to="/queue/b"))
    publisher, batch = session.inbound.publisher, session.inbound.batch
    for receipts in (["r"], None, None):
        publisher.sends(Sends(Head(b"", {"destination": "/queue/a"}, 0, False), [b"\nx\0"], receipts, 3))
    assert [(len(each.run.records), bool(each.seq)) for each in batch] == [(1, True), (2, False)]


async def test_other_options_are_another_command(bench):
    session, _ = bench.session()
    session.receive(send(b"1") + send(b"2", persistent="true") + send(b"3", priority="9") + send(b"4"))
    found = published(bench)
    assert [bodies(each) for each in found] == [[b"1"], [b"2"], [b"3"], [b"4"]]
    assert [bool(each.run.flags & DURABLE) for each in found] == [False, True, False, False]
    assert [each.run.priority for each in found] == [4, 4, 9, 4]


async def test_headers_of_their_own_stay_with_each(bench):
    session, _ = bench.session()
    session.receive(send(b"1", color="red") + send(b"2", color="blue") + send(b"3"))
    (command,) = published(bench)
    texts = [command.run.lines + record for record in command.run.records]
    assert [(b"color:red" in text, b"color:blue" in text) for text in texts] == [
        (True, False), (False, True), (False, False),
    ]  # fmt: skip
    assert bodies(command) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("lines", [b"color:red\n", b""])
async def test_texts_and_bytes_with_lines_in_common_are_two_commands(bench, lines):
    """1.0 clients are told which is which; a record says it, unless it has header lines in common with others."""
    session, _ = bench.session()
    session.receive(send(b"first", to="/queue/b"))
    publisher, batch = session.inbound.publisher, session.inbound.batch
    for flags, record in ((TEXT, b"\ntext\0"), (0, b"content-length:5\n\nbytes\0")):
        head = Head(lines, {"destination": "/queue/a"}, flags, False)
        publisher.sends(Sends(head, [record], None, len(lines) + len(record)))
    assert [len(each.run.records) for each in batch] == ([1, 1] if lines else [2])


async def test_receipts_of_neighbours_are_one_question(bench):
    session, wire = bench.session()
    session.receive(send(b"1", b"2", receipt="r") + send(b"3", receipt="s"))
    (command,) = published(bench)
    assert command.seq and wire.take() == b""
    bench.edge.on_effects([Done(session.id, command.seq)])
    told = wire.take()
    assert [name for name in (b"r0", b"r1", b"s0") if b"receipt-id:%b\n" % name in told] == [b"r0", b"r1", b"s0"]


# ── split addresses ──────────────────────────────────────────────────────────────────────────────────


async def test_reads_take_turns_among_the_slots_of_a_split_address():
    bench = Bench(engine=SPLIT)
    session, _ = bench.session()
    for _ in range(4):
        session.receive(send(b"1", b"2"))
    found = published(bench)
    assert sorted(each.slot for each in found) == sorted(slots_of("a", 4)) and len(found) == 4


async def test_a_group_stays_in_one_slot():
    bench = Bench(engine=SPLIT)
    session, _ = bench.session()
    for _ in range(4):
        session.receive(send(b"1", JMSXGroupID="g") + send(b"2", JMSXGroupID="h"))
    by_group: dict[bytes, set[int]] = {b"1": set(), b"2": set()}
    for each in published(bench):
        for body in bodies(each):
            by_group[body].add(each.slot)
    assert len(by_group[b"1"]) == len(by_group[b"2"]) == 1


async def test_a_transaction_stays_in_one_slot_so_that_none_has_to_agree():
    bench = Bench(engine=SPLIT)
    session, _ = bench.session()
    session.receive(b"BEGIN\ntransaction:t\n\n\0")
    for _ in range(5):
        session.receive(send(b"1", b"2", transaction="t"))
    session.receive(b"COMMIT\ntransaction:t\n\n\0")
    transact = bench.port.last(Transact)
    assert len({part.slot for part in transact.parts}) == 1
    assert sum(len(part.run.records) for part in transact.parts) == 10


async def test_where_messages_are_refused_one_by_one_each_is_a_command_of_its_own():
    bench = Bench(engine=EngineSettings(addresses={"a": {"max_size_messages": 5, "full_policy": "FAIL"}}))
    session, _ = bench.session()
    session.receive(send(b"1", b"2", b"3", receipt="r") + send(b"4", to="/queue/b"))
    found = published(bench)
    assert [bodies(each) for each in found] == [[b"1"], [b"2"], [b"3"], [b"4"]]
    assert len({each.seq for each in found[:3]}) == 3 and all(each.seq for each in found[:3])


# ── several destinations, times, transactions ────────────────────────────────────────────────────────


async def test_a_message_in_a_transaction_is_sent_by_its_commit_and_receipted_at_once(bench):
    session, wire = bench.session()
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + send(b"1", receipt="r", transaction="t"))
    assert published(bench) == [] and b"receipt-id:r0" in wire.take()
    session.receive(b"ABORT\ntransaction:t\n\n\0")
    assert published(bench) == [] and not [each for each in bench.port.commands if type(each) is Transact]


CLASSIC = {"classic": {"dialect": "activemq", "port": 1}}


async def test_a_message_for_several_destinations_is_one_command_of_all_or_nothing():
    bench = Bench(CLASSIC)
    session, wire = bench.session("classic")
    session.receive(send(b"1", b"2", to="/queue/a,/queue/b", receipt="r"))
    transact = bench.port.last(Transact)
    assert sorted((part.address, bodies(part)) for part in transact.parts) == [
        ("a", [b"1", b"2"]), ("b", [b"1", b"2"]),
    ]  # fmt: skip
    for part in transact.parts:
        size = sum(len(part.run.lines) + len(record) for record in part.run.records)
        assert part.create and part.run.nbytes == size
    assert transact.seq and wire.take() == b""
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + send(b"3", to="/queue/a,/queue/b", transaction="t"))
    assert bench.port.commands[-1] is transact, "in a transaction it waits for its COMMIT"


async def test_what_one_of_several_destinations_refuses_goes_to_none():
    bench = Bench(CLASSIC, permissions={"a": {"send": "*"}, "b": {"consume": "*"}})
    session, wire = bench.session("classic")
    session.receive(send(b"1", to="/queue/a,/queue/b"))
    assert wire.take().startswith(b"ERROR") and not [each for each in bench.port.commands if type(each) is Transact]


async def test_a_delay_is_a_length_that_the_owner_adds_to_its_clock(bench):
    session, _ = bench.session()
    session.receive(send(b"1", AMQ_SCHEDULED_DELAY="5000").replace(b"AMQ-SCHEDULED-DELAY", b"AMQ_SCHEDULED_DELAY"))
    (command,) = published(bench)
    assert command.delay == 5000 and command.run.due >= bench.edge.clock.wall_ms() - 1000 + 4000


async def test_an_error_in_a_frame_sends_nothing_of_it(bench):
    session, wire = bench.session()
    session.receive(send(b"1") + send(b"2", priority="x", receipt="r"))
    assert [bodies(each) for each in published(bench)] == [[b"1"]]
    told = wire.take()
    assert told.startswith(b"ERROR") and b"receipt-id:r0" in told


async def test_a_user_who_may_not_send_creates_nothing():
    bench = Bench(permissions={"#": {"send": "*"}})
    session, wire = bench.session()
    session.receive(send(b"1"))
    (command,) = published(bench)
    assert not command.create, "an address is made by who may make it"
    bench = Bench(permissions={"#": {"consume": "*"}})
    session, wire = bench.session()
    session.receive(send(b"1"))
    assert published(bench) == [] and wire.take().startswith(b"ERROR")


# ── large bodies ─────────────────────────────────────────────────────────────────────────────────────

LARGE = b"x" * 5000


async def begun(bench: Bench, **headers: str) -> tuple[Any, Any, Any]:
    """(session, wire, writer) of a large message that has come but for its last 1000 bytes."""
    session, wire = bench.session()
    frame = send(LARGE, **headers)
    session.receive(frame[:-1001])
    return session, wire, bench.port.writers[0]


async def test_a_large_body_is_stored_before_its_message_is_published(bench):
    session, _, writer = await begun(bench, receipt="r", persistent="true")
    session.receive(b"x" * 1000 + b"\0" + send(b"behind"))
    assert writer.data == LARGE and writer.finished is not None and published(bench) == []
    writer.finished(Blob(7, 5000), "")
    first, behind = published(bench)
    assert (
        (first.run.blob.id, first.run.blob.length) == (7, 5000) and first.run.flags & BLOB and first.run.flags & DURABLE
    )
    assert first.run.records == [b"content-length:5000\n\n"] and first.seq
    assert first.run.nbytes == len(first.run.lines) + len(first.run.records[0]) + 5000 + 1
    assert bodies(behind) == [b"behind"], "order is kept"


@pytest.mark.parametrize(
    ("why", "said"), [("disk", b"the body could not be stored: disk"), (Away("moved"), b"not stored, send it again")]
)
async def test_a_body_that_could_not_be_stored_is_no_message(bench, why, said):
    session, wire, writer = await begun(bench, receipt="r")
    session.receive(b"x" * 1000 + b"\0")
    writer.finished(None, why)
    told = wire.take()
    assert told.startswith(b"ERROR") and said in told and b"receipt-id:r0" in told and published(bench) == []


async def test_a_client_that_goes_in_the_middle_leaves_no_body(bench):
    session, _, writer = await begun(bench)
    aborted: list[bool] = []
    writer.abort = lambda: aborted.append(True)
    session.abort(Reason.CLIENT_GONE)
    assert aborted and published(bench) == []


async def test_what_comes_to_the_disk_after_its_client_has_gone_is_no_message(bench):
    session, _, _ = await begun(bench)
    large = session.inbound.publisher.large
    session.inbound.publisher.large = None
    large._finished(Blob(7, 5000), "")
    assert published(bench) == [] and session.inbound.batch == []


@pytest.mark.parametrize("persistent", ["true", "false"])
async def test_a_body_is_synced_where_its_message_is_to_last(bench, persistent):
    session, _, writer = await begun(bench, persistent=persistent)
    synced: list[bool] = []
    writer.finish = lambda sync, done: synced.append(sync)
    session.receive(b"x" * 1000 + b"\0")
    assert synced == [persistent == "true"]


async def test_a_disk_that_is_behind_pauses_the_socket_and_lets_it_go_on(bench, monkeypatch):
    monkeypatch.setattr(publishing, "PENDING_BODY_BYTES", 2000)
    session, _, writer = await begun(bench)
    holds: list[str] = []
    monkeypatch.setattr(type(session.inbound), "pause_reading", lambda self, why: holds.append("hold"))
    monkeypatch.setattr(type(session.inbound), "resume_reading", lambda self, why: holds.append("release"))
    large = session.inbound.publisher.large
    writer.pending = 2001
    large.data(b"y")
    large.data(b"y")
    assert holds == ["hold"]
    writer.pending = 1500
    large._drained()
    assert holds == ["hold"], "not by turns"
    writer.pending = 900
    large._drained()
    large._drained()
    assert holds == ["hold", "release"] and large.pending == 900


@pytest.mark.parametrize(
    "headers", [{"transaction": "t"}, {"to": "/queue/a,/queue/b"}], ids=["in a transaction", "to several"]
)
async def test_what_a_large_message_cannot_be_is_said_before_it_is_sent(headers):
    bench = Bench(CLASSIC)
    session, wire = bench.session("classic")
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + send(LARGE, **headers)[:300])
    told = wire.take()
    assert told.startswith(b"ERROR") and b"bodies of 1000 bytes and more" in told and bench.port.writers == []


async def test_a_large_message_of_a_group_goes_where_the_group_is():
    bench = Bench(engine=SPLIT)
    session, _ = bench.session()
    session.receive(send(b"small", JMSXGroupID="g"))
    (small,) = published(bench)
    session.receive(send(LARGE, JMSXGroupID="g"))
    bench.port.writers[0].finished(Blob(7, 5000), "")
    (large,) = published(bench)
    assert large.slot == small.slot


# ── several destinations, several times, management ──────────────────────────────────────────────────


def whole(part: Publish) -> list[bytes]:
    return [part.run.lines + record for record in part.run.records]


@pytest.mark.parametrize("frame", [b"SEND\ndestination:%b\nfoo:bar\n\n%b\0", b"SEND\ndestination:%b\n\n%b\0"])
async def test_each_of_several_destinations_is_said_in_its_messages_and_counted(frame):
    bench = Bench(CLASSIC)
    session, _ = bench.session("classic")
    to = b"/queue/a,/queue/b"
    session.receive(b"".join(frame % (to, b"x" * n) for n in (1, 2, 3)))
    parts = bench.port.last(Transact).parts
    assert [part.address for part in parts] == ["a", "b"]
    for part in parts:
        messages = whole(part)
        assert part.run.nbytes == sum(map(len, messages))
        own = b"destination:/queue/%b\n" % part.address.encode()
        assert all(own in message and b"original-destination:%b\n" % to in message for message in messages)


async def test_what_goes_to_one_destination_says_what_its_sender_wrote():
    bench = Bench(CLASSIC)
    session, _ = bench.session("classic")
    session.receive(b"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_PERIOD:1000\nAMQ_SCHEDULED_REPEAT:2\n\nx\0")
    (part,) = bench.port.last(Transact).parts
    assert b"original-destination" not in whole(part)[0] and b"destination:/queue/a\n" in whole(part)[0]


async def test_what_is_sent_again_and_again_keeps_for_whom_it_makes_a_queue():
    bench = Bench(CLASSIC, quotas={"user:*": {"max_queues": 9}})
    session, _ = bench.session("classic")
    session.receive(b"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_PERIOD:1000\nAMQ_SCHEDULED_REPEAT:2\n\nx\0")
    (part,) = bench.port.last(Transact).parts
    assert b"maker=anonymous" in part.run.records[0], "where it goes"
    assert part.create is True, "where it rests is of all who schedule: of the first one they would fill his queues"


async def test_what_is_sent_again_and_again_goes_to_all_of_its_destinations():
    bench = Bench(CLASSIC)
    session, _ = bench.session("classic")
    frame = b"SEND\ndestination:/queue/a,/queue/b\nAMQ_SCHEDULED_PERIOD:1000\nAMQ_SCHEDULED_REPEAT:2\n\n%b\0"
    session.receive(frame % b"1" + frame % b"2")
    parts = bench.port.last(Transact).parts
    assert [part.address.rpartition(".")[2] for part in parts] in (["a", "a", "b", "b"], ["a", "b"])
    assert all(b"AMQ_SCHEDULED" not in message.partition(b"\n\n")[2] for part in parts for message in whole(part))


@pytest.mark.parametrize("receipt", [b"", b"receipt:r\n"])
async def test_a_management_request_is_receipted_when_it_is_carried_out(receipt):
    bench = Bench()
    session, wire = bench.session()
    waiting: list[Any] = []
    bench.edge.management = lambda asked, then: waiting.append((asked, then))
    session.receive(b"SEND\ndestination:activemq.management\n%breply-to:/queue/q\n\n[]\0" % receipt)
    (((request,), then),) = waiting
    assert (request.body, request.reply.address, wire.take()) == (b"[]", "q", b"")
    then(None)
    assert wire.take() == (b"RECEIPT\nreceipt-id:r\n\n\0" if receipt else b"")


@pytest.mark.parametrize("receipt", [b"", b"receipt:r\n"])
async def test_a_management_request_that_is_refused_ends_with_its_receipt_id(receipt):
    bench = Bench()
    session, wire = bench.session()
    bench.edge.management = lambda asked, then: then(RefusedError(Code.NOT_ALLOWED, "not yours"))
    session.receive(b"SEND\ndestination:activemq.management\n%breply-to:/queue/q\n\n[]\0" % receipt)
    told = wire.take()
    assert told.startswith(b"ERROR") and b"not yours" in told
    assert (b"receipt-id:r" in told) is bool(receipt)


async def test_where_messages_are_refused_one_by_one_each_frame_is_taken_or_refused_with_its_copies():
    bench = Bench(CLASSIC, engine=EngineSettings(addresses={"a": {"max_size_messages": 5, "full_policy": "FAIL"}}))
    session, _ = bench.session("classic")
    session.receive(b"SEND\ndestination:/queue/a,/queue/b\n\n1\0SEND\ndestination:/queue/a,/queue/b\n\n2\0")
    asked = [[bodies(part) for part in each.parts] for each in bench.port.commands if type(each) is Transact]
    assert asked == [[[b"1"], [b"1"]], [[b"2"], [b"2"]]]


async def test_of_several_destinations_one_that_is_split_has_its_share_in_each_slot():
    bench = Bench(CLASSIC, engine=SPLIT)
    session, _ = bench.session("classic")
    session.receive(b"".join(b"SEND\ndestination:/queue/a,/queue/b\n\n%d\0" % n for n in range(8)))
    commands = [part for each in bench.port.commands if type(each) is Transact for part in each.parts]
    assert {part.slot for part in commands if part.address == "a"} <= set(slots_of("a", 4))
    sent = sorted(body for part in commands if part.address == "a" for body in bodies(part))
    assert sent == [b"%d" % n for n in range(8)]
    assert {part.slot for part in commands if part.address == "b"} == set(slots_of("b", 1))


@pytest.mark.parametrize(("user", "taken"), [("", True), ("somebody", False)])
async def test_nobody_sends_in_the_name_of_another_one(user, taken):
    bench = Bench({"rabbit": {"dialect": "rabbitmq", "port": 1}})
    session, wire = bench.session("rabbit")
    session.receive(b"SEND\ndestination:/queue/a\nuser-id:%b\n\nx\0" % (user or session.login).encode())
    assert bool(published(bench)) is taken
    told = wire.take()
    assert (b"user_id property set to 'somebody'" in told) is not taken


@pytest.mark.parametrize(("persistent", "slots"), [("true", 1), ("false", 0)])
async def test_a_large_message_is_waited_for_at_the_end_where_it_is_to_last(bench, persistent, slots):
    session, _, writer = await begun(bench, persistent=persistent)
    session.receive(b"x" * 1000 + b"\0")
    writer.finished(Blob(7, 5000), "")
    assert len(session.unsettled()) == slots


async def test_who_may_send_and_not_create_creates_none_of_several_destinations():
    bench = Bench(CLASSIC, permissions={"#": {"send": "*"}})
    session, _ = bench.session("classic")
    session.receive(b"SEND\ndestination:/queue/a,/queue/b\n\n1\0")
    assert [part.create for part in bench.port.last(Transact).parts] == [False, False]


async def test_lengths_of_time_go_to_the_owner_as_such():
    """Its clock makes points of time of them; ours may be hours off."""
    bench = Bench()
    session, _ = bench.session()
    for headers, lengths in (
        (b"ttl:5000\n", (5000, 0)),
        (b"AMQ_SCHEDULED_DELAY:700\n", (0, 700)),
        (b"expires:99\n", (0, 0)),
        (b"AMQ_SCHEDULED_TIME:99\n", (0, 0)),
    ):
        bench.port.commands.clear()
        session.receive(b"SEND\ndestination:/queue/q\n%b\nx\0" % headers)
        publish = bench.port.last(Publish)
        assert (publish.ttl, publish.delay) == lengths
        assert publish.run.expires or publish.run.due
