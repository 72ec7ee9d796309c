"""The read API of the broker, called: one answer, or a stream of rows that goes on after a lost connection.

Rule: never a gap and never an item twice: an answer holds whole items and says where to go on. An error of the broker
reaches the user with its number and what to do.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
_SCAN_BYTES: Final = 1 << 20
MOST_CUTS: Final = 256
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
        described = self.plan(addresses, view, 0)
        return described.broker, described.now_ms, described.infos

    def plan(self, addresses: tuple[str, ...], view: str, cuts: int = MOST_CUTS) -> Described:
        """The same, and places of the log that are cheap to begin at. Asked until every slot has somebody."""
        request = pb.DescribeRequest(addresses=addresses, view=view, cuts=cuts)
        end = self._clock.monotonic() + self._access.patience_s
        while True:
            try:
                return self._described(request)
            except _NotNow as error:
                if self._clock.monotonic() > end:
                    raise PipelineError(str(error), 1803) from None
            self._wait.wait(_LONGEST_PAUSE_S / 3)

    def _described(self, request: Any) -> Described:
        first = self._anyone("Describe", request, pb.Description)
        made = Described(first.broker_id, first.now_ms, {}, [])
        made.put(first, "", {part.slot for part in first.slots})
        wanted: dict[str, set[int]] = {}
        for part in first.slots:
            if part.endpoint:
                wanted.setdefault(part.endpoint, set()).add(part.slot)
        for endpoint, slots in sorted(wanted.items()):
            if endpoint == "?":
                continue
            try:
                made.put(self._unary(endpoint, "Describe", request, pb.Description), endpoint, slots)
            except grpc.RpcError as error:
                if error.code() not in _AGAIN:
                    raise _explained(error, endpoint) from None
        if missing := {part.slot for part in first.slots} - set(made.infos):
            raise _NotNow(f"nobody reads slot {min(missing)} now (and {len(missing) - 1} others); try again")
        return made

    def lookup(self, ts_ms: int) -> dict[int, int]:
        """Slot → first offset that is not older."""
        return dict(self._anyone("Lookup", pb.LookupRequest(ts_ms=ts_ms), pb.LookupAnswer).offsets)

    def watermark(self, name: str, offsets: dict[int, int]) -> tuple[int, int]:
        """Everything before these is safely elsewhere. Every owner hears it: each frees a log of its own.
        → (most bytes kept for archives, their limit)."""
        request = pb.WatermarkRequest(name=name, offsets=offsets)
        endpoints = self._anyone("Describe", pb.DescribeRequest(), pb.Description).endpoints
        if not endpoints:
            answer = self._anyone("Watermark", request, pb.WatermarkAnswer)
            return answer.kept_bytes, answer.limit_bytes
        kept = limit = 0
        problem: PipelineError | None = None
        for endpoint in endpoints:
            try:
                answer = self._unary(endpoint, "Watermark", request, pb.WatermarkAnswer)
                kept, limit = max(kept, answer.kept_bytes), answer.limit_bytes
            except grpc.RpcError as error:
                problem = _explained(error, endpoint)
        if problem is not None:
            raise problem
        return kept, limit

    def scan(
        self, ranges: Iterable[Range], *, addresses: tuple[str, ...], view: str, since_ms: int, before_ms: int
    ) -> Iterator[Any]:
        """ScanBatches of these ranges, each item once, those of each slot in order. Where a leader has gone it goes on
        at the next one."""
        left = {part.slot: part for part in ranges if len(part)}
        end = self._clock.monotonic() + self._access.patience_s
        pause, turn = _PAUSE_S, 0
        while left:
            problem: grpc.RpcError | None = None
            for endpoint, parts in _by_endpoint(left.values()).items():
                place = endpoint or self._access.brokers[turn % len(self._access.brokers)]
                request = pb.ScanRequest(
                    parts=parts, addresses=addresses, view=view, since_ms=since_ms, before_ms=before_ms,
                    max_bytes=_SCAN_BYTES,
                )  # fmt: skip
                try:
                    for batch in self._stream(place, "Scan", request, pb.ScanBatch):
                        if _advance(left, batch.next):
                            end, pause = self._clock.monotonic() + self._access.patience_s, _PAUSE_S
                        yield batch
                except grpc.RpcError as error:
                    problem = error
                    if error.code() not in _AGAIN:
                        raise _explained(error, place) from None
            if not left:
                return
            if self._clock.monotonic() > end:
                if problem is not None:
                    raise _explained(problem, place) from None
                part = next(iter(left.values()))
                raise PipelineError(
                    f"{place}: slot {part.slot} ends at {part.start}, and {part.end} was promised; try again"
                )
            turn += 1
            self._wait.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            if any(part.endpoint for part in left.values()):
                infos = self.plan((), view, 0).infos
                left = {
                    slot: replace(part, endpoint=infos[slot].endpoint if slot in infos else part.endpoint)
                    for slot, part in left.items()
                }

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


class _NotNow(Exception):
    """A slot has nobody just now."""


@dataclass
class Described:
    """infos: slot → info. cuts: places of one broker's log, ascending: slot → offset."""

    broker: str
    now_ms: int
    infos: dict[int, SlotInfo]
    cuts: list[dict[int, int]]

    def put(self, answer: Any, endpoint: str, slots: set[int]) -> None:
        """What one broker has said of these slots."""
        here = [part.slot for part in answer.slots if not part.endpoint]
        for part in answer.slots:
            if part.slot in slots and not part.endpoint:
                self.infos[part.slot] = _info(part, endpoint)
        for cut in answer.cuts:
            self.cuts.append({slot: at for slot, at in zip(here, cut.offsets, strict=True) if slot in slots})


def _by_endpoint(parts: Iterable[Range]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in parts:
        found.setdefault(part.endpoint, []).append(
            pb.ScanPart(slot=part.slot, until=part.end, epoch=part.epoch, **{"from": part.start})
        )
    return found


def _advance(left: dict[int, Range], places: Any) -> bool:
    """Notes how far the slots are. Did any go on?"""
    before = len(left), [part.start for part in left.values()]
    for place in places:
        part = left.get(place.slot)
        at = getattr(place, "from")
        if part is None or at <= part.start:
            continue
        if at >= part.end:
            del left[place.slot]
        else:
            left[place.slot] = replace(part, start=at, epoch=place.epoch)
    return before != (len(left), [part.start for part in left.values()])


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
