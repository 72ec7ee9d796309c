"""The component port: takes streams from other components over gRPC.

Rule: a foreign or broken client disturbs nobody and is logged once per host. Without TLS it listens on loopback only.
Knows nothing of what is in a message, nor which services there are: those the acceptor was made for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio

from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.seams import grpc_ends
from broker.seams.loop_watchdog import StepKindStats
from broker.seams.stream import EDGE_SERVICE, REPLICA_SERVICE, Acceptor, Ended, EndKind

from .credentials import FILES, Credentials, is_loopback, names_of
from .options import SERVER, SERVICE, keepalive
from .streams import GrpcStream

log = logging.getLogger("stampede.rpc")

SERVICES = {SERVICE + name.capitalize(): name for name in (EDGE_SERVICE, REPLICA_SERVICE)}
MAX_REMEMBERED_HOSTS = 256


class GrpcServer:
    """One listening port."""

    def __init__(self, settings: ClusterSettings, acceptor: Acceptor, steps: StepKindStats | None = None) -> None:
        """Raises ConfigError for TLS files that are no good, or a host that needs them."""
        self._settings = settings
        self._acceptor = acceptor
        self._steps = steps
        self._credentials = Credentials(settings)
        self._server: Any = None
        self._streams: dict[GrpcStream, Mapping[str, Sequence[bytes]]] = {}
        """And what their certificates say."""
        self._looking: asyncio.Task[None] | None = None
        self._strangers: set[str] = set()
        self._stopping = False
        if not self._credentials and not is_loopback(settings.host):
            raise ConfigError(
                f"cluster.host {settings.host!r} can be reached by others: set {', '.join(FILES)}, or use 127.0.0.1."
            )

    async def start(self) -> int:
        """The port it listens on. Raises ConfigError when it cannot."""
        settings = self._settings
        self._server = grpc_ends.server([*SERVER, *keepalive(settings)])
        self._server.add_generic_rpc_handlers([_Methods(self._stream, self._foreign)])
        host = f"[{settings.host}]" if ":" in settings.host and settings.host[0] != "[" else settings.host
        address = f"{host}:{settings.port}"
        try:
            if self._credentials:
                port = self._server.add_secure_port(address, self._credentials.server())
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError(
                f"Cannot listen for components on {address}: the port is taken or the address is not of this machine; "
                "check cluster.host and cluster.port."
            ) from error
        await self._server.start()
        if self._credentials.revoked is not None:
            looking = self._credentials.follow_list(self._cut_off)
            self._looking = asyncio.get_running_loop().create_task(looking)
        return int(port)

    def _cut_off(self) -> None:
        """The list of revoked certificates has changed: a peer that is on it now loses what is open."""
        for stream, auth in list(self._streams.items()):
            if self._credentials.is_revoked(auth):
                log.warning("%s is cut off: its certificate is revoked", stream.peer)
                stream.abort("its certificate is revoked")

    async def stop(self) -> None:
        """Ends all streams at once and stops listening; returns when every end has heard of it."""
        self._stopping = True
        if self._looking is not None:
            self._looking.cancel()
        for stream in list(self._streams):
            stream.abort("stopping")
        if self._server is not None:
            await self._server.stop(None)

    async def _stream(self, service: str, context: grpc.aio.ServicerContext) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        auth = context.auth_context()
        if unwanted := self._credentials.refusal(service, auth):
            await self._unwanted(service, unwanted, context)
            return
        stream = GrpcStream(loop, _peer(context), self._steps)
        stream.certified(self._credentials.roles.named(service, names_of(auth)))
        self._streams[stream] = auth
        why, greeted = Ended("lost", EndKind.LOST), False
        try:
            stream.start(self._acceptor.accept(service, stream), context.write, task.cancel)
            await context.send_initial_metadata(())  # tells the dialer that we are awake
            greeted = True
            why = await stream.read_all(context.read)
        except (asyncio.CancelledError, grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError):
            pass  # the peer or its connection is gone, or abort() was called, whose reason counts
        finally:
            del self._streams[stream]
            stream.finish(why)
            await stream.written()
        if self._stopping or not greeted:
            # gRPC would send a status behind a message that is still on its way, or the greeting once more, and log
            # that it cannot.
            raise asyncio.CancelledError

    async def _unwanted(self, service: str, why: str, context: grpc.aio.ServicerContext) -> None:
        host = _peer(context).rpartition(":")[0]
        if host not in self._strangers and len(self._strangers) < MAX_REMEMBERED_HOSTS:
            self._strangers.add(host)
            log.warning("%s may not open a stream of %r: %s", _peer(context), service, why)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)

    async def _foreign(self, method: str, context: grpc.aio.ServicerContext) -> None:
        host = _peer(context).rpartition(":")[0]
        if host not in self._strangers and len(self._strangers) < MAX_REMEMBERED_HOSTS:
            self._strangers.add(host)
            log.warning("%s asks for %s, which no component of this release does", _peer(context), method[:100])
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not a method of this release's component protocol")


class _Methods:
    """What gRPC asks for the handler of a call. It takes any object with `service`."""

    def __init__(
        self,
        stream: Callable[[str, grpc.aio.ServicerContext], Awaitable[None]],
        foreign: Callable[[str, grpc.aio.ServicerContext], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._foreign = foreign

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method: str = details.method
        service = SERVICES.get(method)
        if service is not None:
            name = service

            async def stream(_requests: Any, context: grpc.aio.ServicerContext) -> None:
                await self._stream(name, context)

            return grpc.stream_stream_rpc_method_handler(stream)

        async def foreign(_requests: Any, context: grpc.aio.ServicerContext) -> None:
            await self._foreign(method, context)

        return grpc.stream_stream_rpc_method_handler(foreign)


def _peer(context: grpc.aio.ServicerContext) -> str:
    peer: str = context.peer()
    return peer.partition(":")[2] if peer.startswith(("ipv4:", "ipv6:")) else peer
