"""A standalone broker tells a real collector what became of a message: sent, stored, delivered, settled."""

from __future__ import annotations

from pathlib import Path

from broker.client import connect
from tests.harness.broker import Broker
from tests.harness.collector import Collector, Span, collecting

HEADERS = {"destination-type": "ANYCAST", "persistent": "true"}


def parent(n: int, sampled: bool = True) -> str:
    return f"00-{n:032x}-{n:016x}-{'01' if sampled else '00'}"


def whole(collector: Collector, trace: str) -> list[Span]:
    """When its message is settled."""
    collector.until(lambda: any(span.name.startswith("ack") for span in collector.of(trace)), "not settled")
    return collector.of(trace)


async def test_the_way_of_a_message_is_one_trace(tmp_path: Path):
    with collecting() as collector, Broker(tmp_path, {"tracing.endpoint": collector.endpoint}) as broker:
        async with (
            connect(f"stomp://127.0.0.1:{broker.port}") as client,
            client.subscribe("orders", ack="client-individual") as subscription,
        ):
            for n in range(1, 4):
                headers = HEADERS | {"traceparent": parent(n, n != 2), "tracestate": "shop=1"}
                await client.send("orders", f"{n}", headers, receipt=True)
            for n in range(1, 4):
                message = await anext(aiter(subscription))
                assert message.headers["traceparent"] == parent(n, n != 2), "as it was sent"
                assert message.headers["tracestate"] == "shop=1"
                await message.ack(receipt=True)
            spans = whole(collector, f"{1:032x}")
            names = {span.name for span in spans}
            assert names == {"send orders", "store orders", "deliver orders", "ack orders"}
            assert {span.parent for span in spans} == {f"{1:016x}"} and {span.service for span in spans} == {
                "stampede-broker"
            }
            by = {span.name.partition(" ")[0]: span for span in spans}
            assert by["send"].began <= by["store"].began <= by["store"].ended <= by["send"].ended
            assert by["send"].began <= by["deliver"].began <= by["ack"].began <= by["ack"].ended
            assert by["deliver"].said["messaging.message.id"] == by["ack"].said["messaging.message.id"]
            assert len(whole(collector, f"{3:032x}")) == 4
            assert collector.of(f"{2:032x}") == [], "its producer has not sampled it"
        assert broker.metrics()["stomp_trace_spans_total"] >= 8


async def test_what_comes_back_from_the_log_is_traced_too(tmp_path: Path):
    with collecting() as collector:
        broker = Broker(tmp_path, {"tracing.endpoint": collector.endpoint})
        with broker:
            async with connect(f"stomp://127.0.0.1:{broker.port}") as client:
                await client.send("orders", "x", HEADERS | {"traceparent": parent(5)}, receipt=True)
        assert {span.name for span in collector.spans} == {"send orders", "store orders"}, "sent at the end, too"
        with broker:
            async with (
                connect(f"stomp://127.0.0.1:{broker.port}") as client,
                client.subscribe("orders", ack="client-individual") as subscription,
            ):
                message = await anext(aiter(subscription))
                await message.ack(receipt=True)
            spans = whole(collector, f"{5:032x}")
            assert [span.name.partition(" ")[0] for span in spans] == ["send", "store", "deliver", "ack"]


async def test_a_share_of_what_comes_without_begins_a_trace(tmp_path: Path):
    settings = {"tracing.ratio": 1.0}
    with collecting() as collector, Broker(tmp_path, settings | {"tracing.endpoint": collector.endpoint}) as broker:
        async with (
            connect(f"stomp://127.0.0.1:{broker.port}") as client,
            client.subscribe("orders", ack="client") as subscription,
        ):
            for n in range(3):
                await client.send("orders", f"{n}", HEADERS | {"n": f"{n}"}, receipt=True)
            found = [await anext(aiter(subscription)) for _ in range(3)]
            assert [message.body for message in found] == [b"0", b"1", b"2"]
            assert [message.headers["n"] for message in found] == ["0", "1", "2"]
            traces = [message.headers["traceparent"].split("-")[1] for message in found]
            assert len(set(traces)) == 3
            await found[-1].ack(receipt=True)
            for trace in traces:
                assert len(whole(collector, trace)) == 4, "one cumulative ACK, and a span in each trace"


async def test_a_collector_that_is_away_delays_nobody(tmp_path: Path):
    settings = {"tracing.ratio": 1.0, "tracing.endpoint": "http://127.0.0.1:9"}
    with Broker(tmp_path, settings) as broker:
        async with connect(f"stomp://127.0.0.1:{broker.port}") as client:
            for n in range(20):
                await client.send("orders", f"{n}", HEADERS, receipt=True)
    assert "Traceback" not in broker.log()
