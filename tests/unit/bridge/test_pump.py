"""One life of a bridge: what crosses, what stays, what is refused."""

from __future__ import annotations

from pathlib import Path

from broker.bridge.kinds import HOPS
from tests.harness.waiting import eventually as until

from .world import bridged, broker, received, sent, url


async def test_messages_cross_with_their_headers_and_come_from_there_as_well(tmp_path: Path):
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        bridged(
            here, out={"url": url(there), "source": "/queue/out", "target": "/queue/arrived"},
            back={"url": url(there), "direction": "in", "source": "/queue/back"},
        )  # fmt: skip
        await sent(here, "/queue/out", b"1", b"2", colour="blue")
        await sent(there, "/queue/back", b"3")
        found = await received(there, "/queue/arrived", 2)
        assert [message.body for message in found] == [b"1", b"2"]
        assert (found[0].headers["colour"], found[0].headers[HOPS]) == ("blue", "1")
        assert [message.body for message in await received(here, "/queue/back", 1)] == [b"3"]
        rows = {row["name"]: row for row in here.bridges.rows()}
        assert rows["out"]["exactly_once"] and rows["out"]["messages"] == 2 and rows["back"]["messages"] == 1


async def test_a_large_body_crosses_without_being_whole_anywhere(tmp_path: Path):
    body = bytes(range(256)) * 12_000
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        bridged(here, large={"url": url(there), "source": "/queue/q"})
        await sent(here, "/queue/q", body, b"small")
        found = [await each.read() if each.large else each.body for each in await _read(there, 2)]
        assert found == [body, b"small"]


async def _read(at, many):
    from broker.client import connect

    client = await connect(url(at), large_body_bytes=8_000_000)
    subscription = client.subscribe("/queue/q")
    await subscription.__aenter__()
    found = [await subscription.get(30) for _ in range(many)]
    await client.close()
    return found


async def test_what_the_filter_leaves_and_what_has_come_over_a_bridge_stays(tmp_path: Path):
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        await sent(here, "/queue/q", b"other", kind="b")
        await sent(here, "/queue/q", b"from afar", kind="a", **{HOPS: "1"})
        await sent(here, "/queue/q", b"yes", kind="a")
        bridged(here, some={"url": url(there), "source": "/queue/q", "filter": "kind = 'a'"})
        assert [message.body for message in await received(there, "/queue/q", 1)] == [b"yes"]
        assert [message.body for message in await received(here, "/queue/q", 2)] == [b"other", b"from afar"]


async def test_a_message_that_the_target_cannot_take_goes_back_and_holds_up_nobody(tmp_path: Path):
    attempts = {"engine.address.max_delivery_attempts": 2, "engine.address.dead_letter_address": "DLQ"}
    async with (
        broker(tmp_path / "a", **attempts) as here,
        broker(tmp_path / "b", **{"wire.max_header_bytes": 500}) as there,
    ):
        await sent(here, "/queue/q", b"before")
        await sent(here, "/queue/q", b"bad", long="x" * 600)
        await sent(here, "/queue/q", b"behind")
        bridged(here, q={"url": url(there), "source": "/queue/q"})
        found = [message.body for message in await received(there, "/queue/q", 2)]
        assert found == [b"before", b"behind"]
        assert [message.body for message in await received(here, "/queue/DLQ", 1)] == [b"bad"]
        assert here.bridges.rows()[0]["messages"] == 2


async def test_a_full_target_makes_no_dead_letters(tmp_path: Path):
    full = {"engine.addresses.q.max_size_messages": 2, "engine.addresses.q.full_policy": "FAIL"}
    attempts = {"engine.address.max_delivery_attempts": 2, "engine.address.dead_letter_address": "DLQ"}
    async with broker(tmp_path / "a", **attempts) as here, broker(tmp_path / "b", **full) as there:
        await sent(here, "/queue/q", b"1", b"2", b"3", b"4")
        bridges = bridged(here, q={"url": url(there), "source": "/queue/q", "window": 1})
        await until(lambda: (rows := bridges.rows()) and rows[0]["failures"] >= 4)
        assert "full" in bridges.rows()[0]["why"]
        assert [message.body for message in await received(there, "/queue/q", 4)] == [b"1", b"2", b"3", b"4"]
        assert [message.body for message in await received(here, "/queue/DLQ", 0)] == []
