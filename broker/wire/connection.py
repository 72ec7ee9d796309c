"""The STOMP codec of one connection: bytes in, events out, for either side.

A connection is idle between frames; inside a frame it keeps the octets that have come (`_held`) until a
certain number of them (`_need`), or a NUL, makes another look worth while; inside a large body it hands the
octets on as they come. After CONNECT it takes nothing until the caller has decided (`accept_login`); after
DISCONNECT, or a violation, nothing any more.

Rule: the same bytes give the same events however they are cut (pieces of large bodies, and SENDs that may pass each
other, aside: Head.order), and any bytes at all end in events, never in an exception. Must not know sockets, clocks,
sessions or queues.
"""

# Example. A 1.2 client that does not wait: CONNECT…NUL LF SEND a…NUL SEND b in one read, the end of b in the next.
#     HANDSHAKE  CONNECT is read, its event goes out, the phase is LOGIN. Both SENDs are held as raw octets: they are
#                looked at only when the answer is known and the version is agreed on (C21, C24)
#     LOGIN      the caller checks the passcode, says accept_login(1.2) and receive(b""): now SEND a is an event, and
#                of b `_held` keeps what has come. Its block said content-length:900, so `_need` is the block + 900 +
#                NUL
#     OPEN       reads that do not reach `_need` are appended and nothing else: one look when b is whole, not one a
#                read
#     CLOSING    DISCONNECT was read; a line end may follow (C01, C33), a frame may not
# A body over large_body_bytes is never held: BodyStart, BodyData for each read, BodyEnd.

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Final

from broker.config.settings import WireSettings
from broker.core.errors import Code, ProtocolViolation

from .block import CHEAP, Block, check_limits, cost_of, implies, read_block
from .events import IMPLIED, BodyData, BodyEnd, BodyStart, Event, Frame, Head, Violation
from .intake import MANY_LINES, Intake
from .memo import Memo
from .rules import HANDSHAKE as OPENING
from .rules import STRICT, Leniency, Role
from .sends import SendReader
from .shortcuts.bulk import read_acks
from .shortcuts.known_sends import KnownSends
from .versions import Version, negotiate

__all__ = ["Connection", "Role"]

TLS_HANDSHAKE: Final = 0x16
HTTP: Final = (
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"OPTIONS ",
    b"DELETE ",
    b"PATCH ",
    b"TRACE ",
    b"CONNECT ",
    b"PRI ",
)
LF, CR = 10, 13
PRIVATE_ENTRIES: Final = 64
"""Header blocks remembered by a connection that was given no memo to share."""
# Values of Connection._stream besides the number of octets still to come:
UNTIL_NUL: Final = -1
NO_STREAM: Final = -2
# Answers of Connection._body_end besides an offset:
INCOMPLETE: Final = -1
TOO_LONG_TO_WAIT: Final = -2


class Phase(IntEnum):
    """What may come next."""

    HANDSHAKE = 0
    LOGIN = 1
    """CONNECT was handed out; the caller decides."""
    OPEN = 2
    CLOSING = 3
    """DISCONNECT was read: only empty lines may follow."""
    DEAD = 4


HANDSHAKE, LOGIN, OPEN, CLOSING, DEAD = Phase


