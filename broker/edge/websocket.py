"""STOMP over WebSocket (RFC 6455): a Channel whose stream comes and goes in WebSocket messages.

In: text and binary alike, cut and joined in any way; fragments are handed on as they come. Out: one message
per STOMP frame, of the kind the acceptor says (mirror: binary for a client that sends no text), and binary in any case
where the frame is not valid UTF-8; large bodies as fragments of one binary message. The `websockets` package's sans-IO
protocol parses and checks; unmasked frames are built here, in one write per batch.

Rule: everything of one read is parsed, then received by the session once, then answered in one write.
Knows no STOMP but the lone LF of a heart-beat.
"""

from __future__ import annotations

import asyncio
import http
import logging
import struct
from collections.abc import Callable

from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import BINARY, CLOSE, CONT, DATA_OPCODES, TEXT, CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, Event
from websockets.server import ServerProtocol

from broker.config.acceptor import AcceptorSettings
from broker.config.settings import EdgeSettings
from broker.core.reasons import Reason

from .channel import EdgeLike, SessionLike
from .tcp import BufferedReads, PlainReads, StreamChannel, discard
from .upgrade import Refusal, choose_subprotocol, refusal

log = logging.getLogger("stampede.edge")

MAX_REQUEST_BYTES = 16 * 1024
"""The whole HTTP request; browsers send up to 8 KiB of cookies."""
STRANGER_BYTES = 64 * 1024
"""Largest WebSocket payload before the session has said anything (CONNECTED)."""
COMPRESS_FROM = 1024
"""Smaller frames gain too little for the CPU they cost."""
INFLATE_STEP = 4096
"""Compressed input is fed in such pieces: deflate expands up to 1000 times, so one read of 256 KiB could
otherwise become 256 MiB before the session sees a byte."""

_DEFLATE = ServerPerMessageDeflateFactory(
    server_no_context_takeover=True, client_no_context_takeover=True, compress_settings={"level": 1, "memLevel": 5}
)  # No context takeover: an idle connection then owns no compressor (40 KiB each).

# The package would log frame contents at DEBUG, passcodes included; this logger is in no hierarchy and says nothing.
_mute = logging.Logger("mute", logging.CRITICAL + 1)

_CODES = {
    Reason.CLIENT_DISCONNECT: CloseCode.NORMAL_CLOSURE,
    Reason.CLIENT_GONE: CloseCode.NORMAL_CLOSURE,
    Reason.SHUTDOWN: CloseCode.GOING_AWAY,
    Reason.PROTOCOL_ERROR: CloseCode.PROTOCOL_ERROR,
    Reason.WEBSOCKET_PROTOCOL: CloseCode.PROTOCOL_ERROR,
    Reason.FRAME_TOO_LARGE: CloseCode.MESSAGE_TOO_BIG,
    Reason.HEADER_TOO_LARGE: CloseCode.MESSAGE_TOO_BIG,
    Reason.CONNECTION_LIMIT: CloseCode.TRY_AGAIN_LATER,
    Reason.OWNER_STOPPED: CloseCode.INTERNAL_ERROR,
    Reason.INTERNAL: CloseCode.INTERNAL_ERROR,
}
"""All others: 1008, policy violation."""


def header(opcode: Opcode, length: int, fin: bool = True) -> bytes:
    """Head of an unmasked, uncompressed frame (RFC 6455 §5.2)."""
    first = opcode | 0x80 if fin else opcode
    if length < 126:
        return bytes((first, length))
    if length < 65536:
        return struct.pack("!BBH", first, 126, length)
    return struct.pack("!BBQ", first, 127, length)


def kind(frame: bytes) -> Opcode:
    """TEXT when browsers can decode it, else BINARY."""
    if frame.isascii():
        return TEXT
    try:
        frame.decode()
    except UnicodeDecodeError:
        return BINARY
    return TEXT


