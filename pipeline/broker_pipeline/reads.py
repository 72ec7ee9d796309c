"""The read API of the broker, called: one answer, or a stream of rows that goes on after a lost connection.

Rule: never a gap and never a row twice. After a break it goes on from the last `next`; rows that had come of that
item already are known by (offset, index). An error of the broker reaches the user with its number and what to do.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final

import grpc

from broker.rpc.v1 import log_reads_pb2 as pb
from broker.seams.clock import SystemClock

from .errors import PipelineError
from .options import Access
from .ranges import Range, SlotInfo

_SERVICE: Final = "/stampede.v1.LogReads/"
_CALL_S: Final = 30.0
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 3.0
_MAX_MESSAGE: Final = 64 << 20
_AGAIN: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED,
                 grpc.StatusCode.CANCELLED, grpc.StatusCode.ABORTED)  # fmt: skip
_ADVICE: Final = {
    1203: "give the user the permission `read` of these addresses",
    1201: "check the options user and passcode",
    1801: "what is missing is lost to this reader; archive more often, or raise log_reads.keep_bytes",
    1802: "the log is another than was read before: start with a new checkpoint or a new archive folder",
}


class LogReads:
    """Use it with `with`. Raises PipelineError. Not for several threads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._channels: dict[str, grpc.Channel] = {}
        self._clock = SystemClock()
        self._wait = threading.Event()
        token = base64.b64encode(f"{access.user}:{access.passcode}".encode()).decode()
        self._metadata = (("authorization", f"Basic {token}"),) if access.user else ()

    def __enter__(self) -> LogReads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _channel(self, endpoint: str) -> grpc.Channel:
        if endpoint not in self._channels:
            options = [
                ("grpc.max_receive_message_length", _MAX_MESSAGE),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ]
            if self._access.tls:
                secure = grpc.ssl_channel_credentials(self._access.ca)
                self._channels[endpoint] = grpc.secure_channel(endpoint, secure, options)
            else:
                self._channels[endpoint] = grpc.insecure_channel(endpoint, options)
        return self._channels[endpoint]

    def _unary(self, endpoint: str, name: str, request: Any, answer: Any) -> Any:
        call = self._channel(endpoint).unary_unary(
            _SERVICE + name, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        return call(request, metadata=self._metadata, timeout=_CALL_S)

    def _anyone(self, name: str, request: Any, answer: Any) -> Any:
        """Of the first broker that answers; asked again until patience ends."""
        end = self._clock.monotonic() + self._access.patience_s
        pause = _PAUSE_S
        while True:
            for endpoint in self._access.brokers:
                try:
                    return self._unary(endpoint, name, request, answer)
                except grpc.RpcError as error:
                    last = error
                    if error.code() not in _AGAIN:
                        raise _explained(error, endpoint) from None
            if self._clock.monotonic() > end:
                raise _explained(last, ", ".join(self._access.brokers)) from None
            self._wait.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def describe(self, addresses: tuple[str, ...], view: str) -> tuple[str, int, dict[int, SlotInfo]]:
        """(broker id, its time in ms, slot → info). Raises PipelineError when a slot has nobody who reads it."""
        request = pb.DescribeRequest(addresses=addresses, view=view)
        first = self._anyone("Describe", request, pb.Description)
        found: dict[int, SlotInfo] = {}
        elsewhere: dict[str, set[int]] = {}
        for part in first.slots:
            if part.endpoint:
                elsewhere.setdefault(part.endpoint, set()).add(part.slot)
            else:
                found[part.slot] = _info(part, "")
        for endpoint, slots in sorted(elsewhere.items()):
            try:
                answer = self._unary(endpoint, "Describe", request, pb.Description)
            except grpc.RpcError as error:
                raise _explained(error, endpoint) from None
            for part in answer.slots:
                if part.slot in slots and not part.endpoint:
                    found[part.slot] = _info(part, endpoint)
        if missing := {slot for slots in elsewhere.values() for slot in slots} - set(found):
            raise PipelineError(
                f"nobody reads slot {min(missing)} now (and {len(missing) - 1} others); try again", 1803
            )
        return first.broker_id, first.now_ms, found

    def lookup(self, ts_ms: int) -> dict[int, int]:
        """Slot → first offset that is not older."""
        return dict(self._anyone("Lookup", pb.LookupRequest(ts_ms=ts_ms), pb.LookupAnswer).offsets)

    def watermark(self, name: str, offsets: dict[int, int]) -> tuple[int, int]:
        """Everything before these is safely elsewhere. → (bytes kept for archives, their limit)."""
        answer = self._anyone("Watermark", pb.WatermarkRequest(name=name, offsets=offsets), pb.WatermarkAnswer)
        return answer.kept_bytes, answer.limit_bytes

    def rows(
        self, part: Range, *, addresses: tuple[str, ...], view: str, since_ms: int, before_ms: int, include_body: bool
    ) -> Iterator[list[Any]]:
        """Rows of a range, in order, each once."""
        at, epoch = part.start, part.epoch
        seen = (0, -1)
        end = self._clock.monotonic() + self._access.patience_s
        pause, turn = _PAUSE_S, 0
        while at < part.end:
            request = pb.ReadRequest(
                slot=part.slot, until=part.end, epoch=epoch, addresses=addresses, view=view,
                since_ms=since_ms, before_ms=before_ms, include_body=include_body, **{"from": at},
            )  # fmt: skip
            endpoint = part.endpoint or self._access.brokers[turn % len(self._access.brokers)]
            problem: grpc.RpcError | None = None
            try:
                for batch in self._stream(endpoint, "Read", request, pb.ReadBatch):
                    fresh = [row for row in batch.rows if (row.offset, row.index) > seen]
                    if fresh:
                        seen = (fresh[-1].offset, fresh[-1].index)
                    if batch.next > at:
                        at, epoch = batch.next, batch.epoch
                        end, pause = self._clock.monotonic() + self._access.patience_s, _PAUSE_S
                    if fresh:
                        yield fresh
            except grpc.RpcError as error:
                problem = error
                if error.code() not in _AGAIN:
                    raise _explained(error, endpoint) from None
            if at >= part.end:
                return
            if self._clock.monotonic() > end:
                if problem is not None:
                    raise _explained(problem, endpoint) from None
                raise PipelineError(
                    f"{endpoint}: slot {part.slot} ends at {at}, and {part.end} was promised; try again"
                )
            turn += 1
            self._wait.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _stream(self, endpoint: str, name: str, request: Any, answer: Any) -> Iterator[Any]:
        call = self._channel(endpoint).unary_stream(
            _SERVICE + name, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )(request, metadata=self._metadata)
        try:
            yield from call
        finally:
            call.cancel()

    def body(self, part: Range, offset: int, ref: str) -> Iterator[bytes]:
        """Pieces of a large body."""
        request = pb.ReadBodyRequest(slot=part.slot, offset=offset, body_ref=ref)
        endpoint = part.endpoint or self._access.brokers[0]
        try:
            for chunk in self._stream(endpoint, "ReadBody", request, pb.BodyChunk):
                yield chunk.data
        except grpc.RpcError as error:
            raise _explained(error, endpoint) from None


def _info(part: Any, endpoint: str) -> SlotInfo:
    lineage = tuple((line.epoch, line.start) for line in part.lineage)
    return SlotInfo(part.slot, endpoint, part.earliest, max(part.end, part.earliest), lineage)


def _explained(error: grpc.RpcError, endpoint: str) -> PipelineError:
    details = error.details() or error.code().name
    number = details.split(" ", 1)[0]
    code = int(number) if number.isdigit() else 0
    if error.code() is grpc.StatusCode.UNAVAILABLE and not code:
        advice = "nobody answers there; check the option broker and the setting log_reads.port"
    elif error.code() is grpc.StatusCode.UNIMPLEMENTED:
        advice = "that port, or that release of the broker, does not have this call; log_reads.port names the port"
    else:
        advice = _ADVICE.get(code, "")
    return PipelineError(f"{endpoint}: {details}" + (f": {advice}" if advice else ""), code)
