"""The read API asked directly, without gRPC: who gets what, what is refused by name, and what becomes of a stream."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import grpc
import pytest

from broker.admin.log import log_reads
from broker.admin.log.log_reads import LogReads, _basic, _peer
from broker.admin.log.log_rows import HIDDEN
from broker.config.settings import LogReadsSettings
from broker.core.errors import Code, ConfigError, CorruptJournal, OffsetDiverged, OffsetExpired, RefusedError
from broker.core.ids import SLOTS
from broker.core.message import Blob
from broker.core.records import Left, SettleRecord
from broker.rpc.v1 import log_reads_pb2 as pb
from tests.unit.admin.reading_world import Clock, Place, Reader, message, queue, refusal, written

READER = Reader()


@pytest.fixture
async def service():
    """Makes the service of a journal; journal and place are its attributes."""
    made: list[LogReads] = []

    async def login(login: str | None, passcode: str | None, peer: str) -> Reader:
        if passcode == "wrong":
            raise RefusedError(Code.LOGIN_FAILED, "no")
        return Reader()

    def make(*records: Any, **settings: Any) -> Any:
        journal = written(*records)
        made.append(
            LogReads(LogReadsSettings(**settings), journal, Place(journal), login, Clock(), ".")  # type: ignore[arg-type]
        )
        return made[-1]

    yield make
    for each in made:
        await each.stop()


def asked(start: int = 1, slot: int = 1, **more: Any) -> pb.ReadRequest:
    more.setdefault("include_body", True)
    return pb.ReadRequest(slot=slot, **{"from": start}, **more)


async def read(service: Any, request: pb.ReadRequest, reader: Reader = READER) -> list[pb.ReadBatch]:
    return [pb.ReadBatch.FromString(batch) async for batch in service.read(request, reader)]


def bodies(batches: list[pb.ReadBatch]) -> list[bytes]:
    return [row.body for batch in batches for row in batch.rows]


MESSAGES = [message("a", n, b"%d" % n) for n in range(1, 8)]


# ── read ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_rows_come_up_to_where_they_are_wanted_and_the_last_answer_says_so(service):
    api = service(*MESSAGES)
    for until, last in ((0, 8), (5, 5), (99, 8)):
        batches = await read(api, asked(2, until=until))
        assert bodies(batches) == [b"%d" % n for n in range(2, last)]
        assert (batches[-1].next, batches[-1].done) == (last, until != 99), "more was wanted than there is"


@pytest.mark.parametrize("turn_rows", [1, 3, 1000])
async def test_small_answers_give_the_same_rows_and_say_where_to_go_on(service, turn_rows):
    api = service(*(message("a", n, b"x" * 500, b"y" * 500) for n in range(1, 40, 2)), turn_rows=turn_rows)
    batches = await read(api, asked(max_bytes=1500))
    assert len(bodies(batches)) == 40 and len(batches) > 10
    assert [batch.done for batch in batches].count(True) == 1
    half = batches[len(batches) // 2]
    rest = await read(api, asked(half.next, epoch=half.epoch))
    assert bodies(batches)[-len(bodies(rest)) :] == bodies(rest)


async def test_nothing_new_is_an_answer_too(service):
    (batch,) = await read(service(*MESSAGES), asked(8))
    assert (batch.next, batch.done, list(batch.rows)) == (8, True, [])


async def test_where_nothing_is_his_a_reader_hears_from_time_to_time_how_far_it_is(service, monkeypatch):
    monkeypatch.setattr(log_reads, "TURNS", 2)
    monkeypatch.setattr(log_reads, "TURN_BYTES", 1)
    batches = await read(service(*MESSAGES), asked(), Reader("b"))
    assert bodies(batches) == [] and [batch.next for batch in batches] == [3, 5, 7, 8]


async def test_only_what_counts_is_read(service):
    """Behind the high-water mark may be what only this replica has."""
    api = service(*MESSAGES)
    api._place.ends[1] = 4
    batches = await read(api, asked())
    assert bodies(batches) == [b"1", b"2", b"3"] and batches[-1].next == 4


async def test_what_is_missing_before_the_high_water_mark_is_an_error_never_a_gap(service):
    api = service(*MESSAGES)
    api._place.ends[1] = 20
    with pytest.raises(OffsetExpired):
        await asyncio.wait_for(read(api, asked()), 5)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asked(slot=SLOTS), Code.UNKNOWN_SLOT),
        (asked(view="all"), Code.BAD_READ),
        (asked(view="log"), Code.BAD_READ),
        (asked(addresses=["a", ""]), Code.BAD_READ),
        (asked(addresses=["a", "secret"]), Code.NOT_ALLOWED),
    ],
)
async def test_what_cannot_be_read_is_refused_by_name(service, request_, code):
    assert (await refusal(lambda: service(*MESSAGES).read(request_, Reader("a"))))[0] is code


@pytest.mark.parametrize(
    ("request_", "error"),
    [(asked(0), OffsetExpired), (asked(9), OffsetDiverged), (asked(3, epoch=7), OffsetDiverged),
     (asked(3, until=5, until_epoch=7), OffsetDiverged)],
)  # fmt: skip
async def test_another_log_than_the_one_that_is_meant_is_not_read(service, request_, error):
    with pytest.raises(error):
        await read(service(*MESSAGES), request_)


# ── slots that are elsewhere ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("why", "code", "text"),
    [(None, Code.READ_ELSEWHERE, "ask you:1"), ("not in sync", Code.REPLICA_BEHIND, "not in sync; ask you:1")],
)
async def test_a_slot_that_cannot_be_read_here_says_where_to_ask(service, why, code, text):
    api = service(*MESSAGES)
    api._place.led[1], api._place.why[1] = "you:1", why
    found = await refusal(lambda: api.read(asked(), READER))
    assert found[0] is code and text in found[1]
    api._place.led[1] = ""
    assert "nobody leads it just now" in (await refusal(lambda: api.read(asked(), READER)))[1]


async def test_a_follower_is_read_as_far_as_it_knows_and_no_further(service):
    """Whether its items are those that are meant cannot be told before it has the last of them."""
    api = service(*MESSAGES)
    api._place.led[1], api._place.why[1], api._place.ends[1] = "you:1", "", 5
    assert bodies(await read(api, asked(until=5))) == [b"1", b"2", b"3", b"4"]
    for request in (asked(6), asked(until=6)):
        found = await refusal(lambda request=request: api.read(request, READER))
        assert found[0] is Code.REPLICA_BEHIND and "up to 4, not to 5" in found[1]


# ── describe ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_description_says_where_each_slot_is(service):
    api = service(*MESSAGES, message("b", 9, b"x", slot=2))
    api._place.led[2] = "you:1"
    found = await api.describe(pb.DescribeRequest(), READER)
    assert [(part.slot, part.earliest, part.end, part.endpoint) for part in found.slots] == [
        (1, 1, 8, ""), (2, 0, 0, "you:1"),
    ]  # fmt: skip
    assert (found.endpoint, list(found.endpoints), found.now_ms) == ("me:1", ["me:1", "you:1"], 1234)
    assert found.broker_id == api._journal.disk_id
    api._place.led[2] = ""
    found = await api.describe(pb.DescribeRequest(), READER)
    assert found.slots[1].endpoint == "?", "an empty one would mean that it is here"


@pytest.mark.parametrize(("followers", "why", "here"), [(True, "", True), (True, "behind", False), (False, "", False)])
async def test_what_is_followed_is_offered_to_who_asked_for_that(service, followers, why, here):
    api = service(*MESSAGES)
    api._place.led[1], api._place.why[1] = "you:1", why
    (part,) = (await api.describe(pb.DescribeRequest(followers=followers), READER)).slots
    assert (part.follower, part.end, part.endpoint) == ((True, 8, "") if here else (False, 0, "you:1"))
    assert part.leader == ("you:1" if here else "")


async def test_epochs_that_have_no_item_before_the_mark_are_not_told(service, monkeypatch):
    api = service(*MESSAGES)
    monkeypatch.setattr(api._history, "lineage", lambda slot: [(1, 1), (2, 5), (3, 8)])
    (part,) = (await api.describe(pb.DescribeRequest(), READER)).slots
    assert [(line.epoch, line.start) for line in part.lineage] == [(1, 1), (2, 5)] and part.epoch == 2


async def test_names_say_which_slots_and_patterns_all_that_have_something(service):
    api = service(*MESSAGES, message("b", 9, b"x", slot=2))
    slots = {
        addresses: [part.slot for part in (await api.describe(pb.DescribeRequest(addresses=addresses), READER)).slots]
        for addresses in (("a",), ("c", "a"), ("nobody",), ("x.#",), ("c", "x.#"))
    }
    assert slots == {("a",): [1], ("c", "a"): [1, 3, 4], ("nobody",): [9], ("x.#",): [1, 2], ("c", "x.#"): [1, 2, 3, 4]}


async def test_names_that_are_none_are_told_and_patterns_are_not(service):
    many = [f"n{n}" for n in range(40)]
    found = await service().describe(pb.DescribeRequest(addresses=["a", "x.#", *many]), READER)
    assert list(found.unknown) == many


async def test_whether_hand_outs_are_recorded_is_asked_until_one_does(service):
    api = service()
    api._place.recording = {"b"}
    assert (await api.describe(pb.DescribeRequest(addresses=["a", "b", "c"]), READER)).deliveries
    assert api._place.asked == ["a", "b"]
    assert not (await api.describe(pb.DescribeRequest(addresses=["a"]), READER)).deliveries
    await api.describe(pb.DescribeRequest(), READER)
    assert api._place.asked[-1] == "#"


async def test_cuts_are_of_the_slots_that_are_here(service):
    api = service(*(message("a", n, b"x" * 900, slot=1 + n % 2) for n in range(1, 40)))
    api._place.led[2] = "you:1"
    found = await api.describe(pb.DescribeRequest(cuts=3), READER)
    assert [len(cut.offsets) for cut in found.cuts] == [1, 1, 1]
    assert [cut.offsets[0] for cut in found.cuts] == sorted(cut.offsets[0] for cut in found.cuts)
    assert not (await api.describe(pb.DescribeRequest(), READER)).cuts


async def test_a_description_of_everything_does_not_hold_the_loop(service):
    """256 slots and 256 cuts through them: others have the loop in between."""
    api, steps = service(*(message("a", 10 + s, b"x", slot=s) for s in range(200))), 0
    task = asyncio.ensure_future(api.describe(pb.DescribeRequest(addresses=["x.#"] * 64), READER))
    while not task.done():
        await asyncio.sleep(0)
        steps += 1
    assert steps >= 200 // log_reads.DESCRIBED + 2 * 64 // log_reads.DESCRIBED


# ── scan, lookup, watermark ──────────────────────────────────────────────────────────────────────────


def part(start: int = 1, slot: int = 1, **more: Any) -> pb.ScanPart:
    return pb.ScanPart(slot=slot, **{"from": start}, **more)


async def test_a_scan_goes_up_to_where_it_is_wanted_and_is_counted(service):
    api = service(*MESSAGES)
    request = pb.ScanRequest(parts=[part(2, until=99)], view="log")
    batches = [batch async for batch in api.scan(request, READER)]
    assert [getattr(at, "from") for at in batches[-1].next] == [8]
    scanned = next(metric for metric in api.metrics() if metric.name == "stomp_log_scanned_bytes_total")
    assert scanned.samples[0][1] == sum(len(batch.records) for batch in batches) > 0


async def test_a_scan_that_makes_no_sense_is_refused_before_anything_is_read(service):
    api = service(*MESSAGES)
    for request, code in (
        (pb.ScanRequest(parts=[part(), part()]), Code.BAD_READ),
        (pb.ScanRequest(parts=[part()], view="all"), Code.BAD_READ),
        (pb.ScanRequest(parts=[part(slot=SLOTS)]), Code.UNKNOWN_SLOT),
        (pb.ScanRequest(parts=[part()], addresses=["secret"]), Code.NOT_ALLOWED),
    ):
        assert (await refusal(lambda request=request: api.scan(request, Reader("a"))))[0] is code


async def test_a_time_is_looked_up_in_the_slots_that_are_here(service):
    api = service(*(message("a", n, b"x", time=100 * n, slot=s) for n, s in ((1, 1), (2, 2), (3, 1), (4, 2))))
    api._place.led[2], api._place.ends[1] = "you:1", 2
    found = dict((await api.lookup(pb.LookupRequest(ts_ms=250), READER)).offsets)
    assert len(found) == SLOTS - 1 and found[1] == 2 and found[5] == 1
    assert dict((await api.lookup(pb.LookupRequest(ts_ms=0, slots=[1]), READER)).offsets) == {1: 1}
    assert (await refusal(lambda: api.lookup(pb.LookupRequest(slots=[SLOTS]), READER)))[0] is Code.UNKNOWN_SLOT


async def test_the_mark_of_an_archive_is_of_everything_and_lies_within_the_log(service):
    api = service(*MESSAGES)
    request = pb.WatermarkRequest(name="lake", offsets={1: 8})
    assert (await refusal(lambda: api.watermark(request, Reader("a"))))[0] is Code.NOT_ALLOWED
    for offsets in ({1: 9}, {1: 0}, {SLOTS: 1}):
        bad = pb.WatermarkRequest(name="lake", offsets=offsets)
        assert (await refusal(lambda bad=bad: api.watermark(bad, READER)))[0] is Code.BAD_READ
    assert api._journal.marks.names == {}
    assert (await api.watermark(request, READER)).limit_bytes == LogReadsSettings().keep_bytes
    assert api._journal.marks.names == {"lake": {1: 8}}
    api._place.led[1] = "you:1"
    await api.watermark(pb.WatermarkRequest(name="lake", offsets={1: 50}), READER)  # its follower may be behind
    await api.watermark(pb.WatermarkRequest(name="lake", forget=True), READER)
    assert api._journal.marks.names == {}


# ── large bodies ─────────────────────────────────────────────────────────────────────────────────────


class Body:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.checked = 0
        self.closed = False

    def check(self, at: int) -> int:
        self.checked = at + 2 * log_reads.BODY_PIECE
        return self.checked

    def read(self, at: int, n: int) -> bytes:
        assert at + min(n, len(self.data) - at) <= self.checked, "not one byte that was not checked"
        return self.data[at : at + n]

    def close(self) -> None:
        self.closed = True


BODY = bytes(range(256)) * 4 * 1024 * 3


@pytest.fixture
async def large(service, monkeypatch):
    """The service, with a large body at offset 2 of slot 1."""
    lost = message("a", 2, b"", blob=Blob(0xAB, len(BODY)))
    api = service(message("a", 1, b"x"), lost, message(HIDDEN, 3, b"", blob=Blob(0xCD, 5)), message("a", 4, b"x"))
    body = Body(BODY)
    monkeypatch.setattr(api._journal.blobs, "open", lambda id, length: body)
    api.body = body
    return api


def wanted(offset: int = 2, ref: str = "00000000000000ab", slot: int = 1) -> pb.ReadBodyRequest:
    return pb.ReadBodyRequest(slot=slot, offset=offset, body_ref=ref)


async def test_a_large_body_comes_in_pieces_each_of_them_checked(large):
    pieces = [chunk.data async for chunk in large.read_body(wanted(), READER)]
    assert b"".join(pieces) == BODY and max(map(len, pieces)) == log_reads.BODY_PIECE
    assert large.body.closed


async def test_a_body_may_be_asked_for_whoever_led_when_its_message_came(large, monkeypatch):
    monkeypatch.setattr(large._journal._appender.logs, "lineage", {1: [(3, 1)]})
    assert (await anext(large.read_body(wanted(), READER))).data


async def test_a_reader_who_goes_away_leaves_no_body_open(large):
    chunks = large.read_body(wanted(), READER)
    await anext(chunks)
    await chunks.aclose()
    assert large.body.closed


@pytest.mark.parametrize(
    ("request_", "reader"),
    [(wanted(ref="ab"), READER), (wanted(1), READER), (wanted(), Reader("b")), (wanted(3, "00000000000000cd"), READER)],
)
async def test_a_body_of_somebody_else_is_none(large, request_, reader):
    """Nor one of a transaction that is not decided."""
    assert (await refusal(lambda: large.read_body(request_, reader)))[0] is Code.BAD_READ


async def test_a_body_that_was_freed_meanwhile_is_told_as_expired(large, monkeypatch):
    def gone(id: int, length: int) -> Any:
        raise CorruptJournal("no file")

    monkeypatch.setattr(large._journal.blobs, "open", gone)
    with pytest.raises(OffsetExpired):
        await anext(large.read_body(wanted(), READER))


async def test_a_body_that_a_follower_does_not_have_yet_is_not_none(large):
    large._place.led[1], large._place.why[1], large._place.ends[1] = "you:1", "", 2
    assert (await refusal(lambda: large.read_body(wanted(), READER)))[0] is Code.REPLICA_BEHIND


# ── gRPC's side ──────────────────────────────────────────────────────────────────────────────────────


class Aborted(Exception):
    pass


class Context:
    def __init__(self, passcode: str = "") -> None:
        token = base64.b64encode(b"ada:" + passcode.encode()).decode()
        self.metadata = (("authorization", f"Basic {token}"),) if passcode else ()
        self.status: Any = None
        self.error = pb.Error()
        self.text = ""

    def invocation_metadata(self) -> Any:
        return self.metadata

    def peer(self) -> str:
        return "ipv4:10.0.0.7:4711"

    async def abort(self, status: Any, text: str, trailing: Any) -> None:
        self.status, self.text = status, text
        self.error = pb.Error.FromString(dict(trailing)["stampede-error-bin"])
        raise Aborted


async def failed(api: Any, error: Exception, slot: int = 1) -> Context:
    """How a stream that ends with this error is told."""
    context = Context()

    async def call(request: Any, reader: Any) -> Any:
        yield b"one"
        raise error

    with pytest.raises(Aborted):
        async for _ in api._stream(call)(asked(slot=slot), context):
            pass
    return context


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RefusedError(Code.BAD_READ, "no"), grpc.StatusCode.INVALID_ARGUMENT, Code.BAD_READ),
        (RefusedError(Code.OWNER_MOVED, "no"), grpc.StatusCode.INTERNAL, Code.OWNER_MOVED),
        (OffsetExpired(1, 3, 5), grpc.StatusCode.OUT_OF_RANGE, Code.OFFSET_EXPIRED),
        (OffsetDiverged(1, "another"), grpc.StatusCode.FAILED_PRECONDITION, Code.OFFSET_DIVERGED),
        (CorruptJournal("rot"), grpc.StatusCode.DATA_LOSS, Code.INTERNAL),
    ],
)
async def test_an_error_has_a_status_of_grpc_a_number_of_ours_and_is_counted(service, error, status, code):
    api = service(*MESSAGES)
    context = await failed(api, error)
    assert (context.status, context.error.code) == (status, code.number) and str(error) in context.text
    assert context.error.earliest == (5 if code is Code.OFFSET_EXPIRED else 0)
    assert api._refused == {code.name.lower(): 1} and api._streams == 0


async def test_what_has_expired_says_what_is_left_by_now(service):
    """More may have been freed than what the reader stumbled over."""
    api = service(*MESSAGES)
    api._journal._appender.logs.since[1] = 6
    assert (await failed(api, OffsetExpired(1, 3, 5))).error.earliest == 6


async def test_what_only_a_follower_lacks_is_not_gone(service):
    """Whether an offset has expired says its leader alone."""
    api = service(*MESSAGES)
    api._place.led[1] = "you:1"
    for error in (OffsetExpired(1, 3, 5), OffsetDiverged(1, "another")):
        context = await failed(api, error)
        assert (context.status, context.error.code) == (grpc.StatusCode.UNAVAILABLE, Code.REPLICA_BEHIND.number)
        assert (context.error.endpoint, context.error.earliest) == ("you:1", 0)


async def test_there_are_only_so_many_streams_and_each_that_ends_makes_room(service):
    api, going = service(*MESSAGES, max_streams=2), asyncio.Event()

    async def call(request: Any, reader: Any) -> Any:
        yield b"one"
        await going.wait()

    streams = [api._stream(call)(asked(), Context()) for _ in range(2)]
    for stream in streams:
        await anext(stream)
    third = Context()
    with pytest.raises(Aborted):
        await anext(api._stream(call)(asked(), third))
    assert third.error.code == Code.READER_LIMIT.number and api._streams == 2, "one that was refused is none"
    await streams[0].aclose()
    await anext(api._stream(call)(asked(), Context()))
    for stream in streams:
        await stream.aclose()


async def test_nobody_gets_in_without_a_login_that_is_right(service):
    api, called = service(*MESSAGES), []

    async def call(request: Any, reader: Any) -> Any:
        called.append(request)

    wrong = Context("wrong")
    with pytest.raises(Aborted):
        await api._unary(call)(asked(), wrong)
    assert (wrong.status, called) == (grpc.StatusCode.UNAUTHENTICATED, [])
    await api._unary(call)(asked(), Context("right"))
    assert len(called) == 1


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


def test_a_login_is_read_from_the_header_of_http():
    assert _basic([]) == (None, None)
    assert _basic([("authorization", basic("ada:a:ß".encode()))]) == ("ada", "a:ß")
    assert _basic([("authorization", basic(b":").lower().replace("og==", "Og==").encode())]) == ("", "")


@pytest.mark.parametrize("value", ["", "Basic", "Basic ???", basic(b"nobody"), "Bearer YTpi", basic(b"\xff:\xff")])
def test_a_login_that_cannot_be_read_is_nobody(value):
    with pytest.raises(RefusedError) as caught:
        _basic([("authorization", value)])
    assert caught.value.code is Code.LOGIN_FAILED


@pytest.mark.parametrize(
    ("told", "peer"),
    [("ipv4:10.0.0.7:4711", "10.0.0.7:4711"), ("ipv6:[::1]:5", "[::1]:5"), ("unix:/tmp/x", "unix:/tmp/x")],
)
def test_a_peer_is_an_address_as_others_write_it(told, peer):
    class Told:
        def peer(self) -> str:
            return told

    assert _peer(Told()) == peer  # type: ignore[arg-type]


async def test_a_port_that_cannot_be_had_is_said_with_the_setting(service):
    quiet = service(port=-1)
    await quiet.start("127.0.0.1")
    assert quiet.port == -1
    for settings in ({"port": 0, "cert_file": "/nowhere", "key_file": "/nowhere"},):
        with pytest.raises(ConfigError, match=r"log_reads\.port"):
            await service(**settings).start("127.0.0.1")
    open_ = service(port=0)
    await open_.start("127.0.0.1")
    assert open_.port > 0


async def test_rows_are_counted(service):
    api = service(*MESSAGES, queue(1, "q", "a"), SettleRecord(1, 1, [(1, 2)], why=Left.ACKED, at=9))
    await read(api, asked())
    assert next(m for m in api.metrics() if m.name == "stomp_log_reads_rows_total").samples == [({}, 7)]
