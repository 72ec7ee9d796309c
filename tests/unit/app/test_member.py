"""How a process joins a cluster, and the addresses at which it tells others that it is reached."""

from __future__ import annotations

import asyncio
import socket

import pytest

from broker.app.member import ClusterProcess, advertised, advertised_admin
from broker.cluster.keys import Keys
from broker.cluster.slots import SlotTable
from broker.config.load import from_tree
from broker.config.settings import Settings
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually


def settings(**values: object) -> Settings:
    return from_tree({name.replace("__", "."): value for name, value in values.items()}, "here")


@pytest.mark.parametrize(
    ("host", "told"), [("10.0.0.1", "10.0.0.1:7"), ("fd00::1", "[fd00::1]:7"), ("[fd00::1]", "[fd00::1]:7")]
)
def test_an_address_of_ipv6_stands_in_brackets(host: str, told: str) -> None:
    assert advertised(settings(cluster__host=host), 7) == told
    assert advertised_admin(settings(admin__host=host, admin__port=7)) == told


def test_a_port_that_listens_everywhere_is_told_by_a_name_that_others_know() -> None:
    everywhere = {"admin__host": "::", "admin__port": 7}
    assert advertised_admin(settings(**everywhere)) == f"{socket.gethostname()}:7"
    assert advertised_admin(settings(**everywhere, cluster__advertise="[fd00::1]:5")) == "[fd00::1]:7"
    assert advertised_admin(settings(admin__port=-1)) == ""


class Joining(ClusterProcess):
    """An owner "o1" that joins over a store in memory, while the lease of its former life (disk "old") still runs."""

    kind = "owner"

    def __init__(self) -> None:
        super().__init__(settings(cluster__id="o1"))
        self.store = MemoryStore()
        self.metadata = MemoryMetadata(self.store)
        self.keys = Keys("/test")
        self.table = SlotTable(self.metadata, self.keys)
        self.former, _ = self.store.grant(60)
        before = Member("o1", "owner", "host:1", "former boot", "old", lease=self.former)
        self.store.commit([], [
            Put(self.keys.member("owner", "o1"), before.encode(), self.former),
            Put(self.keys.disk("o1"), b"old"),
            Put(self.keys.slot(7), SlotRecord(7, 3, "o2", ("o1", "o2", "o3"), ("o1", "o2", "o3")).encode()),
        ])  # fmt: skip
        self.heard: list[bool] = []
        """For each record the owner would act upon: is it a replica that counts."""
        self.table.listen(lambda slot, record: self.heard.append(record is not None and "o1" in record.isr))

    async def begin(self, disk: str) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self.join("host:2", "", disk))
        await eventually(lambda: hasattr(self, "membership") and self.membership.owners)  # it waits for its name
        await asyncio.sleep(0.05)
        return task


async def test_an_owner_with_another_disk_follows_nothing_before_it_has_struck_itself_out() -> None:
    """Else it is counted on while the lease of its former life runs out, and then struck out with what it was given."""
    process = Joining()
    joining = await process.begin("new")
    assert process.heard == []
    process.store.revoke(process.former)
    await joining
    assert process.heard and not any(process.heard)
    assert process.store.keys[process.keys.disk("o1")].value == b"new"
    await process.leave()


async def test_an_owner_with_the_same_disk_follows_at_once() -> None:
    """It has what it had: no slot waits for the end of a lease."""
    process = Joining()
    joining = await process.begin("old")
    assert process.heard == [True]
    process.store.revoke(process.former)
    await joining
    assert all(process.heard)
    await process.leave()
