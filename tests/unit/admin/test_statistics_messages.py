"""Classic's statistics: numbers of the API under Classic's names, as a map that its clients read."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

import pytest

from broker.admin.api.access import Who
from broker.admin.api.problems import Problem
from broker.admin.management.statistics_messages import StatisticsMessages, as_map
from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.core.management import ManagementRequest, ReplyTo

WHO = Who("ada", "::1", None, True)
TO = ReplyTo(3, "answers", Routing.ANYCAST, "answers", True)
OVERVIEW = {
    "id": "b", "memory": {"queues": 5, "limit": 6},
    "messaging": {"messages": 1, "delivering": 2, "consumers": 3, "disk": {"bytes": 4},
                  "since_start": {"accepted": 7, "acked": 8, "delivered": 9, "expired": 10}},
}  # fmt: skip


class Broker:
    """Answers as the API does, and keeps what is published."""

    def __init__(self, parts: list[dict[str, int]] | Problem | None = None) -> None:
        self.parts = parts
        self.sent: list[Any] = []

    async def run(self, who: Who, operation: str, path: dict[str, str]) -> Any:
        if operation == "overview":
            return OVERVIEW
        if isinstance(self.parts, Problem):
            raise self.parts
        return {"parts": self.parts}

    @contextmanager
    def errand(self):
        yield self

    async def ask(self, make: Any) -> None:
        self.sent.append(make(5, 6))


async def carried(broker: Broker, destination: str, reply: ReplyTo | None = TO, **more: str) -> dict[str, Any]:
    headers = {"destination": destination, "reply-to": "/queue/answers", **more}
    request = ManagementRequest("ada", "::1", headers, b"", reply)
    await StatisticsMessages(broker.run, broker).carry(WHO, request)  # type: ignore[arg-type]
    (command,) = broker.sent
    assert (command.slot, command.address, command.session, command.seq) == (3, "answers", 5, 6)
    head, _, body = command.run.records[0].partition(b"\n\n")
    assert b"transformation:jms-map-json" in head and b"content-length:%d" % (len(body) - 1) in head
    entries = json.loads(body[:-1])["map"]["entry"]
    values = {one["string"]: one["long"] for one in entries if "long" in one}
    return {**values, **dict(one["string"] for one in entries if "long" not in one), "head": head}


async def test_the_whole_broker():
    told = await carried(Broker(), "/queue/ActiveMQ.Statistics.Broker", **{"correlation-id": "7"})
    assert b"correlation-id:7" in told.pop("head")
    assert told == {
        "brokerName": "b", "brokerId": "b", "size": 1, "enqueueCount": 7, "dequeueCount": 8, "dispatchCount": 9,
        "expiredCount": 10, "inflightCount": 2, "memoryUsage": 5, "memoryLimit": 6, "storeUsage": 4, "consumerCount": 3,
    }  # fmt: skip


async def test_a_queue_is_the_sum_of_its_parts_and_one_that_is_not_there_is_empty():
    parts = [{"messages": 1, "delivering": 2, "consumers": 3}, {"messages": 10, "delivering": 20, "consumers": 30}]
    told = await carried(Broker(parts), "ActiveMQ.Statistics.Destinationorders.eu")
    assert {name: told[name] for name in ("destinationName", "size", "inflightCount", "consumerCount")} == {
        "destinationName": "queue://orders.eu", "size": 11, "inflightCount": 22, "consumerCount": 33,
    }  # fmt: skip
    missing = Problem(404, "no-such-queue", "", "")
    assert (await carried(Broker(missing), "ActiveMQ.Statistics.Destinationx"))["size"] == 0
    with pytest.raises(Problem):
        await carried(Broker(Problem(403, "not-allowed", "", "")), "ActiveMQ.Statistics.Destinationx")


@pytest.mark.parametrize(
    ("name", "reply", "code"),
    [
        ("ActiveMQ.Statistics.Broker", None, Code.MISSING_HEADER),
        ("ActiveMQ.Statistics.Destination", TO, Code.BAD_DESTINATION),
        ("ActiveMQ.Statistics.Topics", TO, Code.BAD_DESTINATION),
        ("ActiveMQ.Statistics.Destination>", TO, Code.BAD_DESTINATION),
        ("ActiveMQ.Statistics.Destinationa.*", TO, Code.BAD_DESTINATION),
    ],
)
async def test_what_cannot_be_answered_is_refused_by_name(name, reply, code):
    broker = Broker([])
    with pytest.raises(RefusedError) as refused:
        await carried(broker, name, reply)
    assert refused.value.code is code and broker.sent == []


def test_texts_and_numbers_are_told_apart():
    assert json.loads(as_map({"a": "1", "b": 1})) == {
        "map": {"entry": [{"string": ["a", "1"]}, {"string": "b", "long": 1}]}
    }
