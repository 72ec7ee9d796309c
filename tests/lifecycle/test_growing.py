"""An address of a standalone broker is given partitions while clients subscribe to it: they notice nothing."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.harness import Broker, Client, Frame
from tests.harness.waiting import until

QUEUE, TOPIC = DESTINATIONS = "/queue/grow", "/topic/grow.news"
ADDRESSES = ("grow", "grow.news")
PARTITIONS = 3
HELD = 30
WINDOW = 50


def joined(broker: Broker, **headers: object) -> Client:
    client = Client(broker.port)
    client.connect({name.replace("_", "-"): value for name, value in headers.items()})
    return client


class Configured(Broker):
    """A broker with a config file."""

    @property
    def config(self) -> Path:
        return self.folder / "stampede.toml"

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self.config)]


def by_api(broker: Configured) -> None:
    """As `stampede config set addresses NAME partitions=N` does it."""
    for address in ADDRESSES:
        request = urllib.request.Request(
            f"http://{broker.host}:{broker.admin_port}/api/v1/config/addresses/{address}",
            json.dumps({"values": {"partitions": str(PARTITIONS)}}).encode(), {"Content-Type": "application/json"},
            method="PATCH",
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200


def by_signal(broker: Configured) -> None:
    with open(broker.config, "a") as file:
        for address in ADDRESSES:
            file.write(f"[engine.addresses.'{address}']\npartitions = {PARTITIONS}\n")
    os.kill(broker.pid, signal.SIGHUP)
    until(lambda: "settings were read again: 2 entries" in broker.log(), broker.log)


class Reader:
    """A client and what it has got."""

    def __init__(self, client: Client, destination: str, **headers: object) -> None:
        self.client = client
        self.frames: list[Frame] = []
        client.subscribe(destination, **headers)

    def take(self, count: int) -> None:
        """So many in all, and no more come."""
        self.frames += self.client.messages(count - len(self.frames))
        self.client.nothing()

    def acknowledge(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self.client.ack(frame)

    @property
    def parts(self) -> int:
        """Slots that it has had something of."""
        return len({frame["message-id"].rpartition("-")[0] for frame in self.frames})


class Writer:
    """Sends the same to the queue and to the topic."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            wanted = "yes" if self.sent % 2 else "no"
            for destination in DESTINATIONS:
                headers = {"destination": destination, "persistent": "true", "wanted": wanted}
                self.client.send("SEND", headers, b"%d" % self.sent)
        self.client.sync()


@pytest.mark.parametrize("grow", [by_api, by_signal])
def test_who_subscribes_to_an_address_that_is_split_misses_nothing(
    tmp_path: Path, grow: Callable[[Configured], None]
) -> None:
    broker = Configured(tmp_path)
    broker.config.write_text("[cluster]\nlease_s = 2.0\n")  # messages follow so much later
    with broker:
        until(lambda: broker.http("/api/v1/overview")[0] == 200, broker.log)
        with (
            joined(broker) as one, joined(broker) as two, joined(broker) as three, joined(broker) as four,
            joined(broker, client_id="there") as five,
        ):  # fmt: skip
            with joined(broker, client_id="away") as away:
                away.subscribe(TOPIC, durable_subscription_name="it", selector="wanted = 'yes'")
            writer = Writer(one)
            worker = Reader(two, QUEUE, ack="client", prefetch_count=WINDOW)
            single = Reader(three, TOPIC, ack="client-individual", prefetch_count=WINDOW)
            durable = Reader(five, TOPIC, ack="client", prefetch_count=WINDOW, durable_subscription_name="it")
            windows, plain = (worker, single, durable), Reader(four, TOPIC)
            writer.send(HELD)
            for reader in windows:
                reader.take(HELD)
                reader.acknowledge(reader.frames[:5] if reader is single else reader.frames[4:5])
            grow(broker)
            end = time.monotonic() + 60
            while plain.parts < PARTITIONS:
                assert time.monotonic() < end, "nothing goes to the new partitions"
                writer.send(1)
                plain.take(writer.sent)
                time.sleep(0.2)
            writer.send(PARTITIONS * WINDOW)
            plain.take(writer.sent)
            for reader in windows:
                reader.take(5 + WINDOW)
                while len(reader.frames) < writer.sent:
                    reader.acknowledge(reader.frames[-WINDOW:] if reader is single else reader.frames[-1:])
                    reader.take(min(len(reader.frames) + WINDOW, writer.sent))
                if reader is not single:
                    # Whichever part delivered it: all before it are acknowledged.
                    reader.client.ack(reader.frames[-1], receipt="all")
                    reader.client.expect("RECEIPT")
            for reader in (plain, *windows):
                assert sorted(int(frame.body) for frame in reader.frames) == list(range(1, writer.sent + 1))
                assert reader.parts == PARTITIONS and not any(frame.get("redelivered") for frame in reader.frames)
        with joined(broker, client_id="away") as away:
            missed = Reader(away, TOPIC, durable_subscription_name="it", selector="wanted = 'yes'")
            missed.take((writer.sent + 1) // 2)
            assert {int(frame.body) for frame in missed.frames} == set(range(1, writer.sent + 1, 2))
        with joined(broker) as late, joined(broker, client_id="there") as again:
            Reader(late, QUEUE, ack="client").take(0)
            Reader(again, TOPIC, durable_subscription_name="it").take(0)
