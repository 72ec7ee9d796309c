"""Every query of the dashboards is asked of a real Prometheus that scrapes a real broker."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import ClientError, connect
from tests.harness.broker import HOST, Broker, free_ports
from tests.harness.waiting import until

DASHBOARDS = Path(__file__).parents[2] / "helm" / "stampede" / "dashboards"
OF_CLUSTERS = ("stomp_slots_", "stomp_link_", "stomp_controller", "stomp_followed_slots", "stampede_operator_")
"""Metrics that a standalone broker does not have: such a query is understood, and answers nothing."""


def queries() -> list[str]:
    return [
        target["expr"].replace("$namespace", "mq")
        for path in sorted(DASHBOARDS.glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    ]


class Prometheus:
    """Scrapes one broker."""

    def __init__(self, folder: Path, scraped: int) -> None:
        self.port = free_ports(1)[0]
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{
                "job_name": "broker",
                "static_configs": [{"targets": [f"{HOST}:{scraped}"], "labels": {"namespace": "mq", "pod": "b"}}],
            }],
        }  # fmt: skip
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.command = [
            "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={HOST}:{self.port}", "--log.level=error",
        ]  # fmt: skip

    def ask(self, query: str) -> list[Any]:
        url = f"http://{HOST}:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return list(told["data"]["result"])

    def has(self, query: str) -> bool:
        try:
            return bool(self.ask(query))
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code == 400:
                raise AssertionError(f"{query}: {error.read().decode()}") from None
            return False


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker", {"engine.address.max_delivery_attempts": "1"}) as broker:
        yield broker


@pytest.fixture
def prometheus(broker: Broker, tmp_path: Path) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("no Prometheus here (Debian: apt install prometheus): the dashboards are not asked")
    made = Prometheus(tmp_path, broker.admin_port)
    null = subprocess.DEVNULL
    with subprocess.Popen(made.command, stdout=null, stderr=null) as process:
        yield made
        process.kill()


async def test_every_query_answers(broker: Broker, prometheus: Prometheus):
    asked = queries()
    assert len(asked) > 20
    left = {query for query in asked if not any(name in query for name in OF_CLUSTERS)}
    others = set(asked) - left
    url = f"stomp://{HOST}:{broker.port}"

    def all_told() -> bool:
        left.difference_update({query for query in left if prometheus.has(query)})
        return not left

    async with connect(url) as client, client.subscribe("orders", ack="client-individual") as subscription:
        for text in ("one", "two", "three"):
            await client.send("orders", text, receipt=True)
        await (await anext(aiter(subscription))).nack(receipt=True)
        await (await anext(aiter(subscription))).ack(receipt=True)
        with pytest.raises(ClientError):
            async with connect(url) as stranger:
                await stranger.send("orders", "x", {"expires": "soon"}, receipt=True)
        await asyncio.to_thread(until, all_told, lambda: f"no answer to {sorted(left)}", 30)
    for query in others:
        prometheus.ask(query)
