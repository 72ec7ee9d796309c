"""What the pipeline makes of records is what the broker says they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker_pipeline.datasource.records import Decoder
from broker_pipeline.log.ranges import Range
from broker_pipeline.log.reads import LogReads
from broker_pipeline.options import Access

from tests.harness import Broker, Client, free_ports, listens, until
from tests.harness.reads import LogReader


def decoded(port: int, view: str, step: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Rows of a scan over all slots, asked for `step` items at a time."""
    found = []
    with LogReads(Access((f"127.0.0.1:{port}",))) as reads:
        _, _, infos = reads.describe((), view)

        def large(slot: int, offset: int, ref: str, message: str) -> tuple[bytes | None, str]:
            return None, ref

        decoder = Decoder(view, True, False, large)
        ranges = [Range(slot, info.earliest, info.end) for slot, info in infos.items()]
        while any(map(len, ranges)):
            now = [Range(r.slot, r.start, min(r.start + (step or 1 << 40), r.end)) for r in ranges]
            asked = {"addresses": (), "since_ms": 0, "before_ms": 0} | more
            for batch in reads.scan(now, view=view, **asked):
                decoder.learn(batch.queues)
                for rows in decoder.add(batch.records):
                    found += rows.to_pylist()
            ranges = [Range(r.slot, n.end, r.end) for r, n in zip(ranges, now, strict=True)]
        for rows in decoder.rest():
            found += rows.to_pylist()
    return sorted(found, key=lambda row: (row["slot"], row["offset"], row["index"], row.get("view", "")))


def told(port: int, view: str) -> list[dict[str, Any]]:
    """The same from Read, whose rows the broker makes."""
    found = []
    with LogReader(port) as reader:
        for row in reader.everything(view=view):
            headers: dict[str, str] = {}
            for header in row.headers:
                headers.setdefault(header.name.decode(errors="replace"), header.value.decode(errors="replace"))
            found.append({
                "slot": int(row.message_id.split("-")[0]), "offset": row.offset, "index": row.index,
                "epoch": row.epoch, "ts": row.ts_ms, "event": row.event, "address": row.address,
                "queue": row.queue or None, "message_id": row.message_id, "headers": headers, "body": row.body,
                "size": row.size, "reason": row.reason or None, "group_id": row.group_id or None,
                "attempt": row.attempt, "consumer": row.consumer or None,
                "body_ref": row.body_ref or None, "expires": row.expires_ms,
            })  # fmt: skip
    return sorted(found, key=lambda row: (row["slot"], row["offset"], row["index"]))


def milliseconds(value: Any) -> int:
    return round(value.timestamp() * 1000) if value is not None else 0


def comparable(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = []
    for row in rows:
        plain = {name: row[name] for name in like[0]}
        plain |= {"ts": milliseconds(row["ts"]), "expires": milliseconds(row["expires"])}
        plain |= {"headers": dict(row["headers"] or ()), "body": row["body"] or b"", "size": row["size"] or 0}
        made.append(plain)
    return made


def traffic(broker: Broker) -> None:
    with Client(broker.port) as client:
        client.connect({"client-id": "c"})
        for name in ("one", "two"):
            client.subscribe("/topic/wide", f"s{name}", **{"durable-subscription-name": name})
        for n in range(40):
            client.publish("/queue/plain", b"body\n\n%d" % n, persistent="true", n=str(n), odd="a\\cb\\nc")
            client.publish("/queue/same", b"x" * n, persistent="true", JMSXGroupID="g")
            client.publish("/topic/wide", b"", persistent="true")
        client.publish("/queue/large", b"L" * 400_000, persistent="true")
        client.publish("/queue/short", b"gone", persistent="true", expires="1")
        client.sync()
        client.subscribe("/queue/plain", "p", ack="client-individual")
        got = client.messages(20)
        for message in got[:5]:
            client.ack(message)
        client.nack(got[5])
        client.sync()


@pytest.mark.timeout(300)
def test_rows_are_those_the_broker_makes_however_they_are_asked_for(tmp_path: Path):
    (port,) = free_ports(1)
    with Broker(
        tmp_path,
        {
            "log_reads.port": port,
            "log_reads.turn_rows": 7,
            "log_reads.batch_bytes": "4KiB",
            "engine.address.max_delivery_attempts": 1,
            "engine.address.record_deliveries": "true",
        },
    ) as broker:
        until(lambda: listens(port), "the read API")
        traffic(broker)
        # All that its consumer had and did not acknowledge is given back, a turn at a time, and goes there.
        until(lambda: len(told(port, "dlq")) == 35, "the dead letters")
        for view in ("messages", "events", "dlq"):
            rows = told(port, view)
            assert rows and (view != "events" or {"DELIVERED", "ACKED"} < {row["event"] for row in rows})
            for step in (0, 1, 3):
                found = decoded(port, view, step)
                assert comparable(found, rows) == rows, (view, step)
        dead = decoded(port, "messages", addresses=("DLQ",))
        assert [dict(row["headers"])["_AMQ_ORIG_ADDRESS"] for row in dead] == ["plain"] * 35, "what a retry asks for"
        both = decoded(port, "log", 5)
        assert len(both) == len(told(port, "messages")) + len(told(port, "events"))
        assert {row["view"] for row in both} == {"messages", "events"}
        some = decoded(port, "messages", addresses=("same",))
        assert {row["address"] for row in some} == {"same"} and len(some) == 40
