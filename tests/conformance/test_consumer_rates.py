"""What a client with a consumer rate has been shown since it subscribed, however it reads: a second's and its rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, Client, build

RATE, MESSAGES, SECONDS = 50, 600, 3.0
BYTES = 1 << 16
"""Read at once: more than there is."""


def always(at: float) -> bool:
    return True


def late(at: float) -> bool:
    """Nothing for two seconds, then all."""
    return at > 2


def by_turns(at: float) -> bool:
    return int(2 * at) % 2 == 1


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    """Limited by the setting, and not at all."""
    folder: Path = tmp_path_factory.mktemp("rates")
    with (
        Broker(folder / "user", {"edge.max_consumer_rate": RATE}) as user,
        Broker(folder / "header", {}) as header,
    ):
        yield {"user": user, "header": header}


@pytest.mark.alone
@pytest.mark.parametrize(("by", "ack"), [("user", "auto"), ("header", "client-individual")])
@pytest.mark.parametrize("reads", [always, late, by_turns])
def test_no_pattern_of_reading_gets_more(
    limited: dict[str, Broker], by: str, ack: str, reads: Callable[[float], bool]
) -> None:
    """320 came in four seconds of a rate of 50."""
    broker, name = limited[by], f"{by}.{ack}.{reads.__name__}"
    with Client(broker.port) as sender:
        sender.connect()
        sender.raw(build("SEND", {"destination": f"/queue/{name}"}, b"x") * MESSAGES)
        sender.sync()
    headers: dict[str, object] = {"id": "1", "destination": f"/queue/{name}", "ack": ack}
    if by == "header":
        headers["consumer-max-rate"] = RATE
    with Client(broker.port) as client:
        client.connect()
        began = time.monotonic()
        client.send("SUBSCRIBE", headers)
        seen, rest = 0, b""
        while (at := time.monotonic() - began) < SECONDS:
            if not reads(at):
                time.sleep(0.01)
                continue
            client.socket.settimeout(0.05)
            try:
                data = rest + client.socket.recv(BYTES)
            except TimeoutError:
                continue
            *frames, rest = data.split(b"\0")
            seen += len(frames)
            at = time.monotonic() - began
            assert seen <= RATE * (at + 1) + 1, f"{seen} in {at:.2f} s"
            ids = [line[4:] for frame in frames for line in frame.split(b"\n") if line.startswith(b"ack:")]
            for id in ids[-1:] if ack == "client" else ids:
                client.send("ACK", {"id": id.decode()})
        assert seen >= RATE * 2, f"{seen} in all: no rate, a stall"
