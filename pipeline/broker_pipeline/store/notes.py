"""How far receipts have come, noted where the archive lies.

A task that sends tells its place every few thousand rows, or seconds (sending.py). Only the driver reaches Spark's file
systems and holds the archive's lock, so the task calls it; it writes the note, answers, and says how far the task is.

The call is gRPC's, with an end to it. What it says is signed with a key that comes with Spark's task, as a property
that Spark's logs leave out, and never is in an option: plans show those.

Rule: a note counts when `put` has returned; until then the task sends nothing more.
"""

from __future__ import annotations

import hmac
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from types import TracebackType
from typing import Any, Final

import grpc

from broker.seams.entropy import token

from ..errors import PipelineError
from ..progress import Progress
from .manifests import Archive
from .stores import Lock

KEY: Final = "spark.stampede.notes.secret"
"""A setting of the session, which Spark SQL copies into the properties of each of its jobs, over what else would stand
there. Event logs redact those by their name (spark.redaction.regex) if the session was made with such a setting."""
NO_KEY: Final = "of each job"
"""Its value while nothing is sent."""
CALL_S: Final = 120.0
"""Of a note, all in all: a store that takes longer has not kept it."""
_MOST: Final = 4096
"""Bytes of a note."""
_MOST_CALLS: Final = 16
_METHOD: Final = "/stampede.Notes/Put"
_SIGNED: Final = "signed"
_SENT: Final = "sent"
"""How many: for lines of progress only."""
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


def put(where: str, note: bytes, key: str = "", sent: int = 0) -> None:
    """In a worker, which has sent so many. Raises PipelineError, OSError."""
    try:
        with grpc.insecure_channel(where, _OPTIONS) as channel:
            call = channel.unary_unary(_METHOD)
            call(
                note,
                metadata=((_SIGNED, _signature(key, note)), (_SENT, str(sent))),
                timeout=CALL_S,
                wait_for_ready=True,
            )
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            raise PipelineError(f"the driver could not note how far this is: {error.details()}; run it again") from None
        raise PipelineError(
            f"the driver did not say that it has noted how far this is ({where}: {error.details()}); run it again"
        ) from None


class Notes:
    """In the driver, while a task sends, and in the thread that has it send: `where` is the option `ledger`."""

    def __init__(self, spark: Any, archive: Archive, name: str, lock: Lock, progress: Progress) -> None:
        self._store, self._name, self._lock, self._progress = archive.store, name, lock, progress
        self._turn = threading.Lock()
        self._settings = spark.conf
        self._key = token(16)
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=2, thread_name_prefix="stampede-notes"),
            maximum_concurrent_rpcs=_MOST_CALLS, options=(*_OPTIONS, ("grpc.so_reuseport", 0)),
        )  # fmt: skip
        service, method = _METHOD.strip("/").split("/")
        handler = {method: grpc.unary_unary_rpc_method_handler(self._put)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handler),))
        host = spark.conf.get("spark.driver.host")
        port = self._server.add_insecure_port(_at(spark.conf.get("spark.driver.bindAddress", host), 0))
        self.where = _at(host, port)

    def __enter__(self) -> Notes:
        self._settings.set(KEY, self._key)
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settings.set(KEY, NO_KEY)
        self._server.stop(None).wait(CALL_S)

    def _put(self, note: bytes, call: grpc.ServicerContext) -> bytes:
        said = {name: str(value) for name, value in call.invocation_metadata()}
        if not hmac.compare_digest(said.get(_SIGNED, ""), _signature(self._key, note)):
            call.abort(grpc.StatusCode.UNAUTHENTICATED, "this note is not signed by a task of this driver")
        try:
            self._lock.renew()
            self._store.write(self._name, [note])
        except Exception as problem:  # whatever it is, the task must not believe that it is noted
            call.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem)[:_MOST])
        with self._turn:
            self._progress.at(int(said.get(_SENT, "0")))
        return b""
