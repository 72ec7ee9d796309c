"""A read API that is nastier than a broker: tiny answers, `next` in the middle of an item, streams that break.

Rule: speaks the messages of proto/broker/rpc/v1/log_reads.proto and nothing else of the product."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc

from broker.rpc.v1 import log_reads_pb2 as pb

MINUTE = 60_000
START_MS = 1_790_000_000_000


class FakeReads:
    """slots: slot → list of rows; an item holds `per_item` rows."""

    def __init__(self, slots: dict[int, int], per_item: int = 3, break_every: int = 0, earliest: int = 1) -> None:
        self.per_item, self.break_every, self.earliest = per_item, break_every, earliest
        self.rows = {slot: [self._row(slot, n) for n in range(count)] for slot, count in slots.items()}
        self.answers = 0
        self.marks: dict[str, dict[int, int]] = {}
        self.requests: list[pb.ReadRequest] = []
        self.server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("stampede.v1.LogReads", {
            "Describe": one(self.describe, pb.DescribeRequest.FromString, pb.Description.SerializeToString),
            "Lookup": one(self.lookup, pb.LookupRequest.FromString, pb.LookupAnswer.SerializeToString),
            "Watermark": one(self.watermark, pb.WatermarkRequest.FromString, pb.WatermarkAnswer.SerializeToString),
            "Read": many(self.read, pb.ReadRequest.FromString, pb.ReadBatch.SerializeToString),
            "ReadBody": many(self.body, pb.ReadBodyRequest.FromString, pb.BodyChunk.SerializeToString),
        }),))  # fmt: skip
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def __enter__(self) -> FakeReads:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(None).wait()

    def _row(self, slot: int, n: int) -> pb.Row:
        large = n == 7
        return pb.Row(
            offset=n // self.per_item + 1, index=n % self.per_item, epoch=1, ts_ms=START_MS + n * MINUTE,
            event="ENQUEUED", address=f"a{slot}", message_id=f"{slot}-{n}", body=b"" if large else b"body %d" % n,
            size=300_000 if large else 7, priority=4, body_ref="ff" if large else "",
            headers=[pb.Header(name=b"color", value=b"red"), pb.Header(name=b"color", value=b"late")],
        )  # fmt: skip

    def add(self, slot: int, count: int) -> None:
        rows = self.rows.setdefault(slot, [])
        rows += [self._row(slot, n) for n in range(len(rows), len(rows) + count)]

    def end(self, slot: int) -> int:
        return self.rows[slot][-1].offset + 1 if self.rows[slot] else 1

    def describe(self, request, context):
        slots = [
            pb.SlotRange(
                slot=s, earliest=self.earliest, end=self.end(s), epoch=1, lineage=[pb.Lineage(epoch=1, start=1)]
            )
            for s in sorted(self.rows)
        ]
        return pb.Description(slots=slots, broker_id="fake", now_ms=START_MS)

    def lookup(self, request, context):
        return pb.LookupAnswer(offsets={
            s: next((r.offset for r in rows if r.ts_ms >= request.ts_ms), self.end(s)) for s, rows in self.rows.items()
        })  # fmt: skip

    def watermark(self, request, context):
        self.marks.setdefault(request.name, {}).update(request.offsets)
        return pb.WatermarkAnswer(kept_bytes=1, limit_bytes=2)

    def read(self, request, context):
        start = getattr(request, "from")
        self.requests.append(request)
        if start < self.earliest:
            context.abort(grpc.StatusCode.OUT_OF_RANGE, "1801 This part of the log is gone: it begins later")
        wanted = [
            r for r in self.rows[request.slot]
            if start <= r.offset < request.until and (not request.addresses or r.address in request.addresses)
        ]  # fmt: skip
        for at in range(0, len(wanted), 2):
            self.answers += 1
            if self.break_every and self.answers % self.break_every == 0:
                context.abort(grpc.StatusCode.UNAVAILABLE, "gone away")
            rows = wanted[at : at + 2]
            yield pb.ReadBatch(rows=rows, next=rows[-1].offset, epoch=1)  # that item is not done yet, perhaps
        yield pb.ReadBatch(next=request.until, epoch=1, done=True)

    def body(self, request, context):
        for _ in range(3):
            yield pb.BodyChunk(data=b"z" * 100_000)
