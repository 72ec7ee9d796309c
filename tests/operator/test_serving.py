"""The operator's own port: ready when it works or stands by, and numbers that say whose they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from broker_operator.copies.backups import State
from broker_operator.serving import Server, exposition
from broker_operator.spec.names import BROKER, Id

from tests.harness import free_ports


def operator(ready: bool = True, workloads: Any = None, backups: Any = None) -> Any:
    id = Id(BROKER, "shop", "b")
    return SimpleNamespace(
        ready=ready,
        queue=SimpleNamespace(done={(BROKER, "ok"): 3, ("Address", "error"): 1}, depth=2),
        kube=SimpleNamespace(writes={"Service": 4}),
        applier=SimpleNamespace(drifts=5),
        etcd_reconciler=SimpleNamespace(drifts=6),
        workloads=workloads,
        backups=backups,
        cache=SimpleNamespace(
            resources={id: None}, clusters={1: SimpleNamespace(known=True), 2: SimpleNamespace(known=False)}
        ),
    )


@pytest.mark.parametrize(
    ("current", "status", "text"),
    [
        ((None, False), 200, "standing by\n"),
        ((operator(False), False), 200, "standing by\n"),
        ((None, True), 503, "reading\n"),
        ((operator(False), True), 503, "reading\n"),
        ((operator(True), True), 200, "ready\n"),
    ],
)
async def test_who_stands_by_is_ready_and_who_leads_is_when_it_has_read_everything(current, status, text):
    (port,) = free_ports(1)
    server = Server(port, lambda: current)
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.get("/readyz") as answer:
                assert (answer.status, await answer.text()) == (status, text)
            async with session.get("/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
            async with session.get("/metrics") as answer:
                assert answer.content_type == "text/plain" and "stampede_operator_leader" in await answer.text()
    finally:
        await server.stop()
    await Server(port, lambda: current).stop()


def numbers(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_before_there_is_an_operator_it_is_told_who_leads():
    assert numbers(exposition(None, True)) == {"stampede_operator_leader": "1"}
    assert numbers(exposition(None, False)) == {"stampede_operator_leader": "0"}


def test_numbers_are_those_that_the_parts_counted():
    expiries = {Id("StompAcceptor", "shop", "a"): 1_800_000_000.4}
    text = exposition(operator(workloads=SimpleNamespace(certificates=SimpleNamespace(expiries=expiries))), True)
    assert numbers(text) == {
        "stampede_operator_leader": "1",
        'stampede_operator_reconcile_total{kind="Address",result="error"}': "1",
        'stampede_operator_reconcile_total{kind="StompBroker",result="ok"}': "3",
        'stampede_operator_api_writes_total{kind="Service"}': "4",
        'stampede_operator_certificate_expiry_seconds{resource_kind="StompAcceptor",resource_namespace="shop",'
        'resource_name="a"}': "1800000000",
        "stampede_operator_workqueue_depth": "2",
        "stampede_operator_resources": "1",
        "stampede_operator_drift_corrected_total": "11",
        "stampede_operator_clusters_unknown": "1",
    }
    names = {line.split("{")[0].split()[0] for line in text.splitlines() if not line.startswith("#")}
    assert all(f"# HELP {name} " in text and f"# TYPE {name} " in text for name in names)
    assert "certificate" not in exposition(operator(), True)


def test_backups_tell_whether_they_fail_and_how_old_they_are():
    states = {
        Id("StompBackup", "shop", "a"): State(False, 1_800_000_000.0),
        Id("StompBackup", "shop", "b"): State(True, None),
    }
    found = numbers(exposition(operator(backups=SimpleNamespace(states=states)), True))
    of = 'resource_namespace="shop",resource_name="'
    assert found[f'stampede_operator_backup_taken_seconds{{{of}a"}}'] == "1800000000"
    assert found[f'stampede_operator_backup_failed{{{of}a"}}'] == "0"
    assert found[f'stampede_operator_backup_failed{{{of}b"}}'] == "1"
    assert f'stampede_operator_backup_taken_seconds{{{of}b"}}' not in found
