"""What the cases are tried on: one standalone broker, or one cluster, with every acceptor and address they need.

Rule: one configuration for all cases, because a cluster takes its time to start: cases differ in the acceptor they
connect to and in the first word of their addresses. In the cluster every connection goes to the other edge than the
one before it. Imports nothing of the product.
"""

from __future__ import annotations

import itertools
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness import Broker, free_ports, listens, until
from tests.harness.cluster import Cluster
from tests.harness.servers import running
from tests.harness.stomp import Client, ClosedByBroker, Frame, Headers
from tests.harness.waiting import PATIENCE_S

from ..targets import ClusterTarget

LOGIN, PASSCODE = "sixty", "cases"

ACCEPTORS: dict[str, dict[str, object]] = {
    "plain": {},
    "bounds": {"url": "tcp://127.0.0.1:{port}?connectionTtlMin=5000;connectionTtlMax=10000;disableStompServerHeader=true"},
    "modifier": {"url": "tcp://127.0.0.1:{port}?protocols=STOMP;heartBeatToConnectionTtlModifier=1.5"},
    "brief": {"url": "tcp://127.0.0.1:{port}?protocols=STOMP;connectionTtl=1000"},
    "marks": {"url": "tcp://127.0.0.1:{port}?stompEnableMessageId=true", "validated_user": True},
    "strict": {"selector_coercion": "strict"},
    "narrow": {"url": "tcp://127.0.0.1:{port}?webSocketMaxFramePayloadLength=65536"},
    "wide": {"url": "tcp://127.0.0.1:{port}?stompMaxFramePayloadLength=200000"},
}  # fmt: skip
"""Name → settings. `plain` has the defaults; an Artemis URL stands where the case speaks of one."""

SETTINGS: dict[str, object] = {
    "engine.xpath": True,
    "edge.client_ids": "*",  # as Artemis has it: any client-id for any user
    "engine.addresses.off.#.auto_create": False,
    "engine.addresses.off.#.auto_create_queues": False,
    "engine.addresses.off.only.anycast.routing_types": "ANYCAST",
    "engine.addresses.off.only.anycast.declared": True,
    "engine.addresses.unmade.#.auto_create_queues": False,
    "engine.queues.both.one.address": "both",
    "engine.queues.both.two.address": "both",
    "engine.queues.both.news.address": "both",
    "engine.queues.both.news.routing": "MULTICAST",
    "engine.addresses.newest.#.last_value": True,
    "engine.addresses.newest.#.exclusive": True,
    "engine.addresses.stamped.#.ingress_timestamp": True,
    "engine.addresses.poison.#.max_delivery_attempts": 3,
    "engine.addresses.poison.#.dead_letter_address": "dead.letters",
    "engine.addresses.discard.#.nack_policy": "discard",
    "journal.segment_bytes": 1 << 20,
}
CLUSTER: dict[str, object] = {
    # These cases are not about fail-over: a busy machine must not cause one.
    "cluster.lease_s": 20,
    "cluster.dead_after_ms": 10_000,
}


class User(Client):
    """A client that logs in as the user the site has."""

    def connect(self, headers: Headers = ()) -> Frame:
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        return super().connect([*pairs, ("login", LOGIN), ("passcode", PASSCODE)])


