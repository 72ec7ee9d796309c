"""What one connection may keep in open transactions."""

from __future__ import annotations

import pytest

from broker.config.settings import EdgeSettings, EngineSettings
from broker.core.address import Outcome, Routing
from broker.core.commands import Publish, Settle, Transact
from broker.core.errors import Code, RefusedError
from broker.core.message import DURABLE, NO_IDS, TEXT, Run
from broker.core.states import IllegalMove
from broker.edge.session.transactions import JOINED_BYTES, JOINED_IDS, OpenTransaction, Transactions, TransactionState

from .bench import Bench


def part() -> Settle:
    return Settle(1, 1, 0, 1, [1])


@pytest.mark.parametrize("frames, nbytes", [(4, 0), (1, 400)])
def test_bounds_hold_for_all_open_transactions_together_and_what_ends_gives_back(frames: int, nbytes: int) -> None:
    open_ones = Transactions(EdgeSettings(max_transaction_frames=10, max_transaction_bytes=1000))
    for id in ("a", "b"):
        open_ones.begin(id)
        open_ones.add(id, part(), frames, nbytes)
    open_ones.begin("c")
    open_ones.end("a")
    open_ones.add("c", part(), frames, nbytes)
    with pytest.raises(RefusedError) as refused:
        open_ones.add("b", part(), frames, nbytes)
    assert refused.value.code is Code.TRANSACTION_LIMIT


def test_parts_are_bounded_frames_for_one_place_are_one_and_what_ends_gives_back() -> None:
    """10,000 destinations in one COMMIT were a step of half a second."""
    open_ones = Transactions(EdgeSettings(max_transaction_parts=3))
    open_ones.begin("a")
    open_ones.begin("b")
    for n in range(50):
        open_ones.add("a", sent(n), 1, 10)
        open_ones.add("a", part(), 1, 10)
    open_ones.add("b", sent(0, ttl=1000), 1, 10)
    with pytest.raises(RefusedError, match="max_transaction_parts") as refused:
        open_ones.add("b", sent(0, ttl=1001), 1, 10)
    assert refused.value.code is Code.TRANSACTION_LIMIT
    open_ones.end("b")
    open_ones.begin("c")
    open_ones.add("c", sent(0, "other"), 1, 10)


def test_ended_means_gone() -> None:
    open_ones = Transactions(EdgeSettings())
    open_ones.begin("a")
    open_ones.end("a")
    assert len(open_ones) == 0
    with pytest.raises(RefusedError) as refused:
        open_ones.end("a")
    assert refused.value.code is Code.NO_SUCH_TRANSACTION


def test_what_a_transaction_has_waited_counts():
    """By the clock of the edge that no step of the wall clock moves; what has passed is as good as now."""
    transaction = OpenTransaction()
    for ttl, delay in ((10_000, 0), (0, 6_000), (1_000, 500), (0, 0)):
        publish = Publish(1, 1, 0, "a", Routing.ANYCAST, Run(NO_IDS, b"", [b"x"], 1, expires=ttl, due=delay))
        publish.ttl, publish.delay = ttl, delay
        transaction.add(publish, 50.0)
    assert [(p.ttl, p.delay) for p in transaction.commits(55.0) if isinstance(p, Publish)] == [
        (5000, 0),
        (0, 1000),
        (1, 1),
        (0, 0),
    ]


@pytest.mark.parametrize("end", ["commits", "aborts"])
def test_it_ends_once(end: str) -> None:
    transaction = OpenTransaction()
    assert transaction.state is TransactionState.OPEN
    getattr(transaction, end)(1)
    for again in (transaction.commits, transaction.aborts):
        with pytest.raises(IllegalMove):
            again(1)


def sent(n: int, address: str = "a", lines: bytes = b"", ttl: int = 0, expires: int = 0, flags: int = 0) -> Publish:
    record = b"%d\n\nbody %d\0" % (n, n)
    run = Run(NO_IDS, lines, [record], len(lines) + len(record), flags, expires=expires)
    publish = Publish(1, 1, 0, address, Routing.ANYCAST, run)
    publish.ttl = ttl
    return publish


def texts(part: Publish | Settle) -> list[bytes]:
    assert isinstance(part, Publish)
    assert part.run.nbytes == sum(len(part.run.lines + record) for record in part.run.records)
    return [part.run.lines + record for record in part.run.records]


def test_a_commit_costs_its_places_not_its_frames():
    """10,000 frames were 10,000 parts, and one step of 100 ms; order is kept in each destination."""
    transaction = OpenTransaction()
    expected: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
    for n in range(10_000):
        address, lines = "abc"[n % 3], b"n:" if n % 2 else b"other:x\nn:"
        expected[address].append(lines + b"%d\n\nbody %d\0" % (n, n))
        transaction.add(sent(n, address, lines))
    assert {part.address: texts(part) for part in transaction.parts if isinstance(part, Publish)} == expected
    assert len(transaction.parts) == 3


def test_acknowledgements_of_a_consumer_are_one_part_and_their_holds_keep_their_own_ids():
    transaction = OpenTransaction()
    ids = [[n] for n in range(10)]
    for n, named in enumerate(ids):
        transaction.add(Settle(1, 1, 0, 7 + n % 2, named, Outcome.NACK if n > 7 else Outcome.ACK))
    assert [(p.consumer, p.ids) for p in transaction.parts if isinstance(p, Settle)] == [
        (7, [0, 2, 4, 6]), (8, [1, 3, 5, 7]), (7, [8]), (8, [9]),
    ]  # fmt: skip
    assert ids == [[n] for n in range(10)]
    assert [settle.ids for settle in transaction.aborts(1)] == [[0, 2, 4, 6], [1, 3, 5, 7], [8], [9]]


