"""The clocks of one connection: login deadline, heart-beats both ways, slow frames.

Rule: no timer per read. Deadlines look at counters which the session keeps anyway (bytes_in, bytes_out),
and re-arm themselves; an idle connection without heart-beats has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import Code

from .heartbeat import HeartBeat
from .timers import Handle

if TYPE_CHECKING:
    from .session import Session

BODY_FLOOR = 64 * 1024
"""Bytes of a large body that must come per frame_timeout_s: one byte a second is an attack, 1 KiB/s a modem."""
LOOKS = 4
"""Looks at a client's silence per promised interval."""


class Watch:
    """Owns the session's deadlines."""

    __slots__ = (
        "_eols", "_eols_at", "_eols_from", "_expect_s", "_frame", "_frame_from", "_in_seen", "_login", "_out_seen",
        "_receive", "_send", "_send_s", "_session", "_silences",
    )  # fmt: skip

    def __init__(self, session: Session) -> None:
        self._session = session
        self._expect_s = 0.0
        self._send_s = 0.0
        self._frame_from = 0
        self._in_seen = 0
        self._out_seen = 0
        self._silences = 0
        self._eols = 0
        self._eols_from = 0
        self._send: Handle | None = None
        self._receive: Handle | None = None
        self._frame: Handle | None = None
        edge = session.edge
        self._eols_at = edge.clock.monotonic()
        self._login: Handle | None = edge.beats.deadline(
            self._eols_at + edge.settings.edge.login_timeout_s, self._login_missed
        )

    def connected(self, beat: HeartBeat) -> None:
        """Login is decided: promises begin."""
        session = self._session
        self._cancel(self._login)
        self._login = None
        if beat.send_ms:
            # Looking every third of the interval, and writing unless something left since the last look,
            # leaves at most two thirds between two writes: never late, whatever the timer's grain.
            self._send_s = beat.send_ms / 3000
            self._arm_send()
        if beat.expect_ms:
            self._expect_s = beat.expect_ms * session.edge.settings.edge.heartbeat_tolerance / 1000
            self._in_seen = session.bytes_in
            self._arm_receive()

    def after_read(self) -> None:
        """Called once per read."""
        session = self._session
        if session.closed:
            return
        if session.wire.mid_frame:
            if self._frame is None:
                edge = session.edge
                self._frame = edge.beats.deadline(
                    edge.clock.monotonic() + edge.settings.edge.frame_timeout_s, self._frame_slow
                )
                self._frame_from = session.bytes_in
        elif self._frame is not None:
            self._cancel(self._frame)
            self._frame = None
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

    def stop(self) -> None:
        for handle in (self._login, self._send, self._receive, self._frame):
            self._cancel(handle)
        self._login = self._send = self._receive = self._frame = None

    # ── deadlines ──────────────────────────────────────────────────────────────────────────────────

    def _arm_send(self) -> None:
        beats = self._session.edge.beats
        self._out_seen = self._session.bytes_out
        self._send = beats.deadline(self._session.edge.clock.monotonic() + self._send_s, self._send_due)

    def _send_due(self) -> None:
        session = self._session
        if session.bytes_out == self._out_seen and session.writable:
            session.write(b"\n")
            session.flush()
        if not session.closed:
            self._arm_send()

    def _arm_receive(self) -> None:
        edge = self._session.edge
        self._receive = edge.beats.deadline(edge.clock.monotonic() + self._expect_s / LOOKS, self._silent)

    def _silent(self) -> None:
        """A look at whether anything came; LOOKS silent ones in a row are the promised time and no more than a
        LOOKS-th beyond it. While it is us who do not read, the client is not silent."""
        session = self._session
        if session.bytes_in != self._in_seen or not session.reading:
            self._in_seen = session.bytes_in
            self._silences = 0
        else:
            self._silences += 1
        if self._silences < LOOKS:
            self._arm_receive()
            return
        session.fail(
            Code.HEARTBEAT_MISSED,
            f"nothing came for {self._expect_s:.1f} s; send any byte at least as often as heart-beat promised",
        )

    def _login_missed(self) -> None:
        seconds = self._session.edge.settings.edge.login_timeout_s
        self._session.fail(Code.LOGIN_TIMEOUT, f"send CONNECT within {seconds:g} s of connecting")

    def _frame_slow(self) -> None:
        session = self._session
        self._frame = None
        large = session.publisher is not None and session.publisher.large is not None
        if not session.reading or (large and session.bytes_in - self._frame_from >= BODY_FLOOR):
            self.after_read()
            return
        seconds = session.edge.settings.edge.frame_timeout_s
        session.fail(Code.FRAME_TIMEOUT, f"a frame that has begun must end within {seconds:g} s")

    def _cancel(self, handle: Handle | None) -> None:
        if handle is not None:
            self._session.edge.beats.cancel(handle)
