"""The two places of docs/bridges.md, run by the very files of docs/examples/two-places: over TLS, each with users of
its own, one of them killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.edge.access.users import add_user
from tests.harness import Broker, Client, until
from tests.harness.broker import settings_in
from tests.harness.secrets import self_signed

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "two-places"
USERS = {"east": ("bridge", "from-west", "shop"), "west": ("bridge", "from-east", "worker")}
PATIENCE_S = 60.0


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    """Both, with their users; the passcode of each is its name."""
    files = self_signed(tmp_path, "both")
    brokers = {name: Broker(tmp_path / name, tls=True) for name in USERS}
    for name, broker in brokers.items():
        broker.data.mkdir(parents=True)
        for other, at in brokers.items():
            (broker.folder / f"{other}.passcode").write_text(f"from-{name}\n")
            values = {
                "/etc/stampede/tls.crt": files[0], "/etc/stampede/tls.key": files[1],
                f"/etc/stampede/{other}-ca.pem": files[0],
                f"/etc/stampede/{other}.passcode": broker.folder / f"{other}.passcode",
                f"stomp+ssl://{other}.example.com:61612": f"stomp+ssl://127.0.0.1:{at.tls_port}",
            }  # fmt: skip
            for key, value in settings_in((EXAMPLES / f"{name}.toml").read_text()).items():
                if value in values:
                    broker.settings[key] = str(values[value])
                elif str(value).startswith(("/etc/", "stomp")) or key == "edge.tls_port":
                    continue  # of the other place, or what the harness sets
                else:
                    broker.settings[key] = str(value)
        for user in USERS[name]:
            add_user(str(broker.data / "users.toml"), user, user)
    with ExitStack() as stack:
        yield {name: stack.enter_context(broker) for name, broker in brokers.items()}


def client(broker: Broker, user: str) -> Client:
    made = Client(broker.port, timeout=PATIENCE_S)
    made.connect({"login": user, "passcode": user})
    return made


def up(broker: Broker) -> bool:
    return all(value == 1 for name, value in broker.metrics().items() if name.startswith("stomp_bridge_up"))


def test_orders_go_west_and_news_are_heard_in_both(places: dict[str, Broker]):
    east, west = places["east"], places["west"]
    for each in places.values():
        until(lambda each=each: up(each), each.log, PATIENCE_S)
    with client(east, "shop") as shop, client(west, "worker") as worker:
        worker.subscribe("/topic/news.#", "news")
        shop.subscribe("/topic/news.#", "news")
        worker.ask("SEND", {"destination": "/topic/news.west", "persistent": "true"}, b"of the west")
        shop.ask("SEND", {"destination": "/topic/news.east", "persistent": "true"}, b"of the east")
        for each in (shop, worker):
            seen = sorted((message.body, message["destination"]) for message in each.messages(2, PATIENCE_S))
            assert [body for body, _ in seen] == [b"of the east", b"of the west"]
            each.nothing()
        for number in range(100):
            shop.send("SEND", {"destination": "/queue/orders", "persistent": "true"}, b"%d" % number)
        shop.sync()
        east.kill()
        east.start()
        worker.subscribe("/queue/orders", "orders")
        orders = [message.body for message in worker.messages(100, PATIENCE_S)]
        assert sorted(orders, key=int) == [b"%d" % number for number in range(100)]
        until(lambda: up(east), east.log, PATIENCE_S)
        worker.nothing()
