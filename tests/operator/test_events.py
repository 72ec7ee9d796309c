"""Events: one per cause, counted instead of repeated, and nothing again after a restart."""

from __future__ import annotations

import pytest
from broker_operator.kube import events
from broker_operator.kube.events import EVERY_S, KEPT_S, NORMAL, WARNING, Events, Told
from broker_operator.kube.kube import KubeError
from broker_operator.spec.conditions import Condition, new_status
from broker_operator.spec.model import Resource
from broker_operator.spec.names import ADDRESS, BROKER, USER

from .builders import raw, resource


class Server:
    """An API server for Events, and the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.made: list[dict] = []
        self.patches: list[tuple[str, dict]] = []
        self.error = 0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    async def create(self, body):
        if self.error:
            raise KubeError(self.error, "no")
        self.made.append(body)

    async def merge(self, api_version, kind, namespace, name, patch):
        if self.error:
            raise KubeError(self.error, "no")
        self.patches.append((name, patch))


@pytest.fixture
def server():
    return Server()


class Busy(Server):
    """Fails once, as an API server whose etcd is slow."""

    async def create(self, body):
        self.error = 500 if not self.tries else 0
        self.tries += 1
        await super().create(body)

    tries = 0


async def test_a_server_that_is_busy_for_a_moment_loses_none():
    server = Busy()
    await Events(server, server).tell(raw(ADDRESS), DRIFT)
    assert len(server.made) == 1 and server.tries == 2


DRIFT = Told(NORMAL, "DriftRepaired", "x was y")


async def test_a_repetition_is_counted_in_the_first_one(server):
    told, about = Events(server, server), raw(ADDRESS)
    for _ in range(200):
        await told.tell(about, DRIFT)
        server.now += 0.5
    (made,) = server.made
    assert made["involvedObject"]["uid"] == about["metadata"]["uid"] and made["involvedObject"]["kind"] == ADDRESS
    assert len(server.patches) == 1 and server.patches[0][0] == made["metadata"]["name"]
    assert server.patches[0][1]["count"] == EVERY_S * 2 + 1


async def test_other_causes_are_other_events(server):
    told, one, other = Events(server, server), raw(ADDRESS), raw(ADDRESS)
    await told.tell(one, DRIFT, "Service a")
    await told.tell(one, DRIFT, "Service b")
    await told.tell(one, Told(WARNING, "Conflict", "z"))
    await told.tell(other, DRIFT, "Service a")
    assert len(server.made) == 4 and len({made["metadata"]["name"] for made in server.made}) == 4


async def test_an_event_that_the_server_has_dropped_is_made_anew(server):
    told, about = Events(server, server), raw(ADDRESS)
    await told.tell(about, DRIFT)
    server.now += KEPT_S + 1
    await told.tell(about, DRIFT)
    assert len(server.made) == 2
    server.now, server.error = server.now + EVERY_S + 1, 404
    await told.tell(about, DRIFT)
    server.error = 0
    await told.tell(about, DRIFT)
    assert len(server.made) == 3


async def test_a_cause_that_was_forgotten_meanwhile_is_no_failure(server):
    told, about = Events(server, server), raw(ADDRESS)
    await told.tell(about, DRIFT)
    server.now += EVERY_S + 1

    async def crowded(*_):
        told._causes.clear()
        raise KubeError(404, "no")

    server.merge = server.create = crowded
    await told.tell(about, DRIFT)
    await told.tell(about, DRIFT)


async def test_no_event_is_worth_a_failure_or_memory_without_end(server, monkeypatch):
    monkeypatch.setattr(events, "MOST", 10)
    told = Events(server, server)
    server.error = 403
    for _ in range(20):
        await told.tell(raw(ADDRESS), Told(WARNING, "Refused", "x" * 5000))
    assert len(told._causes) == 0, "what was not written is tried again when it happens again"
    server.error = 0
    for _ in range(20):
        await told.tell(raw(ADDRESS), DRIFT)
    assert len(told._causes) == 10
    server.made.clear()
    await told.tell(raw(ADDRESS), Told(WARNING, "Refused", "x" * 5000))
    assert len(server.made[0]["message"]) <= 1024


def changed(before: list[Condition], after: list[Condition], kind: str = ADDRESS, **fields: str) -> list[Told]:
    found = resource(kind)
    old = new_status(found, before, {}, 0.0)
    found = Resource({**found.raw, "status": old})
    new = new_status(found, after, fields, 0.0)
    return events.turned(found, new) if new is not None else []


REFUSED = Condition("Accepted", False, "Conflict", "other is older")
ACCEPTED = Condition("Accepted", True, "Accepted")


def test_what_is_refused_is_told_when_it_turns():
    assert changed([], [REFUSED]) == [Told(WARNING, "Conflict", "other is older")]
    assert changed([REFUSED], [REFUSED, Condition("Ready", False, "Conflict")]) == []
    assert changed([REFUSED], [REFUSED._replace(message="third is older")])[0].message == "third is older"
    assert [one.reason for one in changed([REFUSED], [ACCEPTED])] == ["Accepted"]
    assert changed([], [ACCEPTED]) == changed([Condition("Accepted", None, "EtcdUnreachable")], [ACCEPTED]) == []


def test_scale_in_is_told_by_its_steps_not_by_its_progress():
    def step(reason: str, message: str = "") -> list[Condition]:
        return [Condition("ScalingDown", reason != "Idle", reason, message)]

    assert changed(step("Idle"), step("Cordoned", "256 copies"), BROKER)[0].reason == "OwnersCordoned"
    assert changed(step("Moving", "256 copies"), step("Moving", "12 copies"), BROKER) == []
    assert changed(step("Removing"), step("Idle"), BROKER)[0].reason == "OwnersRemoved"
    assert changed([], step("Idle"), BROKER) == []
    assert changed(step("Moving"), step("Unreachable"), BROKER)[0].type == WARNING


def test_a_rotation_is_told_and_the_first_passcode_is_none():
    found = resource(USER)
    first = new_status(found, [ACCEPTED], {"lastRotated": "2026-01-01T00:00:00Z"}, 0.0)
    assert first is not None and events.turned(found, first) == []
    found = Resource({**found.raw, "status": first})
    fields = {"lastRotated": "2026-02-01T00:00:00Z", "graceUntil": "2026-02-01T00:10:00Z"}
    second = new_status(found, [ACCEPTED], fields, 0.0)
    assert second is not None
    (told,) = events.turned(found, second)
    assert told.reason == "PasscodeRotated" and "2026-02-01T00:10:00Z" in told.message


def test_certificates_and_etcd():
    valid, soon = Condition("CertificatesValid", True, "Valid"), Condition("CertificatesValid", False, "ExpiresSoon")
    assert changed([valid], [soon])[0].reason == "CertificateExpiresSoon"
    there, gone = Condition("EtcdReachable", True, "Reachable"), Condition("EtcdReachable", False, "Unreachable", "x")
    assert changed([there], [gone], BROKER) == [Told(WARNING, "EtcdUnreachable", "x")]
    assert changed([], [gone], BROKER) == []  # a broker that has just been made


def busy(**fields: object) -> dict:
    return {"depth": 3, "deadLettered": 0, "blocked": False, **fields}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, busy(), []),
        ({}, busy(blocked=True), ["Blocked"]),
        ({}, busy(deadLettered=5), []),
        (busy(), busy(depth=9), []),
        (busy(), busy(blocked=True), ["Blocked"]),
        (busy(blocked=True), busy(), ["Unblocked"]),
        (busy(), busy(deadLettered=2), ["DeadLetters"]),
        (busy(deadLettered=2), busy(deadLettered=2), []),
    ],
)
def test_an_address_that_is_full_and_dead_letters_that_grow_are_told_once(before, after, told):
    one = resource(ADDRESS)
    one.raw["status"] = before
    assert [each.reason for each in events.turned(Resource(one.raw), after)] == told
