"""The property every input must have, shared by the corpus replay, the seeded mutations and the atheris target."""

from __future__ import annotations

from broker.config.settings import WireSettings
from broker.core.errors import Code
from broker.wire.connection import Connection, Role
from broker.wire.events import Violation
from broker.wire.memo import Memo
from broker.wire.versions import Version
from tests.unit.wire.cutting import flatten

SETTINGS = WireSettings(
    max_frame_bytes=8000,
    max_frame_bytes_before_login=1000,
    max_control_body_bytes=300,
    max_headers=100,
    max_header_bytes=2000,
    max_header_block_bytes=4000,
    large_body_bytes=1500,
    memo_entries=8,
)
SHARED = Memo(8)
"""Kept from input to input, so that earlier blocks may mislead later ones if anything can."""
HELD_MOST = SETTINGS.max_frame_bytes + 16
STARTS = [(Role.SERVER, None), (Role.CLIENT, None), *((Role.SERVER, version) for version in Version)]
"""A stranger, a client, and logged-in connections of each version."""


def make(role, version, memo):
    connection = Connection(role, SETTINGS, memo)
    if version is not None:
        connection.receive(b"CONNECT\naccept-version:1.2\n\n\0")
        connection.accept_login(version)
    return connection


def feed(connection, pieces):
    """Flat events; checks what holds after every piece."""
    events = []
    for piece in pieces:
        new = connection.receive(piece)
        assert not any(isinstance(event, Violation) for event in events) or not new, "an event after the last one"
        events += new
        assert len(connection._held) <= HELD_MOST + len(piece), "more held than a frame may have"
    for event in events:
        if isinstance(event, Violation):
            assert isinstance(event.code, Code)
            assert event.detail
            if event.receipt is not None:
                assert not set(event.receipt) & set(b"\n\0"), "the ERROR that carries it would be broken"
    return flatten(events)


def try_input(data):
    """Events or a Violation, never an exception; the same for every cut and every memory; bounded memory."""
    for role, version in STARTS:
        whole = feed(make(role, version, SHARED), [data])
        step = max(len(data) // 400, 1)
        assert feed(make(role, version, SHARED), [data[i : i + step] for i in range(0, len(data), step)]) == whole
        middle = len(data) // 2
        assert feed(make(role, version, None), [data[:middle], data[middle:]]) == whole
