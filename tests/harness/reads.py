"""A reader of the log, as an archive would be one: gRPC, and rows as they come."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import grpc

from broker.rpc.v1 import log_reads_pb2 as pb

SERVICE = "/stampede.v1.LogReads/"


class LogReader:
    """Use it with `with`. Raises grpc.RpcError; `error_of` takes it apart."""

    def __init__(self, port: int, login: str = "", passcode: str = "", host: str = "127.0.0.1") -> None:
        self.channel = grpc.insecure_channel(f"{host}:{port}", [("grpc.use_local_subchannel_pool", 1)])
        token = base64.b64encode(f"{login}:{passcode}".encode()).decode()
        self.metadata = (("authorization", f"Basic {token}"),) if login else ()

    def __enter__(self) -> LogReader:
        grpc.channel_ready_future(self.channel).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def _unary(self, name: str, request: Any, answer: Any) -> Any:
        call = self.channel.unary_unary(SERVICE + name, type(request).SerializeToString, answer.FromString)
        return call(request, metadata=self.metadata, timeout=60)

    def describe(self, *addresses: str, view: str = "messages", followers: bool = False) -> Any:
        request = pb.DescribeRequest(addresses=addresses, view=view, followers=followers)
        return self._unary("Describe", request, pb.Description)

    def watermark(self, name: str, offsets: dict[int, int], forget: bool = False) -> Any:
        request = pb.WatermarkRequest(name=name, offsets=offsets, forget=forget)
        return self._unary("Watermark", request, pb.WatermarkAnswer)

    def lookup(self, ts_ms: int, *slots: int) -> dict[int, int]:
        return dict(self._unary("Lookup", pb.LookupRequest(ts_ms=ts_ms, slots=slots), pb.LookupAnswer).offsets)

    def batches(self, slot: int, start: int = 1, until: int = 0, **more: Any) -> Iterator[Any]:
        call = self.channel.unary_stream(SERVICE + "Read", pb.ReadRequest.SerializeToString, pb.ReadBatch.FromString)
        more.setdefault("include_body", True)
        request = pb.ReadRequest(slot=slot, until=until, **{"from": start}, **more)
        yield from call(request, metadata=self.metadata, timeout=60)

    def scan(self, parts: Iterable[Any] = (), view: str = "log", addresses: Iterable[str] = ()) -> list[Any]:
        """ScanBatches of many slots: all there are, unless `parts` says which."""
        asked = list(parts) or [
            pb.ScanPart(slot=part.slot, until=part.end, **{"from": part.earliest})
            for part in self.describe(*addresses, view=view).slots
        ]
        call = self.channel.unary_stream(SERVICE + "Scan", pb.ScanRequest.SerializeToString, pb.ScanBatch.FromString)
        return list(
            call(pb.ScanRequest(parts=asked, view=view, addresses=addresses), metadata=self.metadata, timeout=60)
        )

    def read(self, slot: int, start: int = 1, until: int = 0, **more: Any) -> list[Any]:
        """All rows of one read."""
        return [row for batch in self.batches(slot, start, until, **more) for row in batch.rows]

    def everything(self, *addresses: str, view: str = "messages") -> list[Any]:
        """All rows there are, slot by slot."""
        found = []
        for part in self.describe(*addresses, view=view).slots:
            found += self.read(part.slot, part.earliest, part.end, addresses=addresses, view=view)
        return found

    def body(self, slot: int, offset: int, ref: str) -> bytes:
        call = self.channel.unary_stream(
            SERVICE + "ReadBody", pb.ReadBodyRequest.SerializeToString, pb.BodyChunk.FromString
        )
        request = pb.ReadBodyRequest(slot=slot, offset=offset, body_ref=ref)
        return b"".join(chunk.data for chunk in call(request, metadata=self.metadata, timeout=60))


def error_of(error: grpc.RpcError) -> Any:
    """The Error of a status."""
    found = dict(error.trailing_metadata() or ()).get("stampede-error-bin", b"")
    return pb.Error.FromString(found)


def plain(row: Any) -> tuple[Any, ...]:
    """A row as a value that can be compared."""
    return (
        row.offset, row.index, row.epoch, row.event, row.address, row.queue, row.message_id, row.body, row.ts_ms,
        tuple((header.name, header.value) for header in row.headers), row.reason, row.attempt,
    )  # fmt: skip
