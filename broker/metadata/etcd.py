"""The metadata store in etcd: `port.Metadata` over etcd's API v3.

Rule: what the port promises, no more. Names of keys are the callers'; connections and logins are etcd_calls.py.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
from grpc.aio import EOF

from broker.config.settings import EtcdSettings
from broker.seams.clock import Clock, SystemClock
from broker.seams.loop_watchdog import StepKindStats

from .etcd_calls import EtcdCalls, EtcdConnection, Lost, judged, prefix_end
from .etcdpb import kv_pb2, rpc_pb2
from .lease import KeptLease
from .port import Change, Compacted, Delete, KeyValue, MetadataRefused, Put

PAGE = 1000
"""Keys per answer: etcd's answers are bounded by memory only, and one of 10,000 keys would hold up the loop."""
RESUME_PAUSE_S = 0.05


class EtcdMetadata:
    """One process's client. Must be made and used in one event loop."""

    def __init__(
        self, settings: EtcdSettings, clock: Clock | None = None, watches: StepKindStats | None = None
    ) -> None:
        """watches: counts what is done with each answer of a watch.
        Raises ConfigError when the settings cannot work. etcd need not be there yet."""
        self._calls = EtcdCalls(settings)
        self._clock = clock or SystemClock()
        self._watches = watches
        self._leases: list[KeptLease] = []

    @property
    def rewound(self) -> str:
        return self._calls.rewound

    async def get(self, key: str) -> KeyValue | None:
        answer = await self._range(rpc_pb2.RangeRequest(key=key.encode()))
        return _key_value(answer.kvs[0]) if answer.kvs else None

    async def range(self, prefix: str) -> tuple[list[KeyValue], int]:
        while True:
            try:
                return await self._pages(prefix)
            except Compacted:
                continue  # the revision of the first page is gone: begin anew

    async def commit(self, compare: Sequence[tuple[str, int]], then: Sequence[Put | Delete]) -> int:
        request = rpc_pb2.TxnRequest(
            compare=[
                rpc_pb2.Compare(target=rpc_pb2.Compare.MOD, key=key.encode(), mod_revision=revision)
                for key, revision in compare
            ],
            success=[_operation(action) for action in then],
        )
        answer = await self._calls.ask("/etcdserverpb.KV/Txn", request, rpc_pb2.TxnResponse, repeat=False)
        return int(answer.header.revision) if answer.succeeded else 0

    async def put(self, key: str, value: bytes, lease: int = 0) -> int:
        request = rpc_pb2.PutRequest(key=key.encode(), value=value, lease=lease)
        answer = await self._calls.ask("/etcdserverpb.KV/Put", request, rpc_pb2.PutResponse, repeat=False)
        return int(answer.header.revision)

    async def delete(self, key: str) -> bool:
        request = rpc_pb2.DeleteRangeRequest(key=key.encode())
        answer = await self._calls.ask(
            "/etcdserverpb.KV/DeleteRange", request, rpc_pb2.DeleteRangeResponse, repeat=False
        )
        return bool(answer.deleted)

    async def watch(self, prefix: str, revision: int) -> AsyncIterator[list[Change]]:
        while True:
            connection = await self._calls.connected()
            try:
                async with aclosing(self._stream(connection, prefix, revision)) as answers:
                    async for changes, following in answers:
                        revision = following
                        if not changes:
                            continue
                        if self._watches is None:
                            yield changes
                            continue
                        # Who follows takes them at once, and asks for the next ones in the same step of the loop.
                        began = self._watches.begin()
                        yield changes
                        if self._watches.took(began):
                            self._watches.tell(f"{len(changes)} changes below {prefix}")
            except Lost:
                self._calls.broken(connection)
            await asyncio.sleep(RESUME_PAUSE_S)  # no spinning on a store that answers and hangs up

    async def grant(self, ttl_s: float) -> KeptLease:
        asked_at = self._clock.monotonic()
        request = rpc_pb2.LeaseGrantRequest(TTL=math.ceil(ttl_s))
        answer = await self._calls.ask(
            "/etcdserverpb.Lease/LeaseGrant", request, rpc_pb2.LeaseGrantResponse, repeat=False
        )
        lease = KeptLease(answer.ID, float(answer.TTL), asked_at, self._clock, self._renew, self.revoke)
        self._leases = [kept for kept in self._leases if kept.remaining > 0]
        self._leases.append(lease)
        return lease

    async def revoke(self, lease: int) -> None:
        request = rpc_pb2.LeaseRevokeRequest(ID=lease)
        try:
            await self._calls.ask("/etcdserverpb.Lease/LeaseRevoke", request, rpc_pb2.LeaseRevokeResponse, repeat=True)
        except MetadataRefused as error:
            if "lease not found" not in str(error):
                raise

    async def close(self) -> None:
        """Ends connections. Leases that are left run out by themselves."""
        for lease in self._leases:
            lease.stop("closed")
        await self._calls.close()

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _range(self, request: Any) -> Any:
        return await self._calls.ask("/etcdserverpb.KV/Range", request, rpc_pb2.RangeResponse, repeat=True)

    async def _pages(self, prefix: str) -> tuple[list[KeyValue], int]:
        """All pages as of the revision of the first one. Raises Compacted."""
        key, end = _bounds(prefix)
        found: list[KeyValue] = []
        revision = 0
        while True:
            answer = await self._range(rpc_pb2.RangeRequest(key=key, range_end=end, limit=PAGE, revision=revision))
            revision = revision or int(answer.header.revision)
            found += map(_key_value, answer.kvs)
            if not answer.more:
                return found, revision
            key = answer.kvs[-1].key + b"\0"

    async def _renew(self, lease: int) -> float:
        # A stream in etcd's API; one question with one answer is a legal use of it.
        request = rpc_pb2.LeaseKeepAliveRequest(ID=lease)
        answer = await self._calls.ask(
            "/etcdserverpb.Lease/LeaseKeepAlive", request, rpc_pb2.LeaseKeepAliveResponse, repeat=True
        )
        return float(answer.TTL)

    async def _stream(
        self, connection: EtcdConnection, prefix: str, revision: int
    ) -> AsyncGenerator[tuple[list[Change], int], None]:
        """(changes, the revision to go on from) of one watch on one connection. Raises Lost, Compacted,
        MetadataRefused."""
        key, end = _bounds(prefix)
        create = rpc_pb2.WatchCreateRequest(key=key, range_end=end, start_revision=revision, progress_notify=True)
        call = connection.stream("/etcdserverpb.Watch/Watch", rpc_pb2.WatchResponse)
        try:
            await _write(call, rpc_pb2.WatchRequest(create_request=create))
            while (answer := await call.read()) is not EOF:
                if answer.canceled:
                    raise _cancelled(answer)
                if answer.events:
                    following = int(answer.events[-1].kv.mod_revision) + 1
                    yield [_change(event) for event in answer.events], following
                elif not answer.created:  # progress: everything up to here has been told
                    yield [], max(revision, int(answer.header.revision) + 1)
        except (grpc.RpcError, asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.InternalError) as error:
            raise judged(error) from error
        finally:
            call.cancel()


