"""A StompBackup: begun when it is due, one Job after the other, and what became of it in the status."""

from __future__ import annotations

import pytest
from broker_operator.copies.backups import LOOK_S, RETRY_S, Backups
from broker_operator.kube.kube import KubeError
from broker_operator.spec.names import BACKUP, BROKER, RUN, Id

from .copies_world import NOW_S, Site

FOLDER = "/backup/shop/nightly/2026-11-27T12-00-00Z"
METADATA = {"bytes": 10, "owners": 2, "head": "stomp-owner", "takenMs": 1_795_780_800_900}
OWNER = {"bytes": 500, "messages": 7, "takenMs": 1, "lost": 0}


def site(**spec) -> Site:
    return Site(BACKUP, Backups, **spec)


async def step(found: Site, words, type="Complete") -> None:
    """The Job that is due is made, and ends so."""
    assert await found.look() == LOOK_S
    found.end(words, type)
    await found.look()


async def complete(found: Site) -> None:
    await found.look()
    for words in (METADATA, OWNER, OWNER, {"bytes": 1000}):
        await step(found, words)


async def test_one_step_after_the_other():
    found = site()
    assert await found.look() < 1 and found.server.made == [], "what is begun stands in the status first"
    assert found.status["running"] == {"run": "2026-11-27T12-00-00Z", "startedAt": "2026-11-27T12:00:00Z",
                                       "step": "metadata", "why": "schedule"}  # fmt: skip
    lines = []
    for words in (METADATA, OWNER, OWNER, {"bytes": 1000}):
        await found.look()
        lines.append(found.command())
        found.clock.now += 5
        found.end(words)
        await found.look()
    copy = ["stampede", "backup", f"{FOLDER}/stomp-owner-%d.tar", "--data", "/var/lib/stampede", "--rate", "50"]
    assert lines == [
        ["stampede", "cluster", "backup", FOLDER, "--drop-incomplete"],
        [word.replace("%d", "0") for word in copy],
        [word.replace("%d", "1") for word in copy],
        ["stampede", "cluster", "backup", FOLDER, "--complete", "--keep", "7"],
    ]
    assert found.status["last"] == {
        "run": "2026-11-27T12-00-00Z", "takenAt": "2026-11-27T12:00:00Z", "bytes": 1000, "messages": 14, "lost": 0,
        "completedAt": "2026-11-27T12:00:20Z", "seconds": 20,
    }  # fmt: skip
    assert found.condition("Succeeded")[:2] == ("True", "Complete") and found.condition("Ready")[0] == "True"
    assert "running" not in found.status and found.status["place"] == "/backup/shop/nightly"
    assert [one["reason"] for one in found.server.events] == ["BackupComplete"]
    made = len(found.server.made)
    assert await found.look() is None and len(found.server.made) == made, "without a schedule there is one"
    assert found.reconciler.states[found.id] == (False, NOW_S)


async def test_another_operator_goes_on_where_the_first_one_ended():
    found = site()
    await found.look()
    await step(found, METADATA)
    await found.look()
    job = found.server.made[-1]["metadata"]["name"]
    found.reconciler = Backups(
        found.cache, found.server, found.statuses, found.server.objects, "stampede:1", found.clock
    )
    await found.look()
    assert found.server.made[-1]["metadata"]["name"] == job, "the Job that works is not made twice"
    found.end(OWNER)
    await found.look()
    assert found.status["running"]["step"] == "stomp-owner-1"


async def test_by_the_clock():
    found = site(schedule="0 * * * *")
    await complete(found)
    assert found.status["scheduledAt"] == "2026-11-27T12:00:00Z", "11:00 and 12:00 were missed: made up for once"
    assert await found.look() == 3600 and found.status["nextAt"] == "2026-11-27T13:00:00Z"
    found.clock.now += 3601
    await found.look()
    assert found.status["running"]["run"] == "2026-11-27T13-00-01Z"
    assert len(found.server.deleted) == 4, "Jobs of the run before, and their logs, go now"


async def test_what_failed_says_why_and_is_begun_anew():
    found = site()
    await found.look()
    await step(found, METADATA)
    await step(found, {"error": "/backup: 5 bytes are to be copied, and there is room for 3"}, "Failed")
    assert found.condition("Succeeded") == (
        "False", "Failed", "stomp-owner-0: /backup: 5 bytes are to be copied, and there is room for 3",
    )  # fmt: skip
    assert found.condition("Ready")[1] == "Failed" and found.server.events[-1]["reason"] == "BackupFailed"
    await found.look()
    assert found.reconciler.states[found.id] == (True, None)
    found.clock.now += RETRY_S - 1
    assert await found.look() == pytest.approx(1) and "running" not in found.status
    found.clock.now += 2
    await found.look()
    assert found.status["running"]["run"] == "2026-11-27T12-10-01Z" and found.status["running"]["why"] == "retry"
    for words in (METADATA, OWNER, OWNER, {"bytes": 1000}):
        await step(found, words)
    assert found.condition("Ready")[0] == "True" and "failedAt" not in found.status


