"""Dialing other components: streams over gRPC, one fresh connection each.

Rule: one attempt per dial, and its outcome is told within the bound; who wants the peer again dials again.
Knows nothing of what is in a message, nor who is dialled for what.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

from broker.config.settings import ClusterSettings
from broker.core.patience import longest_answer
from broker.seams.steps import StepKindStats
from broker.seams.stream import Ended, EndKind, StreamEnd

from .credentials import Credentials
from .options import CLIENT, SERVICE, keepalive
from .streams import GrpcStream


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

    def dial(self, address: str, service: str, end: StreamEnd) -> GrpcStream:
        """See seams.stream. Must be called in the loop's thread."""
        channel = self._channel(address)
        call = channel.stream_stream(SERVICE + service.capitalize())()
        stream = GrpcStream(self._loop, address, self._steps)
        stream.start(end, call.write, call.cancel)
        task = self._loop.create_task(self._run(stream, channel, call))
        self._streams[stream] = task
        return stream

    async def close(self) -> None:
        """Ends all streams at once; returns when every end has heard of it."""
        for stream in list(self._streams):
            stream.abort("stopping")
        await asyncio.gather(*self._streams.values())

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._credentials:
            # It is asked for its role: a certificate for this host alone may be that of an edge.
            role = (
                [("grpc.ssl_target_name_override", self._credentials.roles.target)] if self._credentials.roles else []
            )
            return grpc.aio.secure_channel(address, self._credentials.channel(), options=[*self._options, *role])
        return grpc.aio.insecure_channel(address, options=self._options)

    async def _run(self, stream: GrpcStream, channel: grpc.aio.Channel, call: grpc.aio.StreamStreamCall) -> None:
        late = self._loop.call_later(
            self._dial_timeout_s, stream.abort, f"unreachable: no answer within {self._dial_timeout_s:g} s",
            EndKind.UNREACHED,
        )  # fmt: skip
        why = Ended("lost", EndKind.LOST)
        try:
            # The peer sends its metadata when its event loop has taken the stream.
            await call.initial_metadata()
            late.cancel()
            why = await stream.read_all(call.read)
        except grpc.RpcError as error:
            why = _explained(error, stream.peer)
        except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError):
            pass  # cancelled by abort(), whose reason counts
        finally:
            late.cancel()
            del self._streams[stream]
            stream.finish(why)
            call.cancel()
            await stream.written()
            await channel.close()


def _explained(error: grpc.RpcError, address: str) -> Ended:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE and "onnection refused" in details:
        return Ended(f"refused: nobody listens at {address}", EndKind.REFUSED)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Ended(f"foreign: {details}", EndKind.FOREIGN)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return Ended(f"refused: {details}", EndKind.FOREIGN)  # it lives: nobody need think that it has died
    return Ended(f"lost: {code.name} {details}", EndKind.LOST)