async def _write(call: grpc.aio.StreamStreamCall, request: Any) -> None:
    """gRPC's own never returns when the call ends before its headers have left: its connection is given up because it
    is to a frozen member, say."""
    writing = asyncio.ensure_future(call.write(request))
    call.add_done_callback(lambda _: writing.cancel())
    await writing


def _cancelled(answer: Any) -> Exception:
    if answer.compact_revision:
        return Compacted(f"the history before revision {answer.compact_revision} is gone")
    if "permission denied" in answer.cancel_reason:
        return MetadataRefused(f"etcd refused: {answer.cancel_reason}")
    return Lost(answer.cancel_reason, sent=False)


def _bounds(prefix: str) -> tuple[bytes, bytes]:
    """The first key under a prefix, and the first one behind it."""
    key = prefix.encode()
    return key or b"\0", prefix_end(key)


def _key_value(kv: kv_pb2.KeyValue) -> KeyValue:
    return KeyValue(kv.key.decode(), kv.value, kv.mod_revision, kv.lease)


def _change(event: kv_pb2.Event) -> Change:
    kv = event.kv
    gone = event.type == kv_pb2.Event.DELETE
    return Change(kv.key.decode(), None if gone else kv.value, kv.mod_revision, kv.lease)


def _operation(action: Put | Delete) -> rpc_pb2.RequestOp:
    key = action.key.encode()
    if isinstance(action, Put):
        return rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=action.value, lease=action.lease))
    return rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key))