def test_no_part_is_larger_than_what_is_carried_out_in_one_step():
    """61 MiB for one destination were one part, and a step of 50 ms."""
    transaction = OpenTransaction()
    expected = []
    for n in range(40):
        publish = sent(n)
        publish.run.records = [b"%d\n\n" % n + bytes(100_000)]
        publish.run.nbytes = len(publish.run.records[0])
        expected += publish.run.records
        transaction.add(publish)
    sizes = [part.run.nbytes for part in transaction.parts if isinstance(part, Publish)]
    assert len(sizes) == 4 and max(sizes) < JOINED_BYTES + 100_005
    assert [text for part in transaction.parts for text in texts(part)] == expected
    for n in range(2 * JOINED_IDS):
        transaction.add(Settle(1, 1, 0, 7, [n]))
    assert [len(part.ids) for part in transaction.parts if isinstance(part, Settle)] == [JOINED_IDS, JOINED_IDS]


def test_what_differs_in_more_than_its_headers_stays_apart():
    transaction = OpenTransaction()
    kinds = [{}, {"ttl": 5}, {"expires": 9}, {"flags": TEXT}, {"flags": DURABLE}, {"flags": TEXT | DURABLE}]
    for n, kind in enumerate(kinds):
        transaction.add(sent(n, **kind))
        transaction.add(sent(n + 10, **kind))
    found = [[int(text.split(b"body ")[1][:-1]) for text in texts(part)] for part in transaction.parts]
    assert found == [[0, 10], [1], [11], [2, 12], [3, 13], [4, 14], [5, 15]]


@pytest.mark.parametrize("frames", [1, 30])
async def test_what_a_transaction_sends_to_a_split_address_goes_where_its_first_id_does(frames: int) -> None:
    """Whoever repeats it comes to the slot that knows the id, whatever the connection and however it is read."""
    found = set()
    for _ in range(4):
        bench = Bench()
        bench.edge.configure(EngineSettings(addresses={"q": {"partitions": 4}}))
        for _ in range(5):
            session, _ = bench.session()
            session.receive(b"BEGIN\ntransaction:t\n\n\0")
            sends = [b"SEND\ndestination:/queue/q\ntransaction:t\n_AMQ_DUPL_ID:one\n\nx\0"]
            sends += [b"SEND\ndestination:/queue/q\ntransaction:t\n\n%d\0" % n for n in range(29)]
            for at in range(0, 30, frames):
                session.receive(b"".join(sends[at : at + frames]))
            session.receive(b"COMMIT\ntransaction:t\n\n\0")
            (command,) = [each for each in bench.port.commands if isinstance(each, Transact)]
            bench.port.commands.clear()
            found.add(tuple({part.slot for part in command.parts}))
    assert len(found) == 1 and len(found.pop()) == 1


async def test_begin_may_say_how_many_ids_must_be_remembered() -> None:
    bench = Bench()
    bench.edge.configure(EngineSettings(addresses={"few": {"id_cache_size": 10}, "none": {"id_cache_size": 0}}))
    for destination, least, code in (
        ("/queue/few", "10", 0), ("/queue/few", "11", 1403), ("/queue/none", "1", 1403), ("/queue/other", "20000", 0),
        ("/queue/few", "many", 1302), ("", "5", 1301),
    ):  # fmt: skip
        session, wire = bench.session()
        line = f"destination:{destination}\n" if destination else ""
        session.receive(f"BEGIN\ntransaction:t\n{line}id-cache-size:{least}\nreceipt:r\n\n\0".encode())
        told = wire.take()
        assert (f"error-code:{code}".encode() in told) if code else told.startswith(b"RECEIPT"), (told, least)
        assert code != 1403 or b"id_cache_size" in told


async def test_a_step_of_the_wall_clock_moves_no_time_of_what_a_transaction_has() -> None:
    """Back by an hour, a message of 10 s had an hour to live; on by an hour, it had expired."""
    for step in (-3_600_000, 3_600_000):
        bench = Bench()
        session, _ = bench.session()
        walls = iter([1_700_000_000_000])
        bench.edge.clock.wall_ms = lambda walls=walls, step=step: next(walls, 1_700_000_000_000 + step)
        headers = "destination:/queue/a\ntransaction:t\nttl:10000\nAMQ_SCHEDULED_DELAY:5000\n"
        session.receive(f"BEGIN\ntransaction:t\n\n\0SEND\n{headers}\nx\0".encode())
        session.receive(b"COMMIT\ntransaction:t\n\n\0")
        (part,) = bench.port.last(Transact).parts
        assert 9000 < part.ttl <= 10_000 and 4000 < part.delay <= 5000


@pytest.mark.parametrize("other", [{"flags": DURABLE}, {"expires": 9}, {"ttl": 1000}])
def test_messages_to_an_address_keep_their_order_whatever_else_differs(other: dict[str, int]) -> None:
    """They came as 0, 2, 4, 1, 3, 5: what was alike gathered in the first part of its kind."""
    transaction = OpenTransaction()
    for n in range(6):
        transaction.add(sent(n, **(other if n % 2 else {})))
        transaction.add(sent(n, "elsewhere"))
    sends = [part for part in transaction.parts if isinstance(part, Publish)]
    ours = [text for part in sends if part.address == "a" for text in texts(part)]
    assert ours == [b"%d\n\nbody %d\0" % (n, n) for n in range(6)]
    assert len([part for part in sends if part.address == "elsewhere"]) == 1, "that gathers as ever"
