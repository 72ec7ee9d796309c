"""STOMP over WebSocket (RFC 6455): a Channel whose stream comes and goes in WebSocket messages.

In: text and binary alike, cut and joined in any way; payloads are handed on as they come, however large a message is
(ws_frames.py). Out: one message per STOMP frame, all of the kind the acceptor says (mirror: of the kind that the client
spoke first), large bodies as fragments of one; but binary where a frame is not valid UTF-8, which a text must be. The
`websockets` package's sans-IO protocol does handshakes and control frames; frames to the client are built here, in one
write per batch.

Rule: everything of one read is parsed, then received by the session once, then answered in one write.
Knows no STOMP but the lone LF of a heart-beat.
"""

from __future__ import annotations

import asyncio
import http
import logging
import struct
from collections.abc import Callable

from websockets.exceptions import ProtocolError
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import BINARY, CLOSE, CONT, TEXT, CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from broker.config.acceptor import AcceptorSettings
from broker.config.settings import EdgeSettings
from broker.core.errors import Code
from broker.core.reasons import Reason

from ..channel import EdgeLike, SessionLike
from ..tcp import BufferedReads, PlainReads, StreamChannel, discard
from .upgrade import HttpRefusal, authorization, choose_subprotocol, refusal
from .ws_frames import Frames, TooLarge

log = logging.getLogger("stampede.edge")

