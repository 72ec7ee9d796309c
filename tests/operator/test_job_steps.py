"""The Job of a step: found before informers know of it, and never mistaken for somebody else's of the same name."""

from __future__ import annotations

from broker_operator.copies.job_steps import JobSteps, kept_fields, not_ours
from broker_operator.spec.names import BACKUP, Id

from .builders import resource
from .copies_world import Clock, Server

JOB = Id("Job", "shop", "nightly-1")


def steps(server: Server, known: dict) -> JobSteps:
    return JobSteps(None, server, None, {"Job": known}, "stampede:1", Clock())  # type: ignore[arg-type]


async def test_a_job_that_no_informer_has_heard_of_is_asked_for():
    server = Server()
    assert await steps(server, {})._job(JOB) is None
    server.put("Job", "nightly-1")
    found = server.objects["Job"][JOB]
    assert await steps(server, {})._job(JOB) is found
    assert await steps(Server(), {JOB: found})._job(JOB) is found, "what is known is not asked for"


async def test_its_pods_are_those_that_bear_its_name():
    server = Server()
    server.pods = {"nightly-1": [{"a": 1}], "nightly-2": [{"b": 2}]}
    assert await steps(server, {})._pods(JOB) == [{"a": 1}]


def test_a_job_of_somebody_else_says_nothing():
    backup = resource(BACKUP, "nightly")
    owner = {"kind": BACKUP, "name": "nightly", "uid": backup.uid, "controller": True}
    ours = {"metadata": {"name": "nightly-1", "ownerReferences": [owner]}}
    assert not_ours(ours, backup) == ""
    for references in ([], [owner | {"uid": "another"}]):
        why = not_ours({"metadata": {"name": "nightly-1", "ownerReferences": references}}, backup)
        assert why == "Job nightly-1 belongs to something else; if it does not go by itself, delete it"


def test_conditions_are_not_among_the_fields_that_are_kept():
    backup = resource(BACKUP, "nightly")
    backup.raw["status"] = {"step": "metadata", "conditions": [{"type": "Ready"}], "observedGeneration": 4}
    assert kept_fields(backup) == {"step": "metadata"}