async def test_asked_for_again_in_the_second_in_which_it_failed_it_waits_for_the_next_one():
    """A run is named by its second: another of that name would take the Jobs of the one that failed for its own."""
    found = site(schedule="0 2 1 1 *")

    def ask(value: str, version: str) -> None:
        raw = found.cache.resources[found.id].raw
        found.cache.put(
            {**raw, "metadata": {**raw["metadata"], "annotations": {RUN: value}, "resourceVersion": version}}
        )

    ask("1", "100000")
    await found.look()
    await step(found, {"error": "AccessDenied"}, "Failed")
    first = found.server.made[-1]["metadata"]["name"]
    ask("2", "200000")
    assert 0 < await found.look() <= 1 and "running" not in found.status and found.status["asked"] == "1"
    found.clock.now += 1
    await found.look()
    assert found.status["asked"] == "2" and found.status["running"]["run"] == "2026-11-27T12-00-01Z"
    await found.look()
    assert found.server.made[-1]["metadata"]["name"] != first


async def test_lost_bodies_make_no_failure_and_are_counted():
    found = site()
    await found.look()
    await step(found, METADATA)
    await step(found, {**OWNER, "lost": 2}, "Failed")  # exit status 3
    await step(found, OWNER)
    await step(found, {"bytes": 1000})
    assert found.status["last"]["lost"] == 2 and found.condition("Succeeded")[0] == "True"


async def test_a_pod_that_was_gone_before_it_said_how_many_owners_there_are():
    found = site()
    await found.look()
    await step(found, None)
    assert "its pod was gone" in found.condition("Succeeded")[2]


async def test_an_annotation_asks_once():
    found = site(schedule="0 2 1 1 *")
    await found.look()
    assert "running" not in found.status
    meta = found.cache.resources[found.id].raw["metadata"]
    found.cache.put({**found.cache.resources[found.id].raw, "metadata": {**meta, "annotations": {RUN: "please"},
                                                                        "resourceVersion": "100000"}})  # fmt: skip
    await complete(found)
    assert found.status["asked"] == "please" and found.status["last"]["run"]
    assert "running" not in found.status
    await found.look()
    assert "running" not in found.status


async def test_suspended_nothing_begins():
    found = site(suspend=True)
    assert await found.look() is None and "running" not in found.status


async def test_what_is_missing_is_said_before_a_pod_would_wait_for_it():
    found = site()
    found.server.objects["Other"].clear()
    await found.look()
    assert found.condition("Accepted")[1] == "ClaimMissing" and "create it" in found.condition("Accepted")[2]
    assert found.server.made == [] and "running" not in found.status
    await found.look()
    assert found.reconciler.states[found.id].failed, "the alert tells of it: no Job ever fails"
    found.server.put("PersistentVolumeClaim", "backups")
    await found.look()
    await found.look()
    assert not found.reconciler.states[found.id].failed
    found = site(schedule="0 25 * * *")
    await found.look()
    assert found.condition("Accepted")[1] == "Invalid"
    found = site()
    found.cache.drop(Id(BROKER, "shop", "stomp"))
    await found.look()
    assert found.condition("Accepted")[1] == "BrokerNotFound"


async def test_what_the_api_server_refuses_is_said():
    found = site()
    await found.look()
    found.server.refusal = KubeError(403, "exceeded quota")
    await found.look()
    assert found.condition("Accepted")[1:] == ("Refused", "exceeded quota")
    found.server.refusal = None
    assert await found.look() == LOOK_S and found.condition("Accepted")[0] == "True"


async def test_why_its_pod_waits_is_told():
    found = site()
    await found.look()
    await found.look()
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    found.server.pods[found.server.made[-1]["metadata"]["name"]] = [{"status": {"conditions": [waits]}}]
    await found.look()
    assert found.condition("Running") == ("True", "Waiting", "metadata: Unschedulable: 0/3 nodes")


async def test_the_end_of_somebody_elses_job_is_none_of_ours():
    """A StompRestore may have Jobs of the same names."""
    found = site()
    await found.look()
    await found.look()
    job = found.server.made[-1]
    found.end(METADATA)
    job = found.server.objects["Job"][Id("Job", "shop", job["metadata"]["name"])]
    job["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert await found.look() == LOOK_S
    assert found.status["running"]["step"] == "metadata" and found.condition("Running")[1] == "Waiting"