class WebSocketStream(StreamChannel):
    """The WebSocket side of a channel. The handshake is part of its life: until it is done nothing can be
    written to the session's peer, and closing means an HTTP answer."""

    __slots__ = ("_binary", "_in_part", "_mirrors", "_protocol", "_requested", "_settings")

    framed = True

    def __init__(
        self,
        edge: EdgeLike,
        loop: asyncio.AbstractEventLoop,
        transport_name: str,
        acceptor: AcceptorSettings,
        settings: EdgeSettings,
    ) -> None:
        super().__init__(edge, loop, transport_name, acceptor)
        self._settings = settings
        self._prepare()

    def _prepare(self) -> None:
        """It is going to be a WebSocket."""
        acceptor = self._acceptor
        self._in_part = False
        self._requested = 0
        self._mirrors = acceptor.ws_encoder == "mirror"
        self._binary = acceptor.ws_encoder == "binary"
        self._protocol = ServerProtocol(
            extensions=[_DEFLATE] if acceptor.ws_compression else None,
            select_subprotocol=choose_subprotocol,
            max_size=(None, min(STRANGER_BYTES, acceptor.ws_max_message_bytes)),
            logger=_mute,
        )

    # In.

    def _begin(self, session: SessionLike) -> Callable[[bytes], None]:
        return self._greet

    def _greet(self, data: bytes) -> None:
        """Bytes of the HTTP request."""
        self._requested += len(data)
        protocol = self._protocol
        protocol.receive_data(data)
        events = protocol.events_received()
        if events and isinstance(events[0], Request):
            if self._accept(events[0]):
                self._receive = self._inflate if protocol.extensions else self._frames
                self._deliver(events[1:])  # RFC 6455 §4.1 forbids to send before the answer; some do
        elif protocol.handshake_exc is not None:
            # Answered by the protocol where it was HTTP at all.
            known = bool(protocol.writes and protocol.writes[0])
            self._fail_greeting("bad HTTP request" if known else "not HTTP (plain STOMP belongs to edge.port)")
        elif self._requested > MAX_REQUEST_BYTES:
            self._refuse(Refusal(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too large.\n"))

    def _accept(self, request: Request) -> bool:
        """Answers the request; whether the WebSocket is open now."""
        protocol = self._protocol
        sockname = self._transport.get_extra_info("sockname") or ("", 0)
        no = refusal(request, self._settings, (sockname[0], sockname[1]))
        if no is not None:
            self._refuse(no)
            return False
        response = protocol.accept(request)
        protocol.send_response(response)
        if response.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self._fail_greeting(f"bad upgrade request ({response.status_code})")
            return False
        self._send_pending()
        return True

    def _refuse(self, no: Refusal) -> None:
        response = self._protocol.reject(no.status, no.text)
        if no.status is http.HTTPStatus.UPGRADE_REQUIRED:
            response.headers["Upgrade"] = "websocket"
        self._protocol.send_response(response)
        self._fail_greeting(no.text.strip(), polite=no.polite)

    def _fail_greeting(self, why: str, polite: bool = False) -> None:
        if not polite:
            self.reason = Reason.WEBSOCKET_PROTOCOL
            log.info("%s #%d: WebSocket handshake refused: %s", self.peer, self.id, why)
        self._stop_receiving()
        self._send_pending()
        self._shut()
        self._tell_eof()

    def _inflate(self, data: bytes) -> None:
        for start in range(0, len(data), INFLATE_STEP):
            if self._receive != self._inflate:
                return
            self._frames(data[start : start + INFLATE_STEP])

    def _frames(self, data: bytes) -> None:
        """One read of an open WebSocket."""
        protocol = self._protocol
        protocol.receive_data(data)
        self._deliver(protocol.events_received())

    def _deliver(self, events: list[Event]) -> None:
        """What one read held: payloads to the session at once, then our answers to control frames."""
        frames = [event for event in events if isinstance(event, Frame) and event.opcode in DATA_OPCODES]
        session = self._session
        if frames and session is not None:
            if self._mirrors:
                self._mirror(frames)
            session.receive(
                bytes(frames[0].data) if len(frames) == 1 else b"".join([bytes(frame.data) for frame in frames])
            )
        elif session is not None:
            session.heard()  # a ping, or a piece of a frame
        protocol = self._protocol
        if protocol.writes:
            if protocol.eof_sent or self.buffered() < self._acceptor.write_buffer_high_bytes:
                self._send_pending()
            else:
                # A peer that pings and does not read must not fill our memory; RFC 6455 §5.5.3 lets us skip pongs.
                protocol.data_to_send()
        if protocol.eof_sent and not self.closing:
            self._peer_ended()

    def _mirror(self, frames: list[Frame]) -> None:
        """A client that sends nothing but binary messages gets nothing else; one that has sent a text reads texts."""
        opcodes = {frame.opcode for frame in frames}
        if TEXT in opcodes:
            self._binary = self._mirrors = False
        elif BINARY in opcodes:
            self._binary = True

    def _peer_ended(self) -> None:
        """The closing handshake is complete, or the peer broke the protocol and was told so (1002, 1007, 1009)."""
        error = self._protocol.parser_exc
        if error is not None:
            self.reason = Reason.WEBSOCKET_PROTOCOL
            log.info("%s #%d: WebSocket closed: %s", self.peer, self.id, error)
        self._peer_done = error is None
        self._stop_receiving()
        self._shut()
        self._tell_eof()

    def _tell_eof(self) -> None:
        if self._session is not None:
            self._session.eof()

    def _closing_reply(self, data: bytes) -> None:
        """After our close frame: everything is dropped but the peer's close frame, which ends the wait."""
        protocol = self._protocol
        for start in range(0, len(data), INFLATE_STEP):
            protocol.receive_data(data[start : start + INFLATE_STEP])
            if any(isinstance(event, Frame) and event.opcode is CLOSE for event in protocol.events_received()):
                self._peer_done = True
            if protocol.eof_sent:
                self._receive = discard
                self._shut()
                return

    def eof_received(self) -> bool:
        """TCP ended without a closing handshake; a WebSocket has no half-closed state."""
        self._peer_done = True
        if not self.closing:
            self._tell_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._protocol = None  # type: ignore[assignment]  # breaks its reference cycle now, not at the next GC

    # Out.

    def write(self, data: bytes) -> None:
        self.write_frames([data])

    def write_frames(self, frames: list[bytes]) -> None:
        protocol = self._protocol
        if self.closing or protocol.state is not OPEN:
            return
        if self._in_part:
            return  # Only a heart-beat can come here, and the large frame under way is one.
        protocol.max_fragment_size = self._acceptor.ws_max_message_bytes
        binary, compresses = self._binary, bool(protocol.extensions)
        heads: dict[tuple[Opcode, int], bytes] = {}  # a run's messages are mostly of one length
        out: list[bytes] = []
        for frame in frames:
            length = len(frame)
            opcode = BINARY if binary else kind(frame)
            if compresses and length >= COMPRESS_FROM:
                out.append(Frame(opcode, frame).serialize(mask=False, extensions=protocol.extensions))
                continue
            head = heads.get((opcode, length))
            if head is None:
                head = heads[opcode, length] = header(opcode, length)
            out.append(head)
            out.append(frame)
        self._transport.write(b"".join(out))

    def write_part(self, data: bytes, first: bool, last: bool) -> None:
        if self.closing or self._protocol.state is not OPEN:
            return
        self._in_part = not last
        self._transport.write(header(BINARY if first else CONT, len(data), last) + data)

    def _send_pending(self) -> None:
        """What the protocol has to say (handshake, pongs, closing). Its end-of-stream mark is `eof_sent`."""
        data = b"".join(self._protocol.data_to_send())
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _end(self, reason: Reason) -> None:
        protocol = self._protocol
        self._stop_receiving()
        if protocol.state is OPEN:
            protocol.send_close(_CODES.get(reason, CloseCode.POLICY_VIOLATION), reason.value)
            self._send_pending()
            self._receive = self._closing_reply
            return
        if not protocol.eof_sent:
            status = (
                http.HTTPStatus.REQUEST_TIMEOUT
                if reason is Reason.LOGIN_TIMEOUT
                else http.HTTPStatus.SERVICE_UNAVAILABLE
            )
            protocol.send_response(protocol.reject(status, f"Closed: {reason.value}.\n"))
        self._send_pending()
        self._shut()


class WsChannel(WebSocketStream, PlainReads):
    """For uvloop."""

    __slots__ = ()


class BufferedWsChannel(WebSocketStream, BufferedReads):
    """For the stdlib loop."""

    __slots__ = ()