class Connection:
    """See the head of this file.

    version   whose rules apply; 1.0 until the versions are agreed on.
    eols      empty lines (heart-beats) seen so far.
    mid_frame a frame has begun and is not finished. While a login is being decided, nothing counts as begun.
    more      receive() has stopped at `burst`: call receive(b"") for what else is there, in the next turn.
    """

    __slots__ = (
        "_held", "_known", "_leniency", "_limit", "_memo", "_need", "_nul_wakes", "_phase", "_role", "_searched",
        "_sends", "_settings", "_stream", "_streamed", "burst", "eols", "mid_frame", "more", "version",
    )  # fmt: skip

    def __init__(
        self,
        role: Role,
        settings: WireSettings,
        memo: Memo | None = None,
        leniency: Leniency = STRICT,
        burst: int = sys.maxsize,
    ) -> None:
        """burst: frames, or groups of like ones, of one receive(), a large header block counting as several (cost_of);
        a part of the bytes it has waits here then."""
        self._role = role
        self._leniency = leniency
        self._settings = settings
        self._memo = memo
        self.version = Version.V10
        self.eols = 0
        self._phase: Phase = HANDSHAKE
        self._sends: SendReader | None = None
        self._known: KnownSends | None = None
        # What has come of an unfinished frame; a bytearray once it has grown.
        # Bytes at first: most reads end between frames, and an empty or small bytes object costs nothing to make.
        self._held: bytes | bytearray = b""
        self._need = 0  # in octets from the beginning of `_held`
        self._nul_wakes = False
        self._searched = 0  # octets of `_held` in which no empty line begins
        # Bytes a frame may have, without its NUL.
        self._limit = min(settings.max_frame_bytes_before_login, settings.max_frame_bytes)
        self._stream = NO_STREAM  # octets of the body to come, or one of the two values above
        self._streamed = 0  # octets of this frame that were handed out
        self.burst = burst
        self.more = False
        self.mid_frame = False

    @property
    def held(self) -> int:
        """Bytes of frames that have not come to their end."""
        return len(self._held)

    def set_version(self, version: Version) -> None:
        """The versions are agreed on: later frames are read by the rules of `version`."""
        if version is not self.version:
            self.version = version
            self._sends = self._known = None

    def remembers_in(self, memo: Memo) -> None:
        """From its first SEND on: what header blocks mean is shared by those for whom it is the same."""
        self._memo = memo

    def accept_login(self, version: Version) -> None:
        """CONNECT is accepted: limits for strangers end, further frames are legal. Octets that came behind the
        CONNECT are held: call receive(b"") for their events."""
        self.set_version(version)
        if self._phase is LOGIN:
            self._open()

    def _open(self) -> None:
        self._phase = OPEN
        self._limit = self._settings.max_frame_bytes

    def receive(self, data: bytes) -> list[Event]:
        """The events of the next octets of the peer's byte stream, cut anywhere. Never raises."""
        phase = self._phase
        self.more = False
        if phase is DEAD:
            return []
        held = self._held
        if phase is LOGIN:
            return self._keep_back(data)
        known = self._known
        # Most reads of a client that waits for something are one SEND. Where nothing is under way, it is its event.
        if known is not None and phase is OPEN and not held and data[:1] == b"S" and self._stream == NO_STREAM and (
            alone := known.alone(data)
        ) is not None:  # fmt: skip
            self.eols += data[-1] == LF
            return [alone]
        if held:
            # The two together make the reading linear in what has come: without `_need` a 1 MB body in reads of 1 KB
            # would be joined and looked at 1,000 times, half a gigabyte of copying.
            if len(held) + len(data) < self._need and not (self._nul_wakes and b"\0" in data):
                if type(held) is bytes:
                    held = self._held = bytearray(held)
                held += data
                return []
            self.mid_frame = False
            data = b"".join((held, data))
            self._held = b""
        # CR LF ends lines in 1.2 (C03). Before the versions are agreed on the client may be one of 1.2.
        intake = Intake(data, self.version is Version.V12 or phase is HANDSHAKE, self._searched)
        self._need = self._searched = 0
        self._nul_wakes = False
        try:
            self._read(intake)
        except ProtocolViolation as violation:
            # Events of frames that came before the violation stand in front of it: they were legal, and are processed
            # (C62).
            intake.event(Violation(violation.code, violation.detail, violation.receipt, violation.about))
            self._phase = DEAD
            self._stream = NO_STREAM
            self.mid_frame = False
            return intake.out
        intake.flush()
        if intake.pos < intake.end:
            if self._phase is LOGIN:
                self.mid_frame = False
                return intake.out + self._keep_back(data[intake.pos :])
            self._held = data[intake.pos :]
            self.mid_frame = True
        else:
            self.mid_frame = self._stream != NO_STREAM
        return intake.out

    def _keep_back(self, data: bytes) -> list[Event]:
        """A client that does not wait for CONNECTED: bounded, because it is still a stranger."""
        if not data:
            return []
        if type(self._held) is bytes:
            self._held = bytearray(self._held)
        self._held += data
        limit = self._settings.max_frame_bytes_before_login
        # Twice: the CONNECT itself was within the limit, and clients send a few frames behind it. Nobody has been
        # authenticated, so the memory that a stranger gets must not depend on what may come later.
        if len(self._held) <= 2 * limit:
            return []
        # Dropped at once, not when the connection object goes: a login that is being decided may take seconds.
        self._held = b""
        self._phase = DEAD
        return [Violation(Code.FRAME_TOO_LARGE, f"more than {limit} bytes before CONNECTED; wait for it", None)]

    # ── frame by frame ─────────────────────────────────────────────────────────────────────────────

    def _read(self, intake: Intake) -> None:
        """Takes all it can. What is left from intake.pos on is an unfinished frame."""
        if self._stream != NO_STREAM and not self._stream_on(intake):
            return
        data, end = intake.data, intake.end
        out, burst = intake.out, self.burst
        while intake.pos < end:
            if len(out) + intake.cost >= burst:
                # The rest stays in the buffer for a later turn: one read of small frames is thousands of them.
                self.more = True
                return
            first = data[intake.pos]
            # Line ends behind a NUL say nothing (C01) but that somebody is there (C33). They are counted, so that who
            # sends nothing else can be slowed down, and passed together: a read of them alone is 256 Ki steps else.
            if first == LF:
                if data.startswith(MANY_LINES, intake.pos):
                    self.eols += intake.lines()
                    continue
                at = intake.pos + 1
                while data.startswith(b"\n", at):  # twice more at most: else they were many
                    at += 1
                self.eols += at - intake.pos
                intake.pos = at
                continue
            if first == CR and data.startswith(b"\r\n", intake.pos):
                self.eols += intake.lines()
                continue
            phase = self._phase
            if phase is OPEN and self._role is Role.SERVER:
                eols = -1
                if first == 83 and self._known is not None and self._sends is not None:
                    # Without a NUL there is no whole frame, which is all that these two take: the end of most reads.
                    if data.find(b"\0", intake.pos) >= 0:
                        eols = self._known.bulk(intake, burst)
                        # As there: not again with each octet that comes of a block.
                        if eols < 0 and (intake.pos or not intake.resumed):
                            eols = self._sends.read(intake, burst, self._known.learn)
                elif first == 65 and intake.plain_acks and data.startswith(b"ACK\n", intake.pos):
                    eols = read_acks(intake, self.version, self._small())
                if eols >= 0:
                    self.eols += eols
                    continue
            elif phase is LOGIN:
                # What stands behind a CONNECT is not looked at before the answer: it may be a refusal (C21), and the
                # version that it has to be read in is not agreed on (C24).
                return
            elif phase is CLOSING:
                raise ProtocolViolation(Code.AFTER_DISCONNECT, "nothing may follow DISCONNECT; close the connection")
            if first == CR and intake.pos + 1 == end:
                return  # its LF may be the first octet of the next read
            if not self._frame(intake):
                return

    def _frame(self, intake: Intake) -> bool:
        """Takes one frame, or the beginning of a large one. False: it is not complete."""
        pos = intake.pos
        if self._phase is HANDSHAKE:
            self._other_protocol(intake)
        stop = intake.blank(pos)
        if stop < 0:
            # Asked of what is not complete as well: without an end in sight it would be kept for ever (C18).
            check_limits(intake.data[pos:], self._settings, self._limit, self.version)
            # The last two octets may be the beginning of an empty line.
            self._searched = max(intake.end - pos - 2, 0)
            return False
        raw = intake.data[pos:stop]
        if self._phase is OPEN and self._role is Role.SERVER and raw.startswith((b"SEND\n", b"SEND\r\n")):
            return self._send(intake, raw, stop)
        if stop - pos > CHEAP:
            intake.weigh(cost_of(raw))
        if self._leniency.implied and self._phase is HANDSHAKE and implies(raw):
            # The frame itself is held back until the login is decided, as what stands behind a CONNECT is.
            intake.event(Frame(IMPLIED, {}, b"", None))
            self._phase = LOGIN
            return False
        return self._other(intake, raw, stop)

    def _other_protocol(self, intake: Intake) -> None:
        """Peers that knock at the wrong door get an answer that says so."""
        if intake.data[intake.pos] == TLS_HANDSHAKE:
            raise ProtocolViolation(
                Code.TLS_ON_PLAIN_PORT, "use the TLS port of this broker, or turn TLS off in the client"
            )
        if intake.data.startswith(HTTP, intake.pos):
            raise ProtocolViolation(Code.HTTP_ON_STOMP_PORT, "use the WebSocket port of this broker")

    def _send(self, intake: Intake, raw: bytes, stop: int) -> bool:
        sends = self._sends
        if sends is None:
            memo = self._memo or Memo(PRIVATE_ENTRIES)
            sends = self._sends = SendReader(self.version, self._settings, memo.families(self.version))
            self._known = KnownSends(self.version, self._settings, memo.layouts(self.version))
        block = sends.find(raw)
        if block.cost:
            intake.weigh(block.cost)
        length, receipt = block.length, block.receipt
        large = self._settings.large_body_bytes
        if length >= large:
            # Refused before BodyStart: the receiver of a stream would otherwise open a spool for what is never
            # finished.
            self._check_size(len(raw) + length, receipt)
            return self._start(intake, stop, BodyStart("SEND", sends.open_head(block), length, receipt))
        end = self._body_end(intake, stop, length, large, receipt)
        if end == TOO_LONG_TO_WAIT:
            return self._start(intake, stop, BodyStart("SEND", sends.open_head(block), None, receipt))
        if end == INCOMPLETE:
            return False
        sends.add(intake, block, intake.data[stop : end + 1])
        intake.pos = end + 1
        if block.names is not None and self._known is not None:
            self._known.learn(raw, block.names, intake)
        return True

    def _other(self, intake: Intake, raw: bytes, stop: int) -> bool:
        """A frame that is not a SEND to a server."""
        first = self._phase is HANDSHAKE
        block = read_block(raw, self._role, self.version, self._settings, self._limit, first, self._leniency)
        if block.command == "MESSAGE":
            large = self._settings.large_body_bytes
        else:
            # Bodies of CONNECT, ACK and the like have no meaning. Their limit is small, and beyond it they are
            # refused, not streamed.
            large = self._settings.max_control_body_bytes + 1
        length = block.length
        # In 1.2 such a frame must have no body (C13): its NUL has to be the next octet. Searching for a NUL would
        # take the frames that follow for its body.
        if length < 0 and block.bodyless:
            if stop == intake.end:
                self._need = stop + 1 - intake.pos
                return False
            if intake.data[stop]:
                raise ProtocolViolation(
                    Code.BODY_NOT_ALLOWED,
                    f"{block.command} has a body; put NUL right behind the empty line",
                    block.receipt,
                )
        if length >= large:
            self._check_size(len(raw) + length, block.receipt)
            return self._start_other(intake, stop, block)
        end = self._body_end(intake, stop, length, large, block.receipt)
        if end == TOO_LONG_TO_WAIT:
            return self._start_other(intake, stop, block)
        if end == INCOMPLETE:
            return False
        body = intake.data[stop:end]
        intake.pos = end + 1
        if not (block.command == "ACK" and not body and _plain_ack(block, self.version, intake)):
            intake.event(Frame(block.command, block.headers, body, block.receipt))
        # After the event: whoever reads the events sees CONNECT before the phase that it brings.
        self._turn(intake, block)
        return True

    def _turn(self, intake: Intake, block: Block) -> None:
        """Frames that change what may come next."""
        command = block.command
        if command == "DISCONNECT":
            self._phase = CLOSING
        elif command in OPENING[Role.SERVER]:
            self._phase = LOGIN
        elif command == "CONNECTED":
            self._open()
            version = negotiate(block.headers.get("version"))
            if version is None:
                raise ProtocolViolation(
                    Code.VERSION_MISMATCH, f"the server chose version:{block.headers['version'][:40]}, which is unknown"
                )
            self.set_version(version)
            # From here on CR LF is known to end lines, or not to: the rest of this same read is the server's first
            # frames.
            intake.crlf = version is Version.V12

    def _body_end(self, intake: Intake, stop: int, length: int, large: int, receipt: bytes | None) -> int:
        """Offset of the NUL behind the body; INCOMPLETE (what to wait for is noted then); or TOO_LONG_TO_WAIT when
        `large` octets came without a NUL."""
        data, pos = intake.data, intake.pos
        if length >= 0:
            # C14: so many octets, whatever they are. The size is refused before they are waited for.
            end = stop + length
            if end - pos > self._limit:
                self._check_size(end - pos, receipt)
            if end >= intake.end:
                self._need = end + 1 - pos
                return INCOMPLETE
            if data[end]:
                raise ProtocolViolation(
                    Code.MISSING_NUL, f"no NUL behind the {length} bytes that content-length promises", receipt
                )
            return end
        # Without a content-length the first NUL ends the body (C14). It is looked for in as much as a message in one
        # piece may have; beyond that the body goes on as a stream whose end is not known yet.
        end = data.find(b"\0", stop, stop + large)
        if end >= 0:
            if end - pos > self._limit:
                self._check_size(end - pos, receipt)
            return end
        have = min(intake.end, stop + large)
        self._check_size(have - pos, receipt)
        if have == stop + large:
            return TOO_LONG_TO_WAIT
        # One octet over the limit is enough to refuse it; a NUL may end it at any time before.
        # Memory while waiting: at most `large` or the limit, whichever is less, because one of the two ends the
        # waiting.
        self._need = min(stop + large - pos, self._limit + 1)
        self._nul_wakes = True
        return INCOMPLETE

    def _small(self) -> int:
        """Values up to here pass every limit, whatever else their frame holds."""
        # The sum of a few such values and names is below all limits together, hence a quarter.
        settings = self._settings
        return min(settings.max_header_bytes, settings.max_header_block_bytes, settings.max_frame_bytes) // 4

    def _check_size(self, size: int, receipt: bytes | None) -> None:
        limit = self._limit
        if size > limit:
            name = "max_frame_bytes_before_login" if self._phase is HANDSHAKE else "max_frame_bytes"
            raise ProtocolViolation(Code.FRAME_TOO_LARGE, f"a frame may have {limit} bytes ({name})", receipt)

    # ── large bodies ───────────────────────────────────────────────────────────────────────────────

    def _start_other(self, intake: Intake, stop: int, block: Block) -> bool:
        """The body of a frame other than SEND is large: a MESSAGE is streamed, anything else refused."""
        if block.command != "MESSAGE":
            raise ProtocolViolation(
                Code.FRAME_TOO_LARGE,
                f"the body of {block.command} may have {self._settings.max_control_body_bytes} bytes "
                "(max_control_body_bytes)",
                block.receipt,
            )
        length = block.length if block.length >= 0 else None
        return self._start(
            intake, stop, BodyStart("MESSAGE", Head(b"", block.headers, 0, False), length, block.receipt)
        )

    def _start(self, intake: Intake, stop: int, event: BodyStart) -> bool:
        """Hands out the beginning of a large body, and what has come of it."""
        intake.event(event)
        self._streamed = stop - intake.pos
        intake.pos = stop
        self._stream = UNTIL_NUL if event.length is None else event.length
        return self._stream_on(intake)

    def _stream_on(self, intake: Intake) -> bool:
        """The next piece of a large body. True: it is complete."""
        data, pos, end = intake.data, intake.pos, intake.end
        if self._stream == UNTIL_NUL:
            nul = data.find(b"\0", pos)
            stop = nul if nul >= 0 else end
            room = self._limit - self._streamed
            if stop - pos > room:
                # What fits is handed out first, as it would be had it come octet by octet.
                if room > 0:
                    intake.event(BodyData(data[pos : pos + room]))
                self._check_size(self._streamed + stop - pos, None)
            self._streamed += stop - pos
        else:
            stop = min(pos + self._stream, end)
            self._stream -= stop - pos
        if stop > pos:
            # A slice of the read it came in: of a large body nothing is kept here.
            intake.event(BodyData(data[pos:stop]))
        intake.pos = stop
        if stop == end:
            return False
        if data[stop]:
            raise ProtocolViolation(Code.MISSING_NUL, "no NUL behind the bytes that content-length promises")
        intake.pos = stop + 1
        intake.event(BodyEnd())
        self._stream = NO_STREAM
        return True


def _plain_ack(block: Block, version: Version, intake: Intake) -> bool:
    """An ACK with nothing but ids and receipt joins its neighbours (see events.Acks)."""
    # Whoever asks for more than ids (a `transaction`, C51) gets the full frame; the group carries nothing else.
    names = block.headers.keys() - {"receipt"}
    receipts = [] if block.receipt is None else [block.receipt]
    if version is Version.V12:
        if names != {"id"}:
            return False
        intake.acks([block.raw("id")], None, receipts)
        return True
    if names == {"message-id", "subscription"}:
        intake.acks([block.raw("message-id")], [block.raw("subscription")], receipts)
        return True
    if version is Version.V10 and names == {"message-id"}:
        intake.acks([block.raw("message-id")], None, receipts)
        return True
    return False
