"""Dialing other components: streams over gRPC, one fresh connection each.

Where there is a list of revoked certificates the peer's is looked at first, and the call trusts that one alone
(peer_certificate.py); who is on the list later loses what is open.

Rule: one attempt per dial, and its outcome is told within the bound; who wants the peer again dials again.
Knows nothing of what is in a message, nor who is dialled for what.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Final

import grpc
import grpc.aio

from broker.config.settings import ClusterSettings
from broker.core.patience import longest_answer
from broker.seams import grpc_ends
from broker.seams.loop_watchdog import StepKindStats
from broker.seams.stream import Ended, EndKind, StreamEnd

from .credentials import Credentials
from .options import CLIENT, SERVICE, keepalive
from .peer_certificate import certificate_of
from .streams import GrpcStream

log = logging.getLogger("stampede.rpc")

REVOKED: Final = "its certificate is revoked (cluster.crl_file)"
OWN_REVOKED: Final = "its own certificate is revoked (cluster.crl_file); put a new one at cluster.cert_file"


class _Call:
    """One call, with a channel of its own. It has none yet while the certificate of the peer is looked at.

    shown   that certificate, as PEM; empty: nobody wanted to see it.    ended   there will be no call any more"""

    __slots__ = ("_begun", "_call", "_channel", "_looking", "ended", "shown")

    def __init__(self) -> None:
        self._channel: grpc.aio.Channel | None = None
        self._call: grpc.aio.StreamStreamCall | None = None
        self._begun = asyncio.Event()
        """There is a call, or there will be none."""
        self._looking: asyncio.Task[bytes] | None = None
        self.shown = b""
        self.ended = False

    def begin(self, channel: grpc.aio.Channel, service: str) -> grpc.aio.StreamStreamCall:
        self._channel = channel
        self._call = channel.stream_stream(SERVICE + service.capitalize())()
        self._begun.set()
        return self._call

    async def look(self, address: str, credentials: Credentials) -> bool:
        """Is the peer's certificate none of the revoked ones. Raises OSError."""
        looking = certificate_of(address, credentials.looking())
        self._looking = asyncio.get_running_loop().create_task(looking)
        self.shown = await self._looking
        return not credentials.lists(self.shown)

    async def write(self, message: bytes) -> None:
        """Waits until there is a call. Raises what gRPC does."""
        await self._begun.wait()
        if self._call is None:
            raise asyncio.InvalidStateError("there is no call")
        await self._call.write(message)

    def cancel(self) -> None:
        """Ends it at once."""
        self.ended = True
        if self._call is not None:
            self._call.cancel()
        elif self._looking is not None:
            self._looking.cancel()
        self._begun.set()

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


