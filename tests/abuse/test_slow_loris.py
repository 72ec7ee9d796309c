"""Clients that begin and do not end: every beginning has a deadline of its own."""

from __future__ import annotations

import select
import time

import pytest

from broker.core.errors import Code
from tests.harness import Client, until

LOGIN_S, FRAME_S = 0.5, 0.6
SETTINGS = {"edge.login_timeout_s": LOGIN_S, "edge.frame_timeout_s": FRAME_S}


def trickle(client: Client, data: bytes, seconds: float) -> float:
    """One byte every 50 ms until the broker says something or hangs up; how long that took."""
    start = time.monotonic()
    for position in range(len(data)):
        client.raw(data[position : position + 1])
        if select.select([client.socket], [], [], 0.05)[0]:
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            break
    raise AssertionError(f"nothing happened in {seconds} s")


def test_one_byte_at_a_time_before_login(dial, counted, ends):
    client = dial()
    waited = trickle(client, b"CONNECT\naccept-version:1.2\nhost:" + b"x" * 1000, 4)
    assert LOGIN_S * 0.9 < waited < LOGIN_S + 1.0
    ends(client, Code.LOGIN_TIMEOUT)
    counted("login_timeout")


@pytest.mark.parametrize("said", [b"", b"\n", b"CONN"])
def test_silence_before_login(dial, counted, ends, said):
    client = dial()
    client.raw(said)
    ends(client, Code.LOGIN_TIMEOUT)
    counted("login_timeout")


def test_empty_lines_are_no_login(dial, counted, ends):
    client = dial()
    trickle(client, b"\n" * 1000, 4)
    ends(client, Code.LOGIN_TIMEOUT)
    counted("login_timeout")


@pytest.mark.parametrize(
    "start",
    [b"SEN", b"SEND\ndestination:/queue/slow\n", b"SEND\ndestination:/queue/slow\ncontent-length:100000\n\n"],
    ids=["command", "headers", "body"],
)
def test_one_byte_at_a_time_inside_a_frame(join, counted, ends, start):
    client = join()
    client.raw(start)
    waited = trickle(client, b"x" * 1000, 4)
    assert FRAME_S * 0.9 < waited < FRAME_S + 1.5
    ends(client, Code.FRAME_TIMEOUT)
    counted("frame_timeout")


def test_one_byte_at_a_time_inside_a_streamed_body(join, counted, ends):
    client = join()
    client.raw(b"SEND\ndestination:/queue/slow\ncontent-length:10000000\n\n" + b"x" * 200_000)
    trickle(client, b"x" * 1000, 5)
    ends(client, Code.FRAME_TIMEOUT)
    counted("frame_timeout")


def test_silence_inside_a_frame(join, counted, ends):
    client = join()
    client.raw(b"SEND\ndestination:/queue/slow\n\nbody without an end")
    ends(client, Code.FRAME_TIMEOUT)
    counted("frame_timeout")


def test_a_slow_upload_that_makes_progress_is_no_attack(join, queue):
    """Much longer than frame_timeout_s in all, but never without progress."""
    client = join()
    client.subscribe(queue)
    client.raw(f"SEND\ndestination:{queue}\ncontent-length:1000000\n\n".encode())
    for _ in range(10):
        client.raw(b"x" * 100_000)
        time.sleep(FRAME_S / 3)
    client.raw(b"\0")
    assert len(client.read().body) == 1_000_000


def test_an_idle_connection_between_frames_is_no_attack(join):
    client = join()
    time.sleep(FRAME_S * 2)
    client.raw(b"\n")
    time.sleep(FRAME_S * 1.5)
    client.nothing()


def test_a_thousand_connections_that_say_nothing(broker, counted):
    """They cost little while they last and are gone after the login timeout, one reason each."""
    before, files = broker.rss(), broker.open_files()
    clients = [Client(broker.port) for _ in range(1000)]
    try:
        assert broker.rss() - before < 16_000 * 1000
        for client in clients:
            assert client.read()["error-code"] == str(Code.LOGIN_TIMEOUT.number)
            client.ended()
    finally:
        for client in clients:
            client.close()
    counted("login_timeout", 1000)
    until(lambda: broker.open_files() <= files + 5, lambda: f"{broker.open_files()} files, {files} before")
