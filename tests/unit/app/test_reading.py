"""Who reads the log, and where its slots are, standalone and in an owner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.app.live.reading import Here, Logins, OwnerReads, Replicated
from broker.cluster.config import UserEntry
from broker.config.settings import ClusterSettings, EdgeSettings, EngineSettings, LogReadsSettings, Settings
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of, slots_of
from broker.core.slots import Member, SlotRecord
from broker.edge.access.auth import ANONYMOUS, Principal
from broker.edge.rights.permissions import Permissions
from tests.unit.journal.support import open_journal, put, sent


class Auth:
    """known: passcode → what try_now() knows of it."""

    def __init__(self, **known: Principal) -> None:
        self.known = known
        self.asked: list[tuple[Any, ...]] = []

    def try_now(self, login: str | None, passcode: str | None, peer: str = "") -> Principal | None:
        return self.known.get(passcode or "")

    async def authenticate(self, login: str | None, passcode: str | None, channel: Any) -> Principal:
        self.asked.append((login, passcode, channel.peer))
        return Principal(login or "anonymous")


# ── who ──────────────────────────────────────────────────────────────────────────────────────────────


TABLE = {"#": {"read": "ops"}, "open.#": {"read": "*"}}


def logins(auth: Auth, table: Any = None, **groups: tuple[str, ...]) -> Logins:
    permissions = Permissions(TABLE if table is None else table)
    return Logins(auth, lambda user: permissions.rights(groups.get(user, ())))  # type: ignore[arg-type]


async def test_who_may_is_whom_permissions_name():
    reader = await logins(Auth(), ada=("ops",))("ada", "x", "10.0.0.7")
    assert reader.may("orders") and reader.may("open.x") and reader.may("#")
    reader = await logins(Auth())("bob", "x", "10.0.0.7")
    assert reader.may("open.x") and not reader.may("orders") and not reader.may("#")


async def test_of_an_address_that_nobody_knows_any_more_nothing_is_anybodys():
    assert not (await logins(Auth(), ada=("ops",))("ada", "x", "10.0.0.7")).may("")


async def test_without_permissions_everybody_reads_everything():
    reader = await logins(Auth(), {})("bob", "x", "10.0.0.7")
    assert reader.may("orders") and reader.may("")


async def test_a_passcode_that_was_right_a_moment_ago_is_not_checked_again():
    auth = Auth(known=Principal("ada"))
    reads = logins(auth, ada=("ops",))
    assert (await reads("ada", "known", "10.0.0.7")).may("orders") and auth.asked == []
    await reads("ada", "new", "10.0.0.7")
    assert auth.asked == [("ada", "new", "10.0.0.7")], "and where it comes from counts for those who guess"


async def test_users_of_a_virtual_host_are_clients_alone():
    auth = Auth()
    with pytest.raises(RefusedError) as caught:
        await logins(auth)("$host/shop.ada", "x", "10.0.0.7")
    assert caught.value.code is Code.LOGIN_FAILED and auth.asked == []


# ── where, alone ─────────────────────────────────────────────────────────────────────────────────────


class Shard:
    """names: address → (queue id, queue name) that its engine has."""

    def __init__(self, settings: EngineSettings, **names: tuple[int, str]) -> None:
        self.settings = Settings(engine=settings)
        self.engines: dict[int, Any] = {}
        for address, (number, name) in names.items():
            queues = {number: SimpleNamespace(id=number, name=name, address=address)}
            self.engines[slot_of(address)] = SimpleNamespace(
                shown=SimpleNamespace(addresses={address: None}, queues=queues)
            )


SETTINGS = EngineSettings(
    addresses={"split": {"partitions": 3}, "told": {"record_deliveries": True}, "work": {"dead_letter_address": "DLQ"}}
)


@pytest.fixture
def here() -> Here:
    journal = open_journal()
    put(journal, sent(1, b"x", slot=5))
    return Here(Shard(SETTINGS, orders=(4, "q")), journal)  # type: ignore[arg-type]


def test_all_slots_are_here(here):
    assert {here.elsewhere(slot) for slot in range(256)} == {None} == {here.behind(slot) for slot in range(256)}
    assert (here.endpoint(), here.endpoints(), here.end(5)) == ("", [], 2)


def test_slots_are_those_of_the_settings_of_now(here):
    """A live change may have given an address more partitions."""
    assert list(here.slots_of("split")) == list(slots_of("split", 3)) and len(list(here.slots_of("orders"))) == 1
    assert here.records_deliveries("told") and not here.records_deliveries("orders")
    here._shard.settings = Settings(engine=EngineSettings(addresses={"split": {"partitions": 5}}))
    assert list(here.slots_of("split")) == list(slots_of("split", 5)) and not here.records_deliveries("told")


def test_settings_are_read_once_and_not_once_a_name(here):
    assert here._match() is here._match()


@pytest.mark.parametrize(("name", "known"), [("split", True), ("DLQ", True), ("orders", True), ("nobody", False)])
def test_an_address_is_known_that_is_there_or_may_come_to_be(here, name, known):
    assert here.knows(name) is known


def test_queues_have_names_where_there_is_an_engine(here):
    slot = slot_of("orders")
    assert here.queue(slot, 4) == ("q", "orders") and here.queue(slot, 5) is here.queue(slot ^ 1, 4) is None
    assert here.queue_numbers(slot) == [4] and here.queue_numbers(slot ^ 1) == []


# ── where, in an owner ───────────────────────────────────────────────────────────────────────────────


def member(name: str, reads: str) -> Member:
    return Member(name, "owner", "", "", reads=reads)


class Cluster:
    """We are `me`. Slot 5: led by us; 6: followed; 7: another's; 8: nobody's."""

    def __init__(self) -> None:
        self.counts: dict[int, int | None] = {5: 1, 6: 0}
        self.me = member("me", "me:1")
        self.owners = {"me": self.me, "you": member("you", "you:1"), "mute": member("mute", "")}
        self.isr: tuple[str, ...] = ("you", "me")
        self.records = {5: self.record(5, "me"), 6: self.record(6, "you"), 7: self.record(7, "you")}
        self.records[8] = self.record(8, "")
        self.journal = open_journal()
        put(self.journal, sent(1, b"x", slot=5), sent(2, b"x", slot=5), sent(1, b"x", slot=6), sent(2, b"x", slot=6))

    def record(self, slot: int, leader: str) -> SlotRecord:
        return SlotRecord(slot, 1, leader, ("me", "you"), self.isr)

    def leads(self, slot: int) -> bool:
        return slot == 5

    def known(self, slot: int) -> bool:
        return slot == 6

    def counted(self, slot: int) -> int | None:
        return self.counts.get(slot)

    def engine(self, slot: int) -> Any:
        queues = {1: SimpleNamespace(id=1, name="followed", address="a")}
        return SimpleNamespace(shown=SimpleNamespace(queues=queues)) if slot == 6 else None


@pytest.fixture
def owner() -> Any:
    cluster: Any = Cluster()
    cluster.place = Replicated(Shard(SETTINGS), cluster.journal, cluster, cluster, cluster)  # type: ignore[arg-type]
    cluster.place.membership = cluster
    return cluster


def test_each_slot_is_at_its_leader(owner):
    found = {slot: owner.place.elsewhere(slot) for slot in (5, 6, 7, 8, 9)}
    assert found == {5: None, 6: "you:1", 7: "you:1", 8: "", 9: ""}
    owner.records[7] = owner.record(7, "me")
    assert owner.place.elsewhere(7) == "", "we do not lead it yet: to ask us again at once would be in vain"
    owner.records[7] = owner.record(7, "gone")
    assert owner.place.elsewhere(7) == ""


def test_before_it_has_joined_it_knows_nothing(owner):
    owner.place.membership = None
    assert (owner.place.elsewhere(5), owner.place.behind(6)) == ("", None)
    assert (owner.place.endpoint(), owner.place.endpoints()) == ("", [])


def test_what_is_followed_is_read_when_it_is_in_sync_and_knows_what_counts(owner):
    assert owner.place.behind(6) == "" and owner.place.behind(7) is None and owner.place.behind(9) is None
    owner.counts[6] = None
    assert "not said yet" in owner.place.behind(6)
    owner.isr = ("you",)
    owner.records[6] = owner.record(6, "you")
    assert "not in sync" in owner.place.behind(6)


def test_only_what_counts_is_told(owner):
    """Two items of each are in the journal."""
    assert owner.place.end(5) == 2, "one counts"
    owner.counts[5] = 2
    assert owner.place.end(5) == 3
    assert owner.place.end(6) == 1
    owner.counts[6] = 9
    assert owner.place.end(6) == 3, "its leader counts more than has come"
    owner.counts[6] = None
    assert owner.place.end(6) == 1


def test_marks_go_to_all_owners_that_can_be_read(owner):
    assert owner.place.endpoint() == "me:1" and owner.place.endpoints() == ["me:1", "you:1"]


def test_queues_of_a_slot_that_is_followed_have_names_too(owner):
    assert owner.place.queue(6, 1) == ("followed", "a") and owner.place.queue(6, 2) is owner.place.queue(7, 1) is None
    assert owner.place.queue_numbers(6) == [1] and owner.place.queue_numbers(7) == []
    assert owner.place.slots_of("orders") and not owner.place.knows("nobody")
    assert owner.place.records_deliveries("told")


# ── an owner's service ───────────────────────────────────────────────────────────────────────────────


def reads(cluster: Any, host: str) -> OwnerReads:
    settings = Settings(log_reads=LogReadsSettings(host=host), cluster=ClusterSettings(host="127.0.0.1"))
    return OwnerReads(settings, Shard(SETTINGS), cluster.journal, cluster, cluster, cluster)  # type: ignore[arg-type]


ADA = {"ada": UserEntry("$argon2id$x", ("ops",))}


@pytest.fixture
async def service(owner):
    made: list[OwnerReads] = []

    def make(host: str) -> OwnerReads:
        made.append(reads(owner, host))
        return made[-1]

    make.cluster = owner
    yield make
    for each in made:
        await each.stop()


@pytest.mark.parametrize(
    ("host", "users", "opened"),
    [("127.0.0.1", {}, True), ("0.0.0.0", {}, False), ("127.0.0.1", ADA, False), ("", {}, True)],
)
async def test_without_users_it_is_open_to_this_machine_alone(service, host, users, opened):
    """And to nobody before the owner has joined."""
    it = service(host)
    it.on_users(users)
    assert it._logins.auth.has_users
    it.joined(service.cluster)
    assert it._logins.auth is it._auth and it._auth.has_users is not opened
    if opened:
        assert (await it._logins(None, None, "127.0.0.1")).may("orders")
        assert it._auth.try_now(None, None) == ANONYMOUS


async def test_the_last_user_who_goes_opens_nothing(service):
    it = service("127.0.0.1")
    it.on_users(ADA)
    it.joined(service.cluster)
    it.on_users({})
    assert it._auth.has_users and it._auth.try_now(None, None) is None


async def test_users_and_permissions_are_those_of_now(service):
    it = service("0.0.0.0")
    it.on_users(ADA)
    it.joined(service.cluster)
    assert it._rights("ada") is None
    it.on_permissions(TABLE)
    rights = it._rights("ada")
    assert rights is not None and rights.against("read", "orders") is None
    it.on_users({"ada": UserEntry("$argon2id$x", ("guests",))})
    rights = it._rights("ada")
    assert rights is not None and rights.against("read", "orders") == "#"


async def test_permissions_of_the_config_file_count_before_the_store_has_any(owner: Any) -> None:
    """The store is heard of when it has an entry: until then everything was open to whoever could log in."""
    edge = EdgeSettings(permissions={"#": {"read": "auditors"}})
    settings = Settings(
        log_reads=LogReadsSettings(host="127.0.0.1"), cluster=ClusterSettings(host="127.0.0.1"), edge=edge
    )
    it = OwnerReads(settings, Shard(SETTINGS), owner.journal, owner, owner, owner)  # type: ignore[arg-type]
    it.on_users(ADA)
    rights = it._rights("ada")
    assert rights is not None and rights.against("read", "orders") == "#"
