"""stampede scaler: who is alive is followed, and a start that fails leaves nothing behind."""

from __future__ import annotations

import pytest

from broker.app import scaler
from broker.app.scaler import ScalerProcess
from broker.config.scaler import ScalerSettings
from broker.config.settings import AdminSettings, EtcdSettings, Settings
from broker.core.errors import BrokerError
from broker.core.slots import Member
from broker.metadata.port import Delete, Put
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually


def made(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, port: int = 0) -> ScalerProcess:
    monkeypatch.setattr(scaler, "EtcdMetadata", lambda _: MemoryMetadata(store))
    return ScalerProcess(
        Settings(
            etcd=EtcdSettings(prefix="/p"), scaler=ScalerSettings(host="127.0.0.1", port=port),
            admin=AdminSettings(port=-1),
        )
    )  # fmt: skip


def member(id: str) -> bytes:
    return Member(id, "owner", "h:1", "boot").encode()


async def test_owners_come_and_go_and_it_is_ready_while_some_are_known(monkeypatch, caplog):
    store = MemoryStore()
    store.commit([], [Put("/p/owners/a", member("a")), Put("/p/owners/b", b"not one")])
    process = made(store, monkeypatch)
    await process.start()
    try:
        assert list(process.owners) == ["a"] and "owner b is not counted" in caplog.text
        assert process._readiness() == (True, {"owners": 1}) and process.port > 0
        assert str(process.port) in "".join(process.banner())
        store.commit([], [Delete("/p/owners/a"), Delete("/p/owners/never")])
        await eventually(lambda: not process.owners)
        assert process._readiness() == (False, {"owners": 0})
    finally:
        await process.stop()


async def test_a_port_that_is_taken_leaves_nothing_behind(monkeypatch):
    first = made(MemoryStore(), monkeypatch)
    await first.start()
    second = made(MemoryStore(), monkeypatch, first.port)
    closed: list[int] = []
    close = second._metadata.close

    async def closing() -> None:
        closed.append(1)
        await close()

    monkeypatch.setattr(second._metadata, "close", closing)
    with pytest.raises(BrokerError, match=str(first.port)):
        await second.start()
    assert closed == [1]
    await first.stop()
