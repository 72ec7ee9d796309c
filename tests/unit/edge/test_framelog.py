"""Frames in the log at DEBUG: enough to see what a client does, and nothing that opens a door."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from broker.edge.transport import framelog
from broker.wire.connection import Connection, Role

from .bench import Bench


async def test_a_passcode_is_not_logged_under_any_name(caplog):
    caplog.set_level(logging.DEBUG, "stampede.frames")
    bench = Bench()
    session, _ = bench.session()
    logged: Any = SimpleNamespace(channel=SimpleNamespace(peer="10.0.0.1:1", id=7))
    for name in ("passcode", "Passcode", "pascode", "password", "x"):
        stranger = Connection(Role.SERVER, session.entrance.wire, session.entrance.memo)
        frame = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\n{name}:hunter2\n\n\0"
        framelog.received(logged, stranger.receive(frame.encode()))
    assert caplog.text.count("ada") == 5 and "hunter2" not in caplog.text


async def test_a_passcode_that_is_part_of_a_name_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG, "stampede.frames")
    session, _ = Bench().session()
    caplog.clear()
    logged: Any = SimpleNamespace(channel=SimpleNamespace(peer="10.0.0.1:1", id=7))
    for line in (
        "passcode=hunter2:1",
        "hunter2:1",
        "login=ada passcode=hunter2:",
        "pass code hunter2:x",
        "host;hunter2:x",
    ):
        for command in ("CONNECT", "STOMP"):
            stranger = Connection(Role.SERVER, session.entrance.wire, session.entrance.memo)
            framelog.received(logged, stranger.receive(f"{command}\naccept-version:1.2\nhost:h\n{line}\n\n\0".encode()))
    assert caplog.text.count("'host': 'h'") == 10 and "hunter2" not in caplog.text
    assert caplog.text.count("'passcode***': '***'") == 2  # the slip is still to be seen


async def test_every_frame_has_a_line_with_client_connection_destination_and_size(caplog):
    caplog.set_level(logging.DEBUG, "stampede.frames")
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    caplog.clear()
    session.receive(b"".join(b"SEND\ndestination:/queue/a\nn:1\n\n%b\0" % (b"x" * n) for n in range(1, 6)))
    bench.deliver(consumer, b"one", b"second")
    reader = bench.deliver_large(consumer, 2000)
    reader.turn()
    session.receive(b"".join(b"ACK\nid:boot-%d-%d\n\n\0" % (consumer, n) for n in (1, 2, 3)))
    lines = [record.getMessage() for record in caplog.records]
    assert all(line.startswith(f"{wire.peer} #{session.id} ") for line in lines)
    assert "hunter2" not in caplog.text and "second" not in caplog.text
    sends = [line for line in lines if "> SEND" in line]
    assert [line.rpartition("(")[2] for line in sends] == [f"{n} bytes)" for n in range(1, 6)]
    assert all("destination:/queue/a" in line for line in sends)
    shown = [line for line in lines if "< MESSAGE" in line]
    assert [line.rpartition("(")[2] for line in shown] == ["3 bytes)", "6 bytes)", "2000 bytes)"]
    acks = [line for line in lines if "> ACK" in line]
    assert len(acks) == 3 and all("destination:/queue/q1" in line for line in acks)


def test_a_piece_with_bodies_that_look_like_frames_is_read_by_its_lengths():
    piece = b"\nMESSAGE\ncontent-length:9\n\nA\n\n\0ERROR\0RECEIPT\nreceipt-id:1\n\n\0"
    assert [(head[:7], size) for head, size in framelog._frames(piece)] == [(b"", 0), (b"MESSAGE", 9), (b"RECEIPT", 0)]