class GrpcDialer:
    """`seams.stream.Dialer`."""

    def __init__(
        self,
        settings: ClusterSettings,
        loop: asyncio.AbstractEventLoop,
        dial_timeout_s: float | None = None,
        steps: StepKindStats | None = None,
    ) -> None:
        """`dial_timeout_s`: from dial() to the answer of the peer's event loop (a frozen process still lets the kernel
        take connections). None: as long as anybody's patience with a new stream may grow; who has less ends the stream
        himself. Raises ConfigError for TLS files that are no good."""
        self._credentials = Credentials(settings)
        self._loop = loop
        self._options = [*CLIENT, *keepalive(settings)]
        self._dial_timeout_s = dial_timeout_s or longest_answer(settings.dead_after_ms / 1000)
        self._steps = steps
        self._streams: dict[GrpcStream, asyncio.Task[None]] = {}
        self._calls: dict[GrpcStream, _Call] = {}
        self._following: asyncio.Task[None] | None = None

    def dial(self, address: str, service: str, end: StreamEnd) -> GrpcStream:
        """See seams.stream. Must be called in the loop's thread."""
        stream, call = GrpcStream(self._loop, address, self._steps), _Call()
        late = self._late(stream)  # one for both handshakes, where there are two
        if self._credentials.revoked is None:
            begun = call.begin(self._channel(address), service)
            stream.start(end, begun.write, call.cancel)
            running = self._run(stream, call, begun, late)
        else:
            self._follow()
            stream.start(end, call.write, call.cancel)
            running = self._run_seen(stream, call, service, late)
        self._calls[stream] = call
        self._streams[stream] = self._loop.create_task(running)
        return stream

    def revoked(self) -> str:
        """Why nobody with our list of revoked certificates speaks to us; "": ours is not on it, as it was looked at
        last. Must be called in the loop's thread."""
        if self._credentials.revoked is None:
            return ""
        self._follow()
        return OWN_REVOKED if self._credentials.own_revoked else ""

    def _follow(self) -> None:
        if self._following is None:
            self._following = self._loop.create_task(self._credentials.follow_list(self._cut_off))

    async def close(self) -> None:
        """Ends all streams at once; returns when every end has heard of it."""
        if self._following is not None:
            self._following.cancel()
        for stream in list(self._streams):
            stream.abort("stopping")
        await asyncio.gather(*self._streams.values())

    def _cut_off(self) -> None:
        """The list of revoked certificates has changed: a peer that is on it now loses what is open."""
        for stream, call in list(self._calls.items()):
            if call.shown and self._credentials.lists(call.shown):
                log.warning("the stream to %s is given up: its certificate is revoked", stream.peer)
                stream.abort(REVOKED)

    def _channel(self, address: str, only: bytes = b"") -> grpc.aio.Channel:
        if self._credentials:
            # It is asked for its role: a certificate for this host alone may be that of an edge.
            role = (
                [("grpc.ssl_target_name_override", self._credentials.roles.target)] if self._credentials.roles else []
            )
            return grpc_ends.channel(address, self._credentials.channel(only), [*self._options, *role])
        return grpc_ends.channel(address, None, self._options)

    async def _run_seen(self, stream: GrpcStream, call: _Call, service: str, late: asyncio.TimerHandle) -> None:
        """As _run(), behind a look at the peer's certificate."""
        why = Ended("lost", EndKind.LOST)
        try:
            if not await call.look(stream.peer, self._credentials):
                why = Ended(REVOKED, EndKind.LOST)
                call.cancel()
        except (OSError, ValueError) as error:  # ValueError: a name or a certificate that nobody can read
            why = _unreached(error, stream.peer)
            call.cancel()
        except asyncio.CancelledError:  # by abort(), whose reason counts
            call.cancel()
        if call.ended:
            late.cancel()
            await self._over(stream, call, why)
        else:
            await self._run(stream, call, call.begin(self._channel(stream.peer, call.shown), service), late)

    async def _run(
        self, stream: GrpcStream, call: _Call, begun: grpc.aio.StreamStreamCall, late: asyncio.TimerHandle
    ) -> None:
        why = Ended("lost", EndKind.LOST)
        try:
            # The peer sends its metadata when its event loop has taken the stream.
            await begun.initial_metadata()
            late.cancel()
            why = await stream.read_all(begun.read)
        except grpc.RpcError as error:
            why = _explained(error, stream.peer)
        except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError):
            pass  # cancelled by abort(), whose reason counts
        finally:
            late.cancel()
            await self._over(stream, call, why)

    def _late(self, stream: GrpcStream) -> asyncio.TimerHandle:
        why = f"unreachable: no answer within {self._dial_timeout_s:g} s"
        return self._loop.call_later(self._dial_timeout_s, stream.abort, why, EndKind.UNREACHED)

    async def _over(self, stream: GrpcStream, call: _Call, why: Ended) -> None:
        del self._streams[stream], self._calls[stream]
        stream.finish(why)
        call.cancel()
        await stream.written()
        await call.close()


def _explained(error: grpc.RpcError, address: str) -> Ended:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE and "onnection refused" in details:
        return Ended(f"refused: nobody listens at {address}", EndKind.REFUSED)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Ended(f"foreign: {details}", EndKind.FOREIGN)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return Ended(f"refused: {details}", EndKind.FOREIGN)  # it lives: nobody need think that it has died
    return Ended(f"lost: {code.name} {details}", EndKind.LOST)


def _unreached(error: OSError | ValueError, address: str) -> Ended:
    # Of several addresses of a name asyncio tells all numbers in one text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return Ended(f"refused: nobody listens at {address}", EndKind.REFUSED)
    return Ended(f"lost: {error}", EndKind.LOST)
