"""The clocks of one connection: login deadline, heart-beats both ways, slow frames.

Rule: no timer per read. Deadlines look at counters which the session keeps anyway (bytes in and out) or at the
moment of the last read, and re-arm themselves; an idle connection that may be silent for ever has none.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from broker.config.acceptor import AcceptorSettings
from broker.core.errors import Code
from broker.wire.connection import Connection

from ..transport.timers import Handle
from .heartbeat import HeartBeat
from .parts import OpenConnection, ReadingHalf

BODY_FLOOR = 64 * 1024
"""Bytes of a large body that must come per frame_timeout_s: one byte a second is an attack, 1 KiB/s a modem."""
BREATH_BYTES = 512 * 1024
"""Read from one client at a time; then the owners have a turn."""
SECOND_LOOK_S = 0.1
"""Between the end of a client's TTL and the verdict. After a stall of the whole process timers may come before the
reads that would have saved the client; by the second look they are done."""
LONGEST_S = 3600.0
"""A deadline is never further away; loops cannot count as far as a TTL may."""


class WatchedOutbound(Protocol):
    """The writing half of what is watched."""

    @property
    def nbytes(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    def flush(self) -> None: ...


class ClockedClient(OpenConnection, Protocol):
    """The connection, as its clocks use it."""

    @property
    def acceptor(self) -> AcceptorSettings: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def wire(self) -> Connection: ...
    @property
    def inbound(self) -> ReadingHalf: ...
    @property
    def outbound(self) -> WatchedOutbound: ...


class Watch:
    """Owns the session's deadlines."""

    __slots__ = (
        "_eols", "_eols_at", "_eols_from", "_frame", "_frame_from", "_heard", "_login", "_out_seen",
        "_receive", "_send", "_send_s", "_session", "_ttl_s", "_warned", "breath", "minds",
    )  # fmt: skip

    def __init__(self, session: ClockedClient) -> None:
        self._session = session
        self._ttl_s = 0.0
        self._heard = 0.0
        """When the last byte came; kept only where there is a TTL."""
        self._warned = False
        """The TTL is over, the second look is due."""
        self._send_s = 0.0
        self._frame_from = 0
        self._out_seen = 0
        self.breath = BREATH_BYTES
        """after_read() is due when more than so much has been read in all …"""
        self.minds = False
        """… or with each read: there is a TTL, or a frame has begun."""
        self._eols = 0
        self._eols_from = 0
        self._send: Handle | None = None
        self._receive: Handle | None = None
        self._frame: Handle | None = None
        edge = session.edge
        self._eols_at = edge.clock.monotonic()
        seconds = session.acceptor.handshake_timeout_s
        self._login: Handle | None = (
            edge.beats.deadline(self._eols_at + seconds, self._login_missed) if seconds else None
        )

    def connected(self, beat: HeartBeat) -> None:
        """Login is decided: promises begin."""
        self._cancel(self._login)
        self._login = None
        if beat.send_ms:
            # A beat leaves at half of the interval; who is busy is looked at every quarter. Between two writes are at
            # most three quarters: something may have left just behind a look, the next one sees that, and the one
            # behind it comes after a quarter. Never late, whatever the timer's grain.
            self._send_s = beat.send_ms / 2000
            self._arm_send(self._send_s)
        if beat.ttl_ms:
            self._ttl_s = beat.ttl_ms / 1000
            self.minds = True
            self.heard()
            self._arm_receive(self._heard + self._ttl_s)

    def heard(self) -> None:
        """The client has shown that it lives, or may have: it was us who did not read."""
        if self._ttl_s:
            self._heard = self._session.edge.clock.monotonic()

    @property
    def told(self) -> dict[str, float]:
        """What both sides have promised, in seconds; 0: nothing. For operators."""
        return {"sends_every_s": 2 * self._send_s, "gone_after_s": self._ttl_s}

    def after_read(self) -> None:
        """Called once per read, but where nothing is to be minded."""
        session = self._session
        if session.closed:
            return
        if self._ttl_s:
            self.heard()
        if session.bytes_in > self.breath:
            self._breathe()
        if session.wire.mid_frame:
            if self._frame is None:
                edge = session.edge
                self._frame = edge.beats.deadline(
                    edge.clock.monotonic() + edge.settings.edge.frame_timeout_s, self._frame_slow
                )
                self._frame_from = session.bytes_in
                self.minds = True
                edge.holding.note(session)
        elif self._frame is not None:
            self._cancel(self._frame)
            self._frame = None
            self.minds = self._ttl_s > 0
        eols = session.wire.eols - self._eols
        limit = session.edge.settings.edge.max_eol_per_s
        if eols > limit:
            now = session.edge.clock.monotonic()
            # A client may end every frame with an empty line; only a stream that is mostly such lines is a flood.
            if now - self._eols_at < eols / limit and 2 * eols > session.bytes_in - self._eols_from:
                session.fail(
                    Code.HEARTBEAT_FLOOD, "empty lines come faster than max_eol_per_s; send one per heart-beat interval"
                )
                return
            self._eols += eols
            self._eols_at = now
            self._eols_from = session.bytes_in

    def _breathe(self) -> None:
        """The loop may read a socket many times over before another session has a turn: what is sent to an address that
        is full by then would all be taken in."""
        session = self._session
        self.breath = session.bytes_in + BREATH_BYTES
        session.inbound.pause_reading("breath")
        session.edge.beats.soon(partial(session.inbound.resume_reading, "breath"))

    def stop(self) -> None:
        for handle in (self._login, self._send, self._receive, self._frame):
            if handle is not None:
                self._cancel(handle)
        self._login = self._send = self._receive = self._frame = None

    # ── deadlines ──────────────────────────────────────────────────────────────────────────────────

    def _arm_send(self, seconds: float) -> None:
        beats = self._session.edge.beats
        self._out_seen = self._session.outbound.nbytes
        self._send = beats.deadline(self._session.edge.clock.monotonic() + seconds, self._send_due)

    def _send_due(self) -> None:
        session = self._session
        idle = session.outbound.nbytes == self._out_seen
        if idle and session.outbound.writable:
            session.outbound.write(b"\n")
            session.outbound.flush()
        if not session.closed:
            self._arm_send(self._send_s if idle else self._send_s / 2)

    def _arm_receive(self, at: float) -> None:
        edge = self._session.edge
        self._receive = edge.beats.deadline(min(at, edge.clock.monotonic() + LONGEST_S), self._silent)

    def _silent(self) -> None:
        """The TTL may be over. While it is us who do not read, the client is not silent: its time stands still."""
        session = self._session
        now = session.edge.clock.monotonic()
        if not session.inbound.reading:
            self._heard = now
        over = now - self._heard >= self._ttl_s
        if not over or not self._warned:
            self._warned = over
            self._arm_receive(now + SECOND_LOOK_S if over else self._heard + self._ttl_s)
            return
        session.fail(
            Code.HEARTBEAT_MISSED,
            f"Did not receive data from {session.channel.peer} within the {self._ttl_s * 1000:.0f}ms connection TTL; "
            f"the last byte came {now - self._heard:.1f} s ago. Send any byte more often, and promise it in "
            "heart-beat, or raise connectionTtl on the acceptor",
        )

    def _login_missed(self) -> None:
        seconds = self._session.acceptor.handshake_timeout_s
        self._session.fail(Code.LOGIN_TIMEOUT, f"send CONNECT within {seconds:g} s of connecting")

    def _frame_slow(self) -> None:
        session = self._session
        self._frame = None
        large = session.inbound.large is not None
        if not session.inbound.reading or (large and session.bytes_in - self._frame_from >= BODY_FLOOR):
            self.after_read()
            return
        seconds = session.edge.settings.edge.frame_timeout_s
        session.fail(Code.FRAME_TIMEOUT, f"a frame that has begun must end within {seconds:g} s")

    def _cancel(self, handle: Handle | None) -> None:
        if handle is not None:
            self._session.edge.beats.cancel(handle)
