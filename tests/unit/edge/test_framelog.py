"""Frames in the log at DEBUG: enough to see what a client does, and nothing that opens a door."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from broker.edge import framelog
from broker.wire.connection import Connection, Role

from .test_session import Bench


async def test_a_passcode_is_not_logged_under_any_name(caplog):
    caplog.set_level(logging.DEBUG, "stampede.frames")
    bench = Bench()
    session, _ = bench.session()
    channel: Any = SimpleNamespace(peer="10.0.0.1:1", id=7)
    for name in ("passcode", "Passcode", "pascode", "password", "x"):
        stranger = Connection(Role.SERVER, session.entrance.wire, session.entrance.memo)
        frame = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\n{name}:hunter2\n\n\0"
        framelog.received(channel, stranger.receive(frame.encode()))
    assert caplog.text.count("ada") == 5 and "hunter2" not in caplog.text
