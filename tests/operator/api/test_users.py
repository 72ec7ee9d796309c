"""StompUsers: passcodes, their rotation and the Secrets that they stand in."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from broker_operator.spec.names import API_VERSION, BROKER, USER

from broker.seams.clock import SystemClock
from broker.seams.entropy import token
from broker.seams.passcodes import hash_passcode, verify

from .world import NAMESPACE, Table, World, empty, events_of, operating

pytestmark = pytest.mark.timeout(400)

GRACE_S = 3600


class Ahead(SystemClock):
    """A wall clock that can be put forward."""

    by_s = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self.by_s * 1000)


async def test_a_user_gets_a_passcode_and_its_rotation_has_a_grace(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    async with operating(world) as operator:
        operator.etcd_reconciler._clock = clock = Ahead()
        await world.make(USER, "ada", groups=["admins"], rotationGraceSeconds=GRACE_S)
        await world.becomes(USER, "ada", "Ready", "Ready")
        first = await passcode(world)
        entry = (await world.pods.config())["users/ada"]
        assert verify(entry["hash"], first) and entry["groups"] == ["admins"] and "previous" not in entry
        await world.kube.merge(API_VERSION, USER, NAMESPACE, "ada", {"spec": {"generate": {"rotation": "2"}}})

        async def rotated() -> bool:
            return "previous" in (await world.pods.config())["users/ada"]

        await world.until(rotated)
        entry, second = (await world.pods.config())["users/ada"], await passcode(world)
        assert first != second and verify(entry["hash"], second)
        (told,) = await world.until(lambda: events_of(world, "ada", "PasscodeRotated"))
        assert "the one before works until 20" in told["message"]
        assert verify(entry["previous"][0], first)

        async def over() -> bool:
            return not await rotated()

        # Nobody can be quick enough to see a short grace for certain, so time is; then it ends without an event.
        clock.by_s = GRACE_S - 5.0
        await world.kube.merge(API_VERSION, USER, NAMESPACE, "ada", {"metadata": {"annotations": {"look": "again"}}})
        await world.until(over)
        # A passcode that somebody set past the operator does not last.
        foreign = {"hash": hash_passcode("guessed"), "groups": []}
        await world.pods.metadata.put(world.pods.keys.user("ada"), json.dumps(foreign).encode())

        async def repaired() -> bool:
            found = (await world.pods.config())["users/ada"]
            return verify(found["hash"], second) and "previous" not in found

        await world.until(repaired)
        (told,) = await world.until(lambda: events_of(world, "ada", "DriftRepaired"))
        assert "the passcode of ada" in told["message"] and foreign["hash"] not in told["message"]
        await world.kube.merge(API_VERSION, USER, NAMESPACE, "ada", {"spec": {"suspended": True}})
        await world.until(lambda: empty(world))
        # Nor does one that somebody sets for a user that is suspended, without a marker of ours.
        await world.pods.metadata.put(world.pods.keys.user("ada"), json.dumps(foreign).encode())
        await world.until(lambda: empty(world))


async def passcode(world: World) -> str:
    secret = await world.get("Secret", "ada-stomp", "v1")
    assert b64decode(secret["data"]["username"]) == b"ada"
    return b64decode(secret["data"]["password"]).decode()


async def test_a_secret_of_somebody_else_is_a_condition_and_its_change_a_rotation(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    name = f"s-{token(3)}"
    async with operating(world):
        await world.make(USER, "bob", passwordSecretRef={"name": name, "key": "pw"})
        await world.becomes(USER, "bob", "Accepted", "NoPasscode")
        secret: Table = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {"pw": "one"},
        }  # fmt: skip
        secret = await world.kube.create(secret)
        world.made.append(secret)
        await world.becomes(USER, "bob", "Ready", "Ready")
        await world.kube.merge("v1", "Secret", NAMESPACE, name, {"stringData": {"pw": "two"}})

        async def rotated() -> bool:
            return verify((await world.pods.config())["users/bob"]["hash"], "two")

        await world.until(rotated)
