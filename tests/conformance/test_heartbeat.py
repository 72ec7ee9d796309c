"""C29 … C33: heart-beats, with short intervals on a broker of their own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, scratch
from tests.harness.stomp import ClosedByBroker

from .checks import error, since_11

FLOOR = 100
TOLERANCE = 2.0


@pytest.fixture(scope="module")
def quick(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = {"edge.heartbeat_min_ms": FLOOR, "edge.heartbeat_tolerance": TOLERANCE}
    with scratch(request, "heartbeat") as folder, Broker(folder, settings) as broker:
        yield broker


@since_11
@pytest.mark.parametrize("value", ["abc", "1", "1,2,3", "-1,0", "0,-1", "1.5,0", "1,", ",", "", "1;2", "0x1,0", "١,0"])
def test_C29_a_malformed_heart_beat_is_an_error(dial, version, value):
    client = dial(version)
    client.send("CONNECT", {"accept-version": version, "host": "x", "heart-beat": value})
    error(client, Code.BAD_HEARTBEAT)


@since_11
def test_C30_missing_means_none(dial, version):
    assert "heart-beat" not in dial(version).connect().headers


@since_11
@pytest.mark.parametrize(
    ("asked", "server_sends", "server_expects"),
    [
        ("0,0", 0, 0), ("0,300", 300, 0), ("300,0", 0, 300), ("5000,7000", 7000, 5000),
        ("1,1", FLOOR, FLOOR), ("99,101", 101, FLOOR), ("1999,4501", 4501, 1999),
    ],
)  # fmt: skip
def test_C31_both_directions_are_negotiated_to_the_millisecond(quick, version, asked, server_sends, server_expects):
    """Server → client is MAX(sx, cy), client → server MAX(cx, sy); no rounding."""
    with Client(quick.port, version) as client:
        sx, sy = map(int, client.connect({"heart-beat": asked})["heart-beat"].split(","))
    cx, cy = map(int, asked.split(","))
    assert (max(sx, cy) if sx and cy else 0) == server_sends
    assert (max(cx, sy) if cx and sy else 0) == server_expects


@since_11
def test_C31_huge_values_are_taken(dial, version):
    dial(version).connect({"heart-beat": "4294967295,4294967295"})


@pytest.mark.alone
@since_11
def test_C32_the_server_beats_at_least_every_n_ms(quick, version):
    with Client(quick.port, version) as client:
        client.connect({"heart-beat": "0,200"})
        moments = [time.monotonic()]
        while moments[-1] - moments[0] < 1.2:
            client.socket.settimeout(2)
            assert client.socket.recv(100).strip(b"\n") == b""
            moments.append(time.monotonic())
    gaps = sorted(b - a for a, b in itertools.pairwise(moments))
    assert gaps[len(gaps) // 2] <= 0.2
    assert gaps[-1] <= 0.4, gaps


@pytest.mark.alone
@since_11
def test_C33_a_silent_client_is_told_and_closed_after_the_margin(quick, version):
    before = quick.closed("heartbeat_missed")
    with Client(quick.port, version) as client:
        client.connect({"heart-beat": "200,0"})
        start = time.monotonic()
        error(client, Code.HEARTBEAT_MISSED)
        waited = time.monotonic() - start
    assert 0.2 * TOLERANCE * 0.95 <= waited <= 0.2 * TOLERANCE * 1.25 + 0.3
    assert quick.closed("heartbeat_missed") == before + 1


@since_11
@pytest.mark.parametrize("data", [b"\n", b"SEND\ndestination:/topic/nobody\n\nx\0"], ids=["eol", "frames"])
def test_C33_any_data_counts(quick, version, data):
    with Client(quick.port, version) as client:
        client.connect({"heart-beat": "400,0"})
        for _ in range(5):
            client.raw(data)
            time.sleep(0.2)
        client.nothing()


@since_11
def test_C33_a_piece_of_a_frame_counts(quick, version):
    with Client(quick.port, version) as client:
        client.connect({"heart-beat": "400,0"})
        for piece in (b"SEND\n", b"destination:", b"/topic/nobody", b"\nreceipt:r", b"\n\n", b"x\0"):
            client.raw(piece)
            time.sleep(0.2)
        client.expect("RECEIPT")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_without_heart_beats_nobody_is_closed(quick, version):
    with Client(quick.port, version) as client:
        client.connect()
        time.sleep(0.6)
        client.nothing()
        assert client.eols == 0


@since_11
def test_messages_make_heart_beats_unnecessary(quick, version):
    """The server counts what it sends: a client that gets messages gets no empty lines beside them."""
    with Client(quick.port, version) as client:
        client.connect({"heart-beat": "0,1000"})
        client.subscribe("/topic/busy")
        end = time.monotonic() + 1.6
        while time.monotonic() < end:
            client.send("SEND", {"destination": "/topic/busy"}, b"x")
            client.read()
            time.sleep(0.02)
        assert client.eols == 0


@since_11
def test_heart_beats_go_on_inside_a_slow_large_body(quick, version):
    """A client in the middle of a long SEND still gets its beats, and its bytes count as its own."""
    with Client(quick.port, version) as client:
        client.connect({"heart-beat": "400,200"})
        client.raw(b"SEND\ndestination:/topic/nobody\nreceipt:r\ncontent-length:600000\n\n")
        for _ in range(6):
            client.raw(b"x" * 100_000)
            time.sleep(0.2)
        client.raw(b"\0")
        client.expect("RECEIPT")
        assert client.eols >= 2


def test_a_client_that_is_cut_for_silence_leaves_its_messages(quick):
    with Client(quick.port) as silent, Client(quick.port) as other:
        silent.connect({"heart-beat": "150,0"})
        other.connect()
        silent.subscribe("/queue/hb.silent", ack="client")
        other.publish("/queue/hb.silent", b"x")
        silent.read()
        other.subscribe("/queue/hb.silent")
        message = other.read()
        assert (message.body, message["redelivered"]) == (b"x", "true")
        with pytest.raises(ClosedByBroker):
            while True:
                silent.read()
