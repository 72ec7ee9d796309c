"""A read API that is nastier than a broker: tiny answers, streams that break.

Rule: speaks the messages of proto/broker/rpc/v1/log_reads.proto and records of the log, nothing else of the product."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc

from broker.core.message import Blob, Run
from broker.core.records import RunRecord
from broker.journal.log import format as f
from broker.rpc.v1 import log_reads_pb2 as pb

MINUTE = 60_000
START_MS = 1_790_000_000_000
LARGE = 7
"""The number of the message with a large body."""


class FakeReads:
    """slots: slot → number of messages; an item holds `per_item` of them, and the large one is alone in its own."""

    def __init__(self, slots: dict[int, int], per_item: int = 3, break_every: int = 0, earliest: int = 1) -> None:
        self.per_item, self.break_every, self.earliest = per_item, break_every, earliest
        self.items: dict[int, list[tuple[int, int]]] = {}
        """slot → (first message, how many) of its items"""
        for slot, count in slots.items():
            self.add(slot, count)
        self.answers = 0
        self.marks: dict[str, dict[int, int]] = {}
        self.requests: list[pb.ScanRequest] = []
        self.lookups = 0
        self.leader: FakeReads | None = None
        """Whom it follows."""
        self.group: list[FakeReads] = []
        """All owners of its cluster, itself among them."""
        self.unknown: set[str] = set()
        """Names that are no address of it."""
        self.elsewhere: dict[int, str] = {}
        """Slots that another one leads."""
        self.deliveries = False
        """Some address records hand-outs."""
        self.epoch = 1
        """Of all its items."""
        self.behind = False
        """It refuses to be read, as one that has not heard yet how much counts."""
        self.server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("stampede.v1.LogReads", {
            "Describe": one(self.describe, pb.DescribeRequest.FromString, pb.Description.SerializeToString),
            "Lookup": one(self.lookup, pb.LookupRequest.FromString, pb.LookupAnswer.SerializeToString),
            "Watermark": one(self.watermark, pb.WatermarkRequest.FromString, pb.WatermarkAnswer.SerializeToString),
            "Scan": many(self.scan, pb.ScanRequest.FromString, pb.ScanBatch.SerializeToString),
            "ReadBody": many(self.body, pb.ReadBodyRequest.FromString, pb.BodyChunk.SerializeToString),
        }),))  # fmt: skip
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def __enter__(self) -> FakeReads:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(None).wait()

    def add(self, slot: int, count: int) -> None:
        items = self.items.setdefault(slot, [])
        begin = sum(items[-1]) if items else 0
        end = begin + count
        while begin < end:
            step = 1 if begin == LARGE else min(self.per_item, end - begin)
            if begin < LARGE < begin + step:
                step = LARGE - begin
            items.append((begin, step))
            begin += step

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def end(self, slot: int) -> int:
        return len(self.items[slot]) + 1

    def time(self, slot: int, offset: int) -> int:
        return START_MS + self.items[slot][offset - 1][0] * MINUTE

    def record(self, slot: int, offset: int) -> bytes:
        first, count = self.items[slot][offset - 1]
        lines, records, blob = (
            b"color:red\ncolor:late\n",
            [b"\nbody %d\0" % n for n in range(first, first + count)],
            None,
        )
        if first == LARGE:
            lines, records, blob = lines + b"\n", [b""], Blob(255, 300_000)
        run = Run(range(first, first + count), lines, records, 1, 0, 4, 0, self.time(slot, offset), 0, blob=blob)
        flags, payload = f.run_payload(RunRecord(slot, f"a{slot}", [1], run))
        return b"".join(f.record(f.RUN, flags, slot, 1, offset, payload, f.CHECKSUMS[f.PREFERRED]))

    def describe(self, request, context):
        leader = self.leader.endpoint if self.leader is not None else ""
        slots = [
            pb.SlotRange(
                slot=s, earliest=self.earliest, end=self.end(s), epoch=self.epoch,
                lineage=[pb.Lineage(epoch=self.epoch, start=1)],
                follower=bool(leader), leader=leader,
            )
            if not leader or (request.followers and not self.behind)
            else pb.SlotRange(slot=s, endpoint=leader)
            for s in sorted(self.items)
        ]  # fmt: skip
        cuts = [pb.Cut(offsets=[1 + 5 * n] * len(slots)) for n in range(20)] if request.cuts else []
        cuts = cuts if any(not part.endpoint for part in slots) else []
        slots += [pb.SlotRange(slot=slot, endpoint=place) for slot, place in self.elsewhere.items()]
        return pb.Description(
            slots=slots, broker_id="fake", now_ms=START_MS, cuts=cuts,
            endpoints=[other.endpoint for other in self.group], endpoint=self.endpoint if self.group else "",
            deliveries=self.deliveries, unknown=sorted(self.unknown & set(request.addresses)),
        )  # fmt: skip

    def lookup(self, request, context):
        self.lookups += 1
        if self.leader is not None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "1803 This slot is read from another owner: ask the leader")
        return pb.LookupAnswer(offsets={
            s: next((n for n in range(1, self.end(s)) if self.time(s, n) >= request.ts_ms), self.end(s))
            for s in self.items
        })  # fmt: skip

    def watermark(self, request, context):
        self.marks.setdefault(request.name, {}).update(request.offsets)
        return pb.WatermarkAnswer(kept_bytes=1, limit_bytes=2)

    def scan(self, request, context):
        self.requests.append(request)
        if self.behind:
            context.abort(grpc.StatusCode.UNAVAILABLE, "1807 This replica cannot be read just now")
        queues = [pb.QueueName(slot=part.slot, id=1, name="q", address=f"a{part.slot}") for part in request.parts]
        for part in request.parts:
            start = getattr(part, "from")
            if start < self.earliest:
                context.abort(grpc.StatusCode.OUT_OF_RANGE, "1801 This part of the log is gone: it begins later")
            if part.epoch not in (0, self.epoch):
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "1802 The log has another history there")
            for offset in range(start, part.until):
                self.answers += 1
                if self.break_every and self.answers % self.break_every == 0:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "gone away")
                address, time = f"a{part.slot}", self.time(part.slot, offset)
                wanted = (not request.addresses or address in request.addresses) and time >= request.since_ms
                yield pb.ScanBatch(
                    records=self.record(part.slot, offset) if wanted else b"", queues=queues,
                    next=[pb.ScanPart(slot=part.slot, epoch=self.epoch, **{"from": offset + 1})],
                )  # fmt: skip

    def body(self, request, context):
        for _ in range(3):
            yield pb.BodyChunk(data=b"z" * 100_000)
