"""Calls to etcd over gRPC: one connection at a time, to whichever endpoint answers, with a login if there is a user.

A call that fails because of the connection drops it for everybody; one task looks for another, all endpoints in turn.
Callers that want an answer wait for that task, so that a store that is down costs one attempt per endpoint and second.

Rule: a request that may have been carried out is repeated only when its caller said that this does no harm.
Knows nothing of keys and leases.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio

from broker.config.settings import EtcdSettings
from broker.core.errors import ConfigError
from broker.seams import grpc_ends
from broker.seams.files import read_whole

from .etcdpb import rpc_pb2
from .port import Compacted, MetadataRefused, MetadataUnavailable

log = logging.getLogger("stampede.metadata")

OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # etcd ends connections that ping more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
]
CONNECT_S = 1.0
"""For one endpoint to answer its first question."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.05, 1.0
"""Between rounds over all endpoints while none answers."""

NAMELESS = "user name is empty"
"""What etcd says to who has not logged in."""
Metadata = tuple[tuple[str, str], ...]
TRANSIENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)


class Lost(Exception):
    """The connection failed under a call. sent: the request may have been carried out."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class EtcdConnection:
    """A channel to one endpoint, logged in."""

    __slots__ = ("channel", "endpoint", "login")

    def __init__(self, endpoint: str, channel: grpc.aio.Channel) -> None:
        self.endpoint = endpoint
        self.channel = channel
        self.login: Metadata = ()

    async def ask(self, method: str, request: Any, answer: Any, timeout_s: float) -> Any:
        """One answer. Raises Lost, MetadataRefused, Compacted."""
        call = self.channel.unary_unary(method, _bytes, answer.FromString)(
            request, timeout=timeout_s, metadata=self.login
        )
        try:
            return await call
        except (grpc.RpcError, asyncio.CancelledError) as error:
            raise judged(error) from error

    def stream(self, method: str, answer: Any) -> grpc.aio.StreamStreamCall:
        """A two-way call; its errors are to be given to `judged`. etcd ends it when its member loses the leader."""
        return self.channel.stream_stream(method, _bytes, answer.FromString)(
            metadata=(*self.login, ("hasleader", "true"))
        )


def judged(error: BaseException) -> BaseException:
    """What an error of a call means: Lost, MetadataRefused or Compacted. A cancellation of our task stays one."""
    if not isinstance(error, grpc.RpcError):
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            return error
        return Lost("the connection was given up", sent=True)  # gRPC cancels the calls of a channel that is closed
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAUTHENTICATED or "auth store is old" in details:
        return Lost(details, sent=False)  # the token has expired: a new connection logs in again
    if code is grpc.StatusCode.OUT_OF_RANGE:
        return Compacted(details)
    if code in TRANSIENT or "too many requests" in details:
        return Lost(
            details or code.name, sent="failed to connect" not in details and "onnection refused" not in details
        )
    hint = "; set etcd.user and etcd.password_file" if NAMELESS in details else ""
    return MetadataRefused(f"etcd refused: {details}{hint}")


def prefix_end(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin so."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b"\0"


class EtcdCalls:
    """Everything that etcd is asked goes through here."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Raises ConfigError when the settings cannot work."""
        self._settings = settings
        self._endpoints = [part.strip() for part in settings.endpoints.split(",") if part.strip()]
        self._next = 0
        self._current: EtcdConnection | None = None
        self._refusal: MetadataRefused | None = None
        self._search: asyncio.Task[None] | None = None
        self._round: asyncio.Future[None] | None = None
        self._quiet = False
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()
        self._newest = 0
        """Revision that an answer had; none to a later question may have an earlier one."""
        self.rewound = ""
        if not self._endpoints:
            raise ConfigError("etcd.endpoints is empty; give host:port of at least one etcd member.")
        if bool(settings.cert_file) != bool(settings.key_file) or (settings.cert_file and not settings.ca_file):
            raise ConfigError("TLS to etcd needs etcd.ca_file, or etcd.ca_file, etcd.cert_file and etcd.key_file.")
        if bool(settings.user) != bool(settings.password_file):
            raise ConfigError("etcd.user and etcd.password_file must be set together.")
        try:
            self._credentials()
            self._password()
        except OSError as error:
            raise ConfigError(f"Cannot read a file of the settings of etcd: {error}.") from error

    async def ask(self, method: str, request: Any, answer: Any, *, repeat: bool) -> Any:
        """repeat   it does no harm when the request is carried out twice.
        Raises MetadataUnavailable within etcd.timeout_s, MetadataRefused, Compacted."""
        timeout_s = self._settings.timeout_s
        # One frozen member out of several must not use up the whole time of a question.
        attempt_s = timeout_s / 2 if repeat and len(self._endpoints) > 1 else timeout_s
        connection: EtcdConnection | None = None
        why = "no answer"
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    connection = None
                    connection = await self.connected()
                    known = self._newest
                    try:
                        return self._checked(await connection.ask(method, request, answer, attempt_s), method, known)
                    except MetadataRefused as refused:
                        if NAMELESS not in str(refused) or not self._settings.user or connection.login:
                            raise
                        self.broken(connection)  # it asked nobody for a password when we came: log in
                    except Lost as lost:
                        why = str(lost)
                        self.broken(connection)
                        if lost.sent and not repeat:
                            break
        except TimeoutError:
            if connection is not None:
                self.broken(connection)
        raise MetadataUnavailable(f"etcd at {self._settings.endpoints} gives no answer ({why})")

    def _checked(self, answer: Any, method: str, known: int) -> Any:
        """`known`: the newest revision when it was asked for. What concerns keys is answered by a majority, so the
        revision never goes back, but where data were lost."""
        if not method.startswith("/etcdserverpb.KV/"):
            return answer
        revision = int(answer.header.revision)
        if revision < known and not self.rewound:
            self.rewound = f"etcd has lost data: it was at revision {known} and is at {revision}"
            log.critical(
                "%s. Restart no owner: who finds an empty etcd begins a new cluster. Stop all owners, restore a "
                "snapshot and start them again (docs/cluster.md)", self.rewound,
            )  # fmt: skip
        self._newest = max(self._newest, revision)
        return answer

    async def connected(self) -> EtcdConnection:
        """Waits for a connection, without end. Raises MetadataRefused when the login is refused."""
        while self._current is None:
            if self._closed:
                raise MetadataUnavailable("the client was closed")
            if self._search is None:
                self._round = asyncio.get_running_loop().create_future()
                self._search = asyncio.create_task(self._find())
            elif self._refusal is not None:
                raise self._refusal
            assert self._round is not None
            await asyncio.shield(self._round)
        return self._current

    def broken(self, connection: EtcdConnection) -> None:
        """Nobody shall use it again."""
        if connection is self._current:
            self._current = None
            closing = asyncio.create_task(connection.channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ends the connection; callers that wait get MetadataUnavailable."""
        self._closed = True
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)
        self._end_round(None)
        if self._current is not None:
            self.broken(self._current)
        await asyncio.gather(*self._closing)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _find(self) -> None:
        """Tries all endpoints in turn until one answers."""
        pause = FIRST_PAUSE_S
        while True:
            refusal, reasons = None, []
            for _ in self._endpoints:
                endpoint = self._endpoints[self._next]
                self._next = (self._next + 1) % len(self._endpoints)
                try:
                    connection = await self._open(endpoint)
                except MetadataRefused as error:
                    refusal = error
                except Exception as error:  # files of the login too; whatever it is, it may be over the next time
                    reasons.append(f"{endpoint}: {error}")
                else:
                    self._found(connection)
                    return
            self._refusal = refusal
            self._tell(str(refusal or "; ".join(reasons)))
            self._end_round(asyncio.get_running_loop().create_future())
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_S)

    def _found(self, connection: EtcdConnection) -> None:
        self._current = connection
        self._refusal = None
        self._search = None
        if self._quiet:
            self._quiet = False
            log.info("the metadata store answers again (%s)", connection.endpoint)
        self._end_round(None)

    def _end_round(self, following: asyncio.Future[None] | None) -> None:
        done, self._round = self._round, following
        if done is not None and not done.done():
            done.set_result(None)

    def _tell(self, why: str) -> None:
        if not self._quiet:
            self._quiet = True
            log.warning("the metadata store does not answer, trying again until it does: %s", why)

    async def _open(self, endpoint: str) -> EtcdConnection:
        channel = grpc_ends.channel(endpoint, self._credentials(), OPTIONS)
        connection = EtcdConnection(endpoint, channel)
        try:
            await self._greet(connection)
        except BaseException:
            await channel.close()
            raise
        return connection

    async def _greet(self, connection: EtcdConnection) -> None:
        """Asks whether it works and knows a leader, and logs in."""
        try:
            status = await connection.ask(
                "/etcdserverpb.Maintenance/Status", rpc_pb2.StatusRequest(), rpc_pb2.StatusResponse, CONNECT_S
            )
        except MetadataRefused:
            pass  # some releases tell their status only to who is logged in
        else:
            if not status.leader:
                raise Lost("this member knows no leader", sent=False)
        user = self._settings.user
        if not user:
            return
        request = rpc_pb2.AuthenticateRequest(name=user, password=self._password())
        try:
            answer = await connection.ask(
                "/etcdserverpb.Auth/Authenticate", request, rpc_pb2.AuthenticateResponse, self._settings.timeout_s
            )
        except MetadataRefused as error:
            if "not enabled" in str(error):
                return  # an etcd that asks nobody for a password
            raise MetadataRefused(f"{error}; check etcd.user ({user}) and etcd.password_file") from None
        connection.login = (("token", answer.token),)

    def _password(self) -> str:
        path = self._settings.password_file
        return read_whole(path).decode().strip("\r\n") if path else ""

    def _credentials(self) -> grpc.ChannelCredentials | None:
        """Read again for each connection: certificates are rotated."""
        settings = self._settings
        if not settings.ca_file:
            return None
        key, cert = (read_whole(path) if path else None for path in (settings.key_file, settings.cert_file))
        return grpc.ssl_channel_credentials(read_whole(settings.ca_file), key, cert)


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
