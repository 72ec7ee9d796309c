"""The two clusters of docs/bridges.md, run by the very files of docs/examples/two-clusters: over TLS, with the users
and permissions that they make; an edge and an owner of the one are killed while orders are on their way."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.parts import HOST
from tests.harness import Client, scratch, until
from tests.harness.broker import free_ports
from tests.harness.cluster import PREFIX, Cluster, Process
from tests.harness.secrets import self_signed
from tests.harness.servers import needs_etcdctl, running

from .slots import leader_of

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "two-clusters"
ETC = "/etc/stampede"
PLACES = ("east", "west")
PATIENCE_S = 120.0
MANY = 300


@pytest.fixture(scope="module")
def etc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the files call /etc/stampede. One for both places, as what lies on both is the same."""
    folder = tmp_path_factory.mktemp("etc")
    certificate, key = self_signed(folder, "both")
    for file, name in ((certificate, "tls.crt"), (certificate, "ca.pem"), (key, "tls.key")):
        (folder / name).write_bytes(file.read_bytes())
    for user in ("bridge", "from-east", "from-west"):
        (folder / f"{user}.passcode").write_text(f"passcode of {user}\n")
    return folder


@pytest.fixture(scope="module")
def places(request: pytest.FixtureRequest, etc: Path) -> Iterator[dict[str, Cluster]]:
    """Both, each with an etcd of its own, three owners and two edges; configured by its file, with a user `staff`."""
    needs_etcdctl()
    said = tomllib.loads((EXAMPLES / "edge.toml").read_text())["edge"]
    common = {f"edge.{name}": str(value).replace(ETC, str(etc)) for name, value in said.items() if name != "tls_port"}
    with (
        scratch(request, "east") as east_at,
        scratch(request, "west") as west_at,
        running("etcd", east_at / "etcd", ours=True) as east_store,
        running("etcd", west_at / "etcd", ours=True) as west_store,
    ):
        east = Cluster(east_at, east_store.port, settings={"cluster.lease_s": 5, "cluster.dead_after_ms": 10_000})
        west = Cluster(west_at, west_store.port)
        for edge, port in zip(east.edges + west.edges, free_ports(4), strict=True):
            edge.settings = {**common, "edge.tls_port": port}
        with east, west:
            both = {"east": east, "west": west}
            ports = {name: int(str(each.edges[0].settings["edge.tls_port"])) for name, each in both.items()}
            for name, each in both.items():
                script = (EXAMPLES / f"{name}.sh").read_text().replace(ETC, str(etc))
                for other in PLACES:
                    script = script.replace(f"{other}.example.com:61612", f"{HOST}:{ports[other]}")
                typed(each, script)
                typed(each, "echo staff | stampede cluster users set staff --group staff --passcode-stdin")
            yield both


def typed(cluster: Cluster, script: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reach = {"STAMPEDE_ETCD__ENDPOINTS": cluster.endpoints, "STAMPEDE_ETCD__PREFIX": PREFIX}
    line = ["sh", "-c", script]
    done = subprocess.run(
        line, env={**os.environ, **reach, "PATH": path}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr


def running_edge(cluster: Cluster, bridge: str) -> Process | None:
    """The edge with this bridge up."""
    line = f'stomp_bridge_up{{bridge="{bridge}"}} 1'
    return next((edge for edge in cluster.edges if edge.running and line in edge.metrics()), None)


def logs(places: dict[str, Cluster]) -> str:
    return "\n".join(f"{edge.id}: {edge.log()[-2000:]}" for each in places.values() for edge in each.edges)


def staff(edge: Process) -> Client:
    client = Client(edge.port, timeout=PATIENCE_S)
    client.connect({"login": "staff", "passcode": "staff"})
    return client


def test_orders_go_west_and_news_are_heard_in_both(places: dict[str, Cluster]):
    east, west = places["east"], places["west"]
    for cluster, bridge in ((east, "orders-west"), (east, "news-west"), (west, "news-east")):
        until(lambda c=cluster, b=bridge: running_edge(c, b) is not None, lambda: logs(places), PATIENCE_S)
    runner = running_edge(east, "orders-west")
    assert runner is not None
    other = next(edge for edge in east.edges if edge is not runner)
    with staff(other) as shop, staff(west.edges[1]) as worker:
        worker.subscribe("/topic/news.#", "news")
        shop.subscribe("/topic/news.#", "news")
        worker.ask("SEND", {"destination": "/topic/news.west", "persistent": "true"}, b"of the west")
        shop.ask("SEND", {"destination": "/topic/news.east", "persistent": "true"}, b"of the east")
        for each in (shop, worker):
            assert sorted(message.body for message in each.messages(2, PATIENCE_S)) == [b"of the east", b"of the west"]
            each.nothing()
        victim = leader_of(east, "orders")
        for number in range(MANY):
            shop.send("SEND", {"destination": "/queue/orders", "persistent": "true"}, b"%d" % number)
            if number == MANY // 3:
                runner.kill()
            if number == 2 * MANY // 3:
                victim.kill()
        shop.ask("SEND", {"destination": "/queue/orders", "persistent": "true"}, b"%d" % MANY)
        worker.subscribe("/queue/orders", "orders")
        orders = [message.body for message in worker.messages(MANY + 1, PATIENCE_S)]
        assert sorted(orders, key=int) == [b"%d" % number for number in range(MANY + 1)]
        until(lambda: running_edge(east, "orders-west") is other, lambda: logs(places), PATIENCE_S)
        worker.nothing()


def test_who_comes_from_the_other_place_may_do_just_that(places: dict[str, Cluster]):
    for user, place, consumed in (("from-west", "east", "/queue/orders"), ("from-east", "west", "/queue/orders")):
        edge = next(edge for edge in places[place].edges if edge.running)
        with Client(edge.port, timeout=PATIENCE_S) as client:
            client.connect({"login": user, "passcode": f"passcode of {user}"})
            client.send("SUBSCRIBE", {"destination": consumed, "id": "s"})
            assert client.expect("ERROR")["error-code"] == "1203"
