"""Messages of a queue, taken for batches: none into two, and acknowledged when the batch is committed, not before."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_pipeline.datasource import queue_consumer
from broker_pipeline.datasource.queue_consumer import ACKS, QueueConsumer
from broker_pipeline.errors import PipelineError
from broker_pipeline.options import LOGIN_FAILED, ConsumeOptions

from broker.client import ConnectFailed, ConnectionLost, ServerError


def written(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)


class BatchLog:
    def __init__(self) -> None:
        self.pending: dict[str, int] = {}
        self.owed: dict[str, int] = {}
        self.told: list[list[str]] = []

    def acknowledged(self, ids: list[str]) -> None:
        self.told.append(list(ids))
        for id in ids:
            del self.owed[id]


class Message:
    def __init__(self, number: int, body: bytes = b"x", large: bool = False, **headers: str) -> None:
        self.id = f"boot-5-{number}"
        self.headers = {
            "message-id": self.id, "message-slot": "9", "ack": f"a{number}", "destination": "/queue/jobs",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }  # fmt: skip
        self.body = body
        self.large = large
        self.length: int | None = len(body)
        self.discarded = False

    def discard(self) -> None:
        self.discarded = True

    async def read(self) -> bytes:
        return self.body

    async def save(self, path: str) -> int:
        written(path, self.body)
        return len(self.body)


class Broker:
    """coming: what the queue hands out, an error ends the connection. refusals: what connecting meets, one by one."""

    def __init__(self) -> None:
        self.coming: list[Any] = []
        self.refusals: list[Exception] = []
        self.connections = 0
        self.asked: dict[str, Any] = {}
        self.acks: list[list[str]] = []
        self.ends: list[str] = []
        self.broken_after: int | None = None
        self.sleeps: list[float] = []

    async def connect(self, url: str, **_: Any) -> Broker:
        if self.refusals:
            raise self.refusals.pop(0)
        self.connections += 1
        return self

    def subscribe(self, destination: str, ack: str, prefetch: int, headers: dict[str, str]) -> Broker:
        self.asked = {"to": destination, "ack": ack, "prefetch": prefetch, **headers}
        return self

    async def __aenter__(self) -> Broker:
        return self

    async def get(self, wait: float) -> Any:
        if not self.coming:
            await asyncio.sleep(0)
            return None
        found = self.coming.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    @asynccontextmanager
    async def transaction(self):
        self.acks.append([])
        yield self

    async def request(self, command: str, headers: list[tuple[str, str]]) -> None:
        if self.broken_after is not None and sum(map(len, self.acks)) >= self.broken_after:
            raise ConnectionLost("gone")
        assert command == "ACK" and dict(headers)["transaction"] == self.id
        self.acks[-1].append(dict(headers)["id"])

    id = "tx"

    async def close(self) -> None:
        self.ends.append("close")

    async def kill(self) -> None:
        self.ends.append("kill")


@pytest.fixture
def world(monkeypatch, tmp_path):
    """(taker, what is ahead, the broker); the taker is made with options(…)."""

    class World:
        def __init__(self) -> None:
            self.broker, self.ahead = Broker(), BatchLog()
            self.made: list[QueueConsumer] = []
            self.folder = tmp_path / "bodies"

        def taker(self, **options: Any) -> QueueConsumer:
            given = ConsumeOptions(url="stomp://ada:x@broker:61613", destination="/queue/jobs", ahead="", **options)
            self.made.append(QueueConsumer(given, self.ahead))  # type: ignore[arg-type]
            return self.made[-1]

        def take(self, taker: QueueConsumer, most: int = 100) -> list[str]:
            """Ids of a batch, which are pending from then on."""
            found = [each.id for each in taker.take(most, 0.0)]
            self.ahead.pending |= dict.fromkeys(found, 1)
            return found

        def commit(self, *ids: str) -> None:
            for id in ids:
                del self.ahead.pending[id]
                self.ahead.owed[id] = 1

    made = World()
    monkeypatch.setattr(queue_consumer, "connect", made.broker.connect)
    monkeypatch.setattr(queue_consumer, "_PAUSE_S", 0.001)
    yield made
    for taker in made.made:
        taker.close()


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_taken_as_its_sender_has_sent_it(world):
    world.broker.coming = [Message(3, b"body", color="red", delivery_count="4", redelivered="true")]
    (taken,) = world.taker().take(10, 0.0)
    assert (taken.id, taken.body, taken.size, taken.attempt, taken.address) == ("9-3", b"body", 4, 4, "jobs")
    assert taken.headers == {"color": "red"} and taken.body_ref is None


@pytest.mark.parametrize(
    ("destination", "address"),
    [("jms.queue.a", "a"), ("queue://a", "a"), ("a::q", "a::q"), ("/queue//queue/a", "/queue/a")],
)
def test_an_address_has_no_prefix(world, destination, address):
    world.broker.coming = [Message(1, destination=destination)]
    assert world.taker().take(1, 0.0)[0].address == address


def test_attempts_that_are_no_number_are_one(world):
    world.broker.coming = [Message(1, delivery_count="many"), Message(2)]
    assert [each.attempt for each in world.taker().take(2, 0.0)] == [1, 1]


def test_a_batch_ends_where_it_is_full(world):
    world.broker.coming = [Message(n) for n in range(5)]
    taker = world.taker()
    batches = [world.take(taker, 2) for _ in range(3)]
    assert batches == [["9-0", "9-1"], ["9-2", "9-3"], ["9-4"]]


def test_bodies_of_a_batch_fit_into_memory(world, monkeypatch):
    monkeypatch.setattr(queue_consumer, "BATCH_BYTES", 10)
    world.broker.coming = [Message(n, b"x" * 6) for n in range(5)]
    assert len(world.take(world.taker())) == 2


def test_what_is_in_a_batch_comes_into_no_second_one(world):
    """Whatever the broker delivers again: a message is pending, then owed, then gone."""
    taker = world.taker()
    world.broker.coming = [Message(1), Message(2)]
    assert world.take(taker) == ["9-1", "9-2"]
    again = [Message(1), Message(2), Message(3), Message(3)]
    world.broker.coming = list(again)
    assert world.take(taker) == ["9-3"]
    assert [message.discarded for message in again] == [True, True, False, True]


def test_what_is_owed_and_comes_again_is_acknowledged_and_not_taken(world):
    world.ahead.owed = {"9-1": 4}
    world.broker.coming = [Message(1)]
    assert world.take(world.taker()) == []
    assert world.broker.acks == [["a1"]] and world.ahead.told == [["9-1"]]


def test_it_asks_for_what_it_needs(world):
    world.taker(max_rows=50, selector="a = 1").take(1, 0.0)
    assert world.broker.asked == {
        "to": "/queue/jobs", "ack": "client-individual", "prefetch": 100, "message-slot": "true",
        "consumer-window-size": "-1", "selector": "a = 1",
    }  # fmt: skip
    world.broker.asked = {}
    world.taker().take(1, 0.0)
    assert "selector" not in world.broker.asked


def test_a_broker_that_does_not_name_messages_is_refused(world):
    message = Message(1)
    del message.headers["message-slot"]
    world.broker.coming = [message]
    with pytest.raises(PipelineError, match="message-slot"):
        world.taker().take(1, 0.0)


# ── large bodies ─────────────────────────────────────────────────────────────────────────────────────


def test_a_large_body_is_a_value_as_long_as_it_fits(world, monkeypatch):
    monkeypatch.setattr(queue_consumer, "INLINE_BYTES", 10)
    world.broker.coming = [Message(1, b"x" * 10, large=True), Message(2, b"x" * 11, large=True)]
    taker = world.taker()
    assert taker.take(1, 0.0)[0].body == b"x" * 10
    with pytest.raises(PipelineError, match="set the option bodies to a folder"):
        taker.take(1, 0.0)


def test_a_large_body_in_a_folder_is_there_whole_or_not_at_all(world):
    class Cut(Message):
        async def save(self, path: str) -> int:
            written(path, b"half")
            raise ConnectionLost("gone")

    taker = world.taker(bodies=str(world.folder))
    world.broker.coming = [Message(1, b"x" * 20, large=True), Cut(2, b"y" * 20, large=True)]
    (taken,) = taker.take(10, 0.0)
    assert (taken.body, taken.size, taken.body_ref) == (None, 20, str(world.folder / "9-1.body"))
    assert (world.folder / "9-1.body").read_bytes() == b"x" * 20 and not (world.folder / "9-2.body").exists()


# ── acknowledging ────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_acknowledged_before_its_batch_is_committed(world):
    taker = world.taker()
    world.broker.coming = [Message(1), Message(2)]
    world.take(taker)
    taker.settle()
    assert world.broker.acks == []
    world.commit("9-1")
    taker.settle()
    assert world.broker.acks == [["a1"]] and world.ahead.told == [["9-1"]]
    taker.settle()
    assert world.broker.acks == [["a1"]], "once"


def test_acknowledgements_are_many_in_a_transaction_and_not_all(world):
    taker = world.taker(max_rows=ACKS + 50)
    world.broker.coming = [Message(n) for n in range(ACKS + 20)]
    world.commit(*world.take(taker, ACKS + 50))
    taker.settle()
    assert [len(some) for some in world.broker.acks] == [ACKS, 20] == [len(some) for some in world.ahead.told]


def test_what_could_not_be_acknowledged_is_owed_still(world):
    """A transaction that has no receipt did not happen: its messages come again."""
    taker = world.taker()
    world.broker.coming = [Message(1), Message(2)]
    world.commit(*world.take(taker))
    world.broker.broken_after = 1
    taker.settle()
    assert world.ahead.told == [] and set(world.ahead.owed) == {"9-1", "9-2"} and world.broker.ends == ["kill"]
    world.broker.broken_after = None
    world.broker.acks.clear()
    world.broker.coming = [Message(1), Message(2)]
    assert world.take(taker) == [] and world.broker.connections == 2
    assert world.broker.acks == [["a1", "a2"]] and world.ahead.owed == {}


def test_names_of_deliveries_are_those_of_this_connection(world):
    """An acknowledgement by a name of the last one would be refused, and end this one."""
    taker = world.taker()
    world.broker.coming = [Message(1), ConnectionLost("gone")]
    assert world.take(taker) == ["9-1"], "what came before stays taken"
    world.commit("9-1")
    taker.settle()
    assert world.broker.acks == []
    world.broker.coming = [Message(3)]
    world.take(taker)
    assert world.broker.acks == [], "it has not come again"
    world.broker.coming = [Message(1, ack="b1")]
    world.take(taker)
    assert world.broker.acks == [["b1"]] and list(taker._handles) == ["9-3"]


# ── connections ──────────────────────────────────────────────────────────────────────────────────────


def test_a_broker_that_is_away_is_waited_for(world):
    world.broker.refusals = [ConnectFailed("refused"), OSError("reset")]
    world.broker.coming = [Message(1)]
    assert world.take(world.taker()) == ["9-1"]


@pytest.mark.parametrize(
    ("error", "said"), [(ConnectFailed("refused"), "nobody answers there"), (ConnectionLost("reset"), "reset")]
)
def test_patience_has_an_end(world, error, said):
    world.broker.refusals = [error] * 100
    with pytest.raises(PipelineError, match=said) as caught:
        world.taker(patience_s=0.0).take(1, 0.0)
    assert "/queue/jobs of broker:61613" in str(caught.value) and "ada" not in str(caught.value)


@pytest.mark.parametrize(("code", "advised"), [(LOGIN_FAILED, True), (1303, False)])
def test_a_broker_that_says_no_is_not_asked_again(world, code, advised):
    world.broker.refusals = [ServerError(code, "no")] * 2
    with pytest.raises(PipelineError) as caught:
        world.taker().take(1, 0.0)
    assert caught.value.code == code and (queue_consumer.NO_LOGIN in str(caught.value)) is advised
    assert len(world.broker.refusals) == 1


def test_its_end_is_in_order_and_twice_is_once(world):
    """What it holds goes back, and counts as nobody's failure."""
    taker = world.taker()
    taker.take(1, 0.0)
    taker.close()
    taker.close()
    assert world.broker.ends == ["close"] and not taker._thread.is_alive()