class Site:
    """Where a case is tried.

    ports       acceptor → port, of every process that has acceptors.
    admin       admin ports of the processes that keep queues.
    alive, log  do all processes run; what they have logged.
    restart     ends and starts what keeps messages, with some settings changed."""

    def __init__(
        self,
        ports: list[dict[str, int]],
        admin: list[int],
        sync_queues: tuple[str, ...],
        alive: Callable[[], bool],
        log: Callable[[], str],
        restart: Callable[[Mapping[str, object]], None],
    ) -> None:
        self._turns = itertools.cycle(ports)
        self.edges = len(ports)
        self._admin = admin
        self._sync_queues = sync_queues
        self.alive = alive
        self.log = log
        self.restart = restart

    def port(self, acceptor: str = "plain") -> int:
        """Of the other edge than the last one."""
        return next(self._turns)[acceptor]

    def dial(self, version: str = "1.2", acceptor: str = "plain", **options: object) -> User:
        """A connection without CONNECT."""
        user = User(self.port(acceptor), version, **options)  # type: ignore[arg-type]
        user.sync_queues = self._sync_queues
        return user

    def queues(self, address: str) -> dict[str, float]:
        """Queue → messages in it, of one address; "(subscribers)" are the queues of its subscribers together."""
        found: dict[str, float] = {}
        line = re.compile(
            rf'stomp_queue_messages\{{address="{re.escape(address)}",queue="([^"]*)",state="[a-z]*"\}} (.*)'
        )
        for port in self._admin:
            for name, value in line.findall(_metrics(port)):
                found[name] = found.get(name, 0) + float(value)
        return found

    def wait_queues(self, address: str, wanted: dict[str, float]) -> None:
        """Until the queues of the address are these."""
        until(lambda: self.queues(address) == wanted, lambda: f"{address}: {self.queues(address)}, not {wanted}")


def _metrics(port: int) -> str:
    """Of a process that serves clients; its admin port may open after that, and drops what is asked until then."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                return str(page.read().decode())
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _acceptors(ports: Mapping[str, int]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for name, port in ports.items():
        about = ACCEPTORS[name]
        if "url" not in about:
            settings[f"acceptors.{name}.port"] = port
        for key, value in about.items():
            settings[f"acceptors.{name}.{key}"] = str(value).replace("{port}", str(port))
    return settings


def _free() -> dict[str, int]:
    return dict(zip(ACCEPTORS, free_ports(len(ACCEPTORS)), strict=True))


@contextmanager
def standalone_site(folder: Path) -> Iterator[Site]:
    ports = _free()
    broker = Broker(folder, {**SETTINGS, **_acceptors(ports)})
    broker.add_user(LOGIN, PASSCODE)

    def restart(settings: Mapping[str, object]) -> None:
        assert broker.stop() == 0, broker.log()[-6000:]
        broker.settings |= {name: str(value) for name, value in settings.items()}
        broker.start()
        admin_listens()

    def admin_listens() -> None:
        """Later than STOMP does: its libraries take a while to load."""
        until(lambda: listens(broker.admin_port), "the admin port does not listen")

    with broker:
        admin_listens()
        yield Site(
            [ports], [broker.admin_port], ("/queue/harness.sync",), lambda: broker.alive, broker.log, restart
        )  # fmt: skip
        assert "Traceback" not in broker.log()


@contextmanager
def cluster_site(folder: Path) -> Iterator[Site]:
    with running("etcd", folder / "etcd", ours=True) as etcd:
        cluster = Cluster(folder, etcd.port, settings={**SETTINGS, **CLUSTER})
        ports = [_free() for _ in cluster.edges]
        for edge, own in zip(cluster.edges, ports, strict=True):
            edge.settings = _acceptors(own)

        def at_rest() -> None:
            """Leaders move no more: that costs who is sending a large message the connection."""
            cluster.wait(lambda: not cluster.status()["left_to_move"], 60, lambda: f"not at rest: {cluster.status()}")

        with cluster:
            at_rest()
            target = ClusterTarget(cluster)
            cluster.cluster("users", "set", LOGIN, "--passcode-stdin", stdin=PASSCODE + "\n")
            for own in ports:
                _wait_for_users(own["plain"])

            def restart(settings: Mapping[str, object]) -> None:
                cluster.settings |= settings
                for owner in cluster.owners:
                    assert owner.stop() == 0, owner.log()[-6000:]
                    owner.start()
                    owner.wait_ready()
                    cluster.wait_balanced()
                at_rest()

            yield Site(
                ports, [owner.admin_port for owner in cluster.owners], target.sync_queues, lambda: target.alive,
                target.log, restart,
            )  # fmt: skip
            assert "Traceback" not in target.log()


def _wait_for_users(port: int) -> None:
    """Until this edge asks who logs in."""

    def refused() -> bool:
        with Client(port, source="127.0.0.4") as stranger:
            try:
                stranger.connect()
            except (AssertionError, ClosedByBroker):
                return True
        return False

    until(refused, "everybody may still log in")


SITES = {"standalone": standalone_site, "cluster": cluster_site}
