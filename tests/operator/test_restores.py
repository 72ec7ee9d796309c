"""A StompRestore: only into a broker that waits for it and has no owners, one disk after the other."""

from __future__ import annotations

import pytest
from broker_operator.copies.backups import LOOK_S
from broker_operator.copies.restores import RETRY_S, Restores
from broker_operator.spec.names import BACKUP, RESTORE, Id

from .builders import raw
from .copies_world import Site

WORDS = {"run": "2026-11-26T02-00-00Z", "owners": 2, "head": "old-owner", "takenMs": 1_795_694_400_900, "bytes": 9}
DISK = {"bytes": 500, "messages": 7, "takenMs": 1, "lost": 0}
FOLDER = "/backup/shop/nightly"


def site(asks: str = "monday", **spec) -> Site:
    broker = {"restoreFrom": {"name": asks}, "owners": {"replicas": 2, "storage": {"size": "5Gi"}}}
    found = Site(RESTORE, Restores, broker=broker, **spec)
    found.cache.put(raw(BACKUP))
    found.server.put("StatefulSet", "stomp-owner", spec={"replicas": 0})
    return found


async def step(found: Site, words, type="Complete") -> None:
    assert await found.look() == LOOK_S
    found.end(words, type)
    await found.look()


async def test_metadata_first_then_one_disk_after_the_other():
    found, lines = site(), []
    for words in (WORDS, DISK, DISK):
        await found.look()
        lines.append(found.command())
        found.end(words)
        await found.look()
    run = f"{FOLDER}/2026-11-26T02-00-00Z"
    assert lines == [
        ["stampede", "cluster", "restore", FOLDER, "--latest", "--owners", "stomp-owner-0,stomp-owner-1"],
        *(["stampede", "restore", f"{run}/old-owner-{n}.tar", "--data", "/var/lib/stampede", "--whole-cluster",
           "--unless-restored"] for n in range(2)),
    ]  # fmt: skip
    claims = [one for one in found.server.made if one["kind"] == "PersistentVolumeClaim"]
    assert [one["metadata"]["name"] for one in claims] == ["data-stomp-owner-0", "data-stomp-owner-1"]
    assert claims[0]["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert "ownerReferences" not in claims[0]["metadata"], "messages do not go with the StompRestore"
    assert found.status["restored"] == {"run": "2026-11-26T02-00-00Z", "takenAt": "2026-11-26T12:00:00Z", "bytes": 1000,
                                        "messages": 14, "lost": 0}  # fmt: skip
    assert found.condition("Complete")[:2] == ("True", "Complete") and found.cache.restoring(found.broker) == ""
    made = len(found.server.made)
    assert await found.look() is None and len(found.server.made) == made


async def test_a_run_that_is_named_and_a_store_of_another_cluster():
    source = {"store": {"bucket": {"url": "s3://b/"}}, "folder": "mq/hourly", "run": "r1"}
    found = site(source=source)
    await found.look()
    assert found.command()[3:5] == ["s3://b/mq/hourly/r1", "--owners"]


async def test_owners_wait_for_it():
    found = site()
    assert "not begun" in found.cache.restoring(found.broker)
    await found.look()
    assert "Running metadata" in found.cache.restoring(found.broker)
    found = site(asks="other")
    assert "there is no StompRestore other" in found.cache.restoring(found.broker)


@pytest.mark.parametrize("live", [{"spec": {"replicas": 3}}, {"spec": {"replicas": 0}, "status": {"replicas": 1}}])
async def test_a_broker_whose_owners_run_is_left_alone(live):
    found = site()
    found.server.put("StatefulSet", "stomp-owner", **live)
    await found.look()
    assert found.condition("Accepted")[1] == "OwnersRun" and found.server.made == []


async def test_a_broker_that_did_not_ask_is_left_alone():
    found = site(asks="other")
    await found.look()
    assert found.condition("Accepted")[1] == "NotAskedFor" and found.server.made == []


async def test_what_is_missing_is_said():
    found = site(source={"backupRef": {"name": "none"}})
    await found.look()
    assert found.condition("Accepted")[1] == "BackupNotFound"
    found = site()
    found.server.objects["Other"].clear()
    await found.look()
    assert found.condition("Complete")[1] == "ClaimMissing"
    found = site()
    found.server.objects["StatefulSet"].clear()
    await found.look()
    assert found.condition("Complete")[1] == "Waiting"


async def test_what_failed_is_said_and_tried_again():
    found = site()
    await step(found, {"error": "the backup is of 5 owners and this cluster has 2: begin with 5"}, "Failed")
    assert found.condition("Complete") == (
        "False", "Failed", "metadata: the backup is of 5 owners and this cluster has 2: begin with 5",
    )  # fmt: skip
    assert found.server.deleted == []
    found.clock.now += RETRY_S + 1
    await found.look()
    assert found.server.deleted == ["monday-metadata"]
    assert await found.look() == LOOK_S and found.condition("Complete")[1] == "Running"


async def test_what_jobs_of_another_one_of_this_name_did_does_not_count():
    """A StompRestore that is deleted and made anew at once: the Jobs of the first one are there for a while."""
    found = site()
    await found.look()
    found.end(WORDS)
    job = found.server.objects["Job"][Id("Job", "shop", "monday-metadata")]
    job["metadata"]["ownerReferences"][0]["uid"] = "before"
    assert await found.look() == LOOK_S and "restored" not in found.status
    assert found.condition("Complete")[1] == "Waiting" and "monday-metadata" in found.condition("Complete")[2]
    await found.server.delete(job)
    made = len(found.server.made)
    await found.look()
    assert found.server.made[made]["metadata"]["name"] == "monday-metadata" and found.status["step"] == "metadata"
