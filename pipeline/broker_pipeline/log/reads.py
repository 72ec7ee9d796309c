"""The read API of the broker, called: one answer, or a stream of rows that goes on after a lost connection.

Rule: never a gap and never an item twice: an answer holds whole items and says where to go on. An error of the broker
reaches the user with its number and what to do.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import grpc

from broker.core.strict_numbers import natural
from broker.rpc.v1 import log_reads_pb2 as pb
from broker.seams.clock import SystemClock

from ..errors import PipelineError
from ..options import Access
from .ranges import Range, SlotInfo
from .replicas import Described, another

_SERVICE: Final = "/stampede.v1.LogReads/"
_CALL_S: Final = 30.0
_ASK_S: Final = 5.0
"""A broker that others can stand in for."""
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
    """Use it with `with`. Raises PipelineError. Not for several threads.

    endpoints   of brokers besides those of `access`: any of them may be asked when others are away."""

    def __init__(self, access: Access, endpoints: Iterable[str] = ()) -> None:
        self._access = access
        self._endpoints = tuple(dict.fromkeys((*access.brokers, *endpoints)))
        self._moved: dict[int, str] = {}
        """Slot → who has been read last of it, where that is another than was planned."""
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

    def _unary(self, endpoint: str, name: str, request: Any, answer: Any, seconds: float = _CALL_S) -> Any:
        call = self._channel(endpoint).unary_unary(
            _SERVICE + name, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        return call(request, metadata=self._metadata, timeout=seconds)

    def _anyone(self, name: str, request: Any, answer: Any) -> Any:
        """Of the first broker that answers; asked again until patience ends."""
        end = self._clock.monotonic() + self._access.patience_s
        pause = _PAUSE_S
        while True:
            for endpoint in self._endpoints:
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
        """The same; with `cuts`, also places of the log that are cheap to begin at, and who else has it.

        Asked until every slot has somebody who leads it."""
        request = pb.DescribeRequest(addresses=addresses, view=view, cuts=cuts, followers=bool(cuts))
        end = self._clock.monotonic() + self._access.patience_s
        while True:
            described = self._described(request)
            missing = described.missing()
            if not missing:
                return described
            if self._clock.monotonic() > end:
                raise PipelineError(f"nobody leads slot {missing[0]} now (and {len(missing) - 1} others)", 1803)
            self._wait.wait(_LONGEST_PAUSE_S / 3)

    def _described(self, request: Any) -> Described:
        """What can be said now: leaders are asked, and where followers matter all owners."""
        first = self._anyone("Describe", request, pb.Description)
        made = Described(first.broker_id, first.now_ms, endpoints=tuple(first.endpoints))
        self._endpoints = tuple(dict.fromkeys((*self._endpoints, *first.endpoints)))
        made.put(first, first.endpoint)
        others = {part.endpoint or part.leader for part in first.slots}
        if request.followers:
            others.update(first.endpoints)
        for endpoint in sorted(others - {"", "?", first.endpoint}):
            try:
                made.put(self._unary(endpoint, "Describe", request, pb.Description, _ASK_S), endpoint)
            except grpc.RpcError as error:
                if error.code() not in _AGAIN:
                    raise _explained(error, endpoint) from None
        return made.whole()

    def require(self, described: Described, addresses: Iterable[str]) -> None:
        """Raises PipelineError when one of these names is no address of the broker, and its log has no message of it
        either: a misspelt name would be read as nothing, for ever."""
        ranges = [Range(i.slot, i.earliest, i.end, 0, i.endpoint) for i in described.infos.values()]
        missing = []
        for name in sorted((described.unknown or frozenset()) & set(addresses)):
            asked = self.scan(ranges, addresses=(name,), view="messages", since_ms=0, before_ms=0)
            if not any(batch.records for batch in asked):
                missing.append(name)
        if missing:
            raise PipelineError(
                f"the broker has no address {', '.join(missing)}, and its log no message of it: check the spelling "
                f"(capitals count), create it first, or give a pattern, which may match nothing yet: {missing[0]}.#"
            )

    def lookup(self, ts_ms: int, infos: Mapping[int, SlotInfo]) -> dict[int, int]:
        """Slot → first offset that is not older, as the leaders of all these slots say; where one has gone, or leads
        a slot no more, its successor is asked."""
        found: dict[int, int] = {}
        left = {slot: info.endpoint for slot, info in infos.items()}
        end = self._clock.monotonic() + self._access.patience_s
        pause = _PAUSE_S
        while left:
            problem: PipelineError | None = None
            for endpoint in sorted(set(left.values())):
                slots = [slot for slot, place in left.items() if place == endpoint]
                request = pb.LookupRequest(ts_ms=ts_ms, slots=slots)
                try:
                    if endpoint:
                        answer = self._unary(endpoint, "Lookup", request, pb.LookupAnswer)
                    else:
                        answer = self._anyone("Lookup", request, pb.LookupAnswer)
                except grpc.RpcError as error:
                    problem = _explained(error, endpoint)
                    if error.code() not in _AGAIN:
                        raise problem from None
                    continue
                found.update({slot: answer.offsets[slot] for slot in slots if slot in answer.offsets})
            left = {slot: endpoint for slot, endpoint in left.items() if slot not in found}
            if not left:
                break
            if self._clock.monotonic() > end:
                raise problem or PipelineError(f"nobody leads slot {min(left)} now", 1803)
            self._wait.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            leaders = self._described(pb.DescribeRequest()).infos
            left = {slot: leaders[slot].endpoint if slot in leaders else place for slot, place in left.items()}
        return found

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
        """ScanBatches of these ranges, each item once, those of each slot in order. Where a broker has gone, or has not
        yet what is asked for, it goes on at another replica."""
        left = {part.slot: part for part in ranges if len(part)}
        end = self._clock.monotonic() + self._access.patience_s
        pause, turn = _PAUSE_S, 0
        while left:
            problem: PipelineError | None = None
            failed: set[str] = set()
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
                    problem = _explained(error, place)
                    if error.code() not in _AGAIN and not (endpoint and problem.code == 1801 and self._held(left)):
                        raise problem from None
                if any(part.slot in left for part in parts):
                    failed.add(endpoint)
            if not left:
                return
            if self._clock.monotonic() > end:
                if problem is not None:
                    raise problem
                part = next(iter(left.values()))
                raise PipelineError(
                    f"{place}: slot {part.slot} ends at {part.start}, and {part.end} was promised; try again"
                )
            turn += 1
            self._wait.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            left = self._elsewhere(left, failed)

    def _elsewhere(self, left: dict[int, Range], failed: set[str]) -> dict[int, Range]:
        """The same, with who else can be asked. A broker on its own has no others."""
        if not any(part.endpoint for part in left.values()):
            return left
        replicas = self._described(pb.DescribeRequest(followers=True)).replicas
        left = {slot: another(part, replicas.get(slot, ()), failed) for slot, part in left.items()}
        self._moved.update({slot: part.endpoint for slot, part in left.items()})
        return left

    def _held(self, left: dict[int, Range]) -> bool:
        """Has somebody got all of it: one replica's log may begin later than another's."""
        replicas = self._described(pb.DescribeRequest(followers=True)).replicas
        return all(any(r.earliest <= part.start for r in replicas.get(slot, ())) for slot, part in left.items())

    def _stream(self, endpoint: str, name: str, request: Any, answer: Any) -> Iterator[Any]:
        call = self._channel(endpoint).unary_stream(
            _SERVICE + name, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )(request, metadata=self._metadata)
        try:
            yield from call
        finally:
            call.cancel()

    def body(self, part: Range, offset: int, ref: str) -> Iterator[bytes]:
        """Pieces of a large body; where a broker has gone, the rest comes from another one."""
        request = pb.ReadBodyRequest(slot=part.slot, offset=offset, body_ref=ref)
        part = replace(part, start=offset, endpoint=self._moved.get(part.slot, part.endpoint))
        end = self._clock.monotonic() + self._access.patience_s
        got = 0
        while True:
            endpoint = part.endpoint or self._access.brokers[0]
            try:
                at = 0
                for chunk in self._stream(endpoint, "ReadBody", request, pb.BodyChunk):
                    fresh = chunk.data[max(got - at, 0) :]
                    at += len(chunk.data)
                    if fresh:
                        got = at
                        yield fresh
                return
            except grpc.RpcError as error:
                if error.code() not in _AGAIN or self._clock.monotonic() > end:
                    raise _explained(error, endpoint) from None
            self._wait.wait(_PAUSE_S)
            part = self._elsewhere({part.slot: part}, {part.endpoint})[part.slot]


def _by_endpoint(parts: Iterable[Range]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in parts:
        found.setdefault(part.endpoint, []).append(
            pb.ScanPart(
                slot=part.slot, until=part.end, epoch=part.epoch, until_epoch=part.until_epoch, **{"from": part.start}
            )
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


def _explained(error: grpc.RpcError, endpoint: str) -> PipelineError:
    details = error.details() or error.code().name
    code = natural(details.split(" ", 1)[0]) or 0
    if error.code() is grpc.StatusCode.UNAVAILABLE and not code:
        advice = "nobody answers there; check the option broker and the setting log_reads.port"
    elif error.code() is grpc.StatusCode.UNIMPLEMENTED:
        advice = "that port, or that release of the broker, does not have this call; log_reads.port names the port"
    else:
        advice = _ADVICE.get(code, "")
    return PipelineError(f"{endpoint}: {details}" + (f": {advice}" if advice else ""), code)
