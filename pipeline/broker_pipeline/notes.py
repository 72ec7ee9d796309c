"""How far receipts have come, noted where the archive lies, also where only the driver can write there.

A task that sends notes its place every few thousand rows (sending.py). In a folder of this machine a note is a file. A
worker cannot reach Spark's file systems, so there it calls the driver, which writes the note and answers.

The call is gRPC's, with an end to it. What it says is signed with a key that comes with Spark's task, as a property
that Spark's logs leave out, and never is in an option: plans show those.

Rule: a note counts when `put` has returned; until then the task sends nothing more.
"""

from __future__ import annotations

import hmac
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from types import TracebackType
from typing import Any, Final

import grpc

from broker.seams.entropy import token

from .errors import PipelineError
from .files import write_pieces
from .manifests import Archive
from .stores import Lock

KEY: Final = "stampede.notes.secret"
"""The property of Spark's jobs. Names with `secret` are left out of event logs (spark.redaction.regex)."""
CALL_S: Final = 120.0
"""Of a note, all in all: a store that takes longer has not kept it."""
_DRIVER: Final = "driver:"
_MOST: Final = 4096
"""Bytes of a note."""
_MOST_CALLS: Final = 16
_METHOD: Final = "/stampede.Notes/Put"
_SIGNED: Final = "signed"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MOST),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


def _signature(key: str, note: bytes) -> str:
    return hmac.new(key.encode(), note, sha256).hexdigest()


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def put(where: str, note: bytes, key: str = "") -> None:
    """In a worker. Raises PipelineError, OSError."""
    if not where.startswith(_DRIVER):
        write_pieces(where, [note])
        return
    try:
        with grpc.insecure_channel(where.removeprefix(_DRIVER), _OPTIONS) as channel:
            call = channel.unary_unary(_METHOD)
            call(note, metadata=((_SIGNED, _signature(key, note)),), timeout=CALL_S, wait_for_ready=True)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            raise PipelineError(f"the driver could not note how far this is: {error.details()}; run it again") from None
        raise PipelineError(
            f"the driver did not say that it has noted how far this is ({where.removeprefix(_DRIVER)}: "
            f"{error.details()}); run it again"
        ) from None


class Notes:
    """In the driver, while a task sends, and in the thread that has it send: `where` is the option `ledger`."""

    def __init__(self, spark: Any, archive: Archive, name: str, lock: Lock) -> None:
        self.where = archive.path(name)
        self._store, self._name, self._lock = archive.store, name, lock
        self._server: grpc.Server | None = None
        if self._store.remote:
            self._context = spark.sparkContext
            self._key = token(16)
            host = spark.conf.get("spark.driver.host")
            self._server = grpc.server(
                ThreadPoolExecutor(max_workers=2, thread_name_prefix="stampede-notes"),
                maximum_concurrent_rpcs=_MOST_CALLS, options=(*_OPTIONS, ("grpc.so_reuseport", 0)),
            )  # fmt: skip
            service, name = _METHOD.strip("/").split("/")
            handler = {name: grpc.unary_unary_rpc_method_handler(self._put)}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handler),))
            port = self._server.add_insecure_port(_at(spark.conf.get("spark.driver.bindAddress", host), 0))
            self.where = f"{_DRIVER}{_at(host, port)}"

    def __enter__(self) -> Notes:
        if self._server is not None:
            self._context.setLocalProperty(KEY, self._key)
            self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._context.setLocalProperty(KEY, None)
            self._server.stop(None).wait(CALL_S)

    def _put(self, note: bytes, call: grpc.ServicerContext) -> bytes:
        said = dict(call.invocation_metadata()).get(_SIGNED, "")
        if not hmac.compare_digest(str(said), _signature(self._key, note)):
            call.abort(grpc.StatusCode.UNAUTHENTICATED, "this note is not signed by a task of this driver")
        try:
            self._lock.renew()
            self._store.write(self._name, [note])
        except Exception as problem:  # whatever it is, the task must not believe that it is noted
            call.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem)[:_MOST])
        return b""