MAX_REQUEST_BYTES = 16 * 1024
"""The whole HTTP request; browsers send up to 8 KiB of cookies."""
END_OF_REQUEST = b"\r\n\r\n"
COMPRESS_FROM = 1024
"""Smaller frames gain too little for the CPU they cost."""
INFLATE_STEP = 1024
"""Compressed input is taken in such pieces, one a step: deflate expands up to 1000 times, so one read of 256 KiB could
otherwise become 256 MiB before the session sees a byte. 1 MiB takes 2 ms."""

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

    __slots__ = (
        "_authorization", "_binary", "_ending", "_frames", "_in_part", "_mirrors", "_protocol", "_requested",
        "_settings",
    )  # fmt: skip

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
        self.framed = True
        self._authorization: str | None = None
        self._prepare()

    def _prepare(self) -> None:
        """It is going to be a WebSocket."""
        acceptor = self._acceptor
        self._in_part = False
        self._requested = 0
        self._ending = b""
        """Of the request, so far: its last bytes may be those of its end."""
        self._mirrors = acceptor.ws_encoder == "mirror"
        self._binary = acceptor.ws_encoder == "binary"
        self._protocol = ServerProtocol(
            extensions=[_DEFLATE] if acceptor.ws_compression else None,
            select_subprotocol=choose_subprotocol,
            logger=_mute,
        )
        self._frames = Frames(acceptor.ws_max_message_bytes, self._control)

    # In.

    def _begin(self, session: SessionLike) -> Callable[[bytes], None]:
        return self._greet

    def _greet(self, data: bytes) -> None:
        """Bytes of the HTTP request, and perhaps more: RFC 6455 §4.1 forbids to send before the answer; some do."""
        self._requested += len(data)
        at = (self._ending + data).find(END_OF_REQUEST)
        cut = len(data) if at < 0 else at + len(END_OF_REQUEST) - len(self._ending)
        self._ending = (self._ending + data)[-3:]
        protocol = self._protocol
        protocol.receive_data(data[:cut])
        events = protocol.events_received()
        if events and isinstance(events[0], Request):
            if self._accept(events[0]):
                deflate = protocol.extensions[0] if protocol.extensions else None
                window = deflate.remote_max_window_bits if isinstance(deflate, PerMessageDeflate) else 0
                self._frames = Frames(self._acceptor.ws_max_message_bytes, self._control, window)
                self._receive = self._inflate if window else self._open
                if cut < len(data):
                    self._receive(data[cut:])
        elif protocol.handshake_exc is not None:
            # Answered by the protocol where it was HTTP at all.
            known = bool(protocol.writes and protocol.writes[0])
            self._fail_greeting("bad HTTP request" if known else "not HTTP (plain STOMP belongs to edge.port)")
        elif self._requested > MAX_REQUEST_BYTES:
            self._refuse(HttpRefusal(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too large.\n"))

    def _accept(self, request: Request) -> bool:
        """Answers the request; whether the WebSocket is open now."""
        protocol = self._protocol
        sockname = self._transport.get_extra_info("sockname") or ("", 0)
        no = refusal(request, self._settings, (sockname[0], sockname[1]))
        if no is None and self._acceptor.ws_http_auth:
            self._authorization, no = authorization(request)
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

    def _refuse(self, no: HttpRefusal) -> None:
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
        self._open(data[:INFLATE_STEP])
        if len(data) > INFLATE_STEP and self._receive == self._inflate:
            self._put_back(data[INFLATE_STEP:])

    def _open(self, data: bytes) -> None:
        """One read of an open WebSocket: payloads to the session at once, then our answers to control frames."""
        pieces: list[bytes] = []
        wrong: Exception | None = None
        try:
            self._frames.feed(data, pieces)
        except (ProtocolError, TooLarge) as why:
            wrong = why
        session = self._session
        if pieces and session is not None:
            if self._mirrors:
                self._mirrors = False
                self._binary = self._frames.spoken == BINARY
            session.receive(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        elif session is not None:
            session.heard()  # a ping, or a piece of a frame's head
        if wrong is not None:
            self._broken(wrong)
        self._answer()

    def _broken(self, why: Exception) -> None:
        """Nothing that comes now can be read."""
        if self.closing:
            return
        if isinstance(why, ProtocolError):
            self._protocol.fail(CloseCode.PROTOCOL_ERROR, str(why))
            self._protocol.parser_exc = why
            return
        self._receive = self._skip
        if self._session is not None:
            limit = self._acceptor.ws_max_message_bytes
            self._session.fail(
                Code.FRAME_TOO_LARGE,
                f"a WebSocket frame may have {limit} bytes here (ws_max_message_bytes); send it in several, as "
                "@stomp/stompjs does with splitLargeFrames",
            )

    def _skip(self, data: bytes) -> None:
        """Payload counts no more; control frames do."""
        try:
            self._frames.feed(data, [])
        except (ProtocolError, TooLarge) as why:
            self._broken(why)
        self._answer()

    def _control(self, frame: bytes) -> bool:
        """Ping, pong, close. False: it was the last that counts."""
        protocol = self._protocol
        protocol.receive_data(frame)
        if any(isinstance(event, Frame) and event.opcode is CLOSE for event in protocol.events_received()):
            self._peer_done = True
        return not protocol.eof_sent

    def _answer(self) -> None:
        """To control frames of this read."""
        protocol = self._protocol
        if protocol.writes:
            if protocol.eof_sent or self.buffered() < self._acceptor.write_buffer_high_bytes:
                self._send_pending()
            else:
                # A peer that pings and does not read must not fill our memory; RFC 6455 §5.5.3 lets us skip pongs.
                protocol.data_to_send()
        if protocol.eof_sent and not self.closing:
            self._peer_ended()

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
            try:
                self._frames.feed(data[start : start + INFLATE_STEP], [])
            except (ProtocolError, TooLarge):
                protocol.fail(CloseCode.PROTOCOL_ERROR)  # there is no telling any more where it will be
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

    def take_authorization(self) -> str | None:
        """See channel.Channel."""
        said, self._authorization = self._authorization, None
        return said

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # Their reference cycles are broken now, not at the next GC.
        self._protocol = self._frames = None  # type: ignore[assignment]

    # Out.

    def write(self, data: bytes) -> None:
        self.write_frames([data])

    def write_frames(self, frames: list[bytes]) -> None:
        protocol = self._protocol
        if self.closing or protocol.state is not OPEN:
            return
        if self._in_part:
            return  # Only a heart-beat can come here, and the large frame under way is one.
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

    @property
    def texts(self) -> bool:
        return not self._binary

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        if self.closing or self._protocol.state is not OPEN:
            return
        self._in_part = not last
        kind = CONT if not first else TEXT if text else BINARY
        self._transport.write(header(kind, len(data), last) + data)

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
