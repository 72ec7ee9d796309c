"""The API of an edge answers and acts for the whole cluster; a partial answer says who is missing."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from broker.client import ServerError, connect
from tests.harness.cluster import HOST, Cluster, Process
from tests.harness.waiting import PATIENCE_S

SETTINGS = {"cluster.lease_s": 8, "cluster.dead_after_ms": 10_000}


def call(edge: Process, method: str, path: str, body: dict | None = None, token: str = "") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(
        f"http://{HOST}:{edge.admin_port}/api/v1{path}", method=method, headers=headers,
        data=None if body is None else json.dumps(body).encode(),
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def done(edge: Process, method: str, path: str, body: dict | None = None) -> Any:
    """As a client does it: 503 says that a slot is being taken over, and to ask again."""
    end = time.monotonic() + PATIENCE_S
    while (answer := call(edge, method, path, body))[0] == 503 and time.monotonic() < end:
        time.sleep(0.1)
    status, told = answer
    assert status < 300, told
    return told


def bodies(edge: Process, queue: str) -> list[str]:
    return [row["body"] for row in done(edge, "GET", f"/queues/{queue}/messages?limit=200")["items"]]


async def test_an_edge_answers_and_acts_for_all_owners(shared: Cluster):
    one, other = shared.edges
    names = [f"api.{n}" for n in range(12)]  # of all three owners
    for name in names:
        done(one, "POST", "/queues", {"address": name})
    async with connect(f"stomp://{HOST}:{one.port}") as client:
        for name in names:
            for n in range(3):
                await client.send(name, f"{n}", {"destination-type": "ANYCAST", "persistent": "true"}, receipt=True)
        async with client.subscribe(names[0], ack="client-individual", prefetch=1) as subscription:
            await anext(aiter(subscription))
            page = done(other, "GET", "/queues?q=api.&limit=5&sort=-messages")
            assert page["total"] == 12 and len(page["items"]) == 5 and page["missing"] == []
            seen = {row["name"] for row in page["items"]}
            while page["next"]:
                page = done(other, "GET", f"/queues?q=api.&limit=5&sort=-messages&page={page['next']}")
                assert not seen & {row["name"] for row in page["items"]}
                seen |= {row["name"] for row in page["items"]}
            assert seen == set(names)
            (part,) = done(other, "GET", f"/queues/{names[0]}")["parts"]
            assert "window is full" in part["why"][0]
        assert bodies(other, names[1]) == ["0", "1", "2"]
        assert done(one, "POST", f"/queues/{names[1]}/move", {"to": names[2]})["done"] == 3
        assert bodies(other, names[2]) == ["0", "1", "2"] * 2
        assert done(other, "POST", f"/queues/{names[3]}/purge")["done"] == 3
        done(other, "POST", f"/queues/{names[4]}/pause")
        assert done(one, "GET", f"/queues/{names[4]}")["parts"][0]["paused"]
        done(one, "DELETE", f"/queues/{names[5]}")
        assert call(other, "GET", f"/queues/{names[5]}")[0] == 404
        assert done(one, "GET", "/overview")["messaging"]["slots"] == 256
        for edge in (one, other):
            told = done(edge, "GET", "/connections")
            (mine,) = told["items"]
            assert (mine["edge"], mine["state"], told["missing"]) == (one.id, "open", []), "whichever edge is asked"
        assert done(other, "GET", "/overview")["clients"]["connections"] == 1


async def test_a_client_of_another_edge_is_seen_and_disconnected(shared: Cluster):
    one, other = shared.edges
    with pytest.raises(ServerError, match="operator"):
        async with (
            connect(f"stomp://{HOST}:{one.port}") as client,
            client.subscribe("seen", ack="client-individual") as subscription,
        ):
            await client.send("seen", "x", receipt=True)
            await anext(aiter(subscription))
            (row,) = done(other, "GET", "/connections")["items"]
            path = f"/connections/{row['id']}"
            assert call(other, "GET", path)[0] == 404, "none of its own"
            told = done(other, "GET", f"{path}?edge={one.id}")
            (consumer,) = told["consumers"]
            assert (consumer["queue"], consumer["session"], consumer["edge"]) == ("seen", row["id"], one.id)
            (same,) = done(one, "GET", "/queues/seen/consumers")["items"]
            assert same == consumer
            assert call(other, "GET", f"{path}?edge=nobody")[0] == 404
            done(other, "DELETE", f"{path}?edge={one.id}")
            Cluster.wait(
                lambda: done(one, "GET", "/connections")["total"] == 0, PATIENCE_S, lambda: "it is still connected"
            )


def test_what_was_done_at_one_edge_is_in_the_audit_log_of_the_other(shared: Cluster):
    one, other = shared.edges
    for edge, name in ((one, "noted.one"), (other, "noted.other")):
        done(edge, "POST", "/queues", {"address": name})
    for edge in (one, other):
        told = done(edge, "GET", "/audit?q=noted.&limit=10")
        assert told["missing"] == []
        # One that was refused, since its slot was being taken over, has a line of its own, and done() has asked again.
        carried_out = [row for row in told["items"] if row["outcome"] == "done"]
        assert [(row["edge"], row["more"]["name"]) for row in carried_out] == [
            (other.id, '"noted.other"'), (one.id, '"noted.one"'),
        ]  # fmt: skip
        rows = done(edge, "GET", f"/audit?q=noted.&edge={one.id}")["items"]
        assert {row["edge"] for row in rows} == {one.id}
        assert [row["more"]["name"] for row in rows if row["outcome"] == "done"] == ['"noted.one"']
    assert call(one, "GET", "/audit?edge=nobody")[0] == 404


def test_the_map_of_the_cluster(shared: Cluster):
    edge = shared.edges[0]
    nodes = {row["name"]: row for row in done(edge, "GET", "/nodes")["items"]}
    assert {owner.id for owner in shared.owners} <= set(nodes)
    slots = done(edge, "GET", "/slots")["items"]
    assert len(slots) == 256 and all(row["leader"] in nodes for row in slots)
    record = next(row for row in slots if len(row["in_sync"]) > 1)
    other = next(name for name in record["in_sync"] if name != record["leader"])
    done(edge, "POST", f"/slots/{record['slot']}/move", {"to": other})

    def led() -> bool:
        return shared.records()[record["slot"]]["leader"] == other

    Cluster.wait(led, PATIENCE_S, lambda: str(shared.records()[record["slot"]]))
    assert call(edge, "POST", "/nodes/nobody/drain")[0] == 409


def test_settings_are_changed_for_the_whole_cluster(shared: Cluster):
    """In use everywhere when it is answered: the other edge takes no message behind it."""
    one, other = shared.edges
    told = done(one, "PATCH", "/config/addresses/changed", {"values": {"max_delivery_attempts": 2}})
    assert told["values"] == {"max_delivery_attempts": 2} and told["missing"] == []
    (row,) = done(other, "GET", "/config?table=addresses&q=changed")["items"]
    assert row["source"] == "live" and row["values"] == {"max_delivery_attempts": 2}
    told = done(other, "PATCH", "/config/queues/changed", {"values": {"ring_size": 2}})
    assert told["missing"] == []
    for n in range(3):
        done(one, "POST", "/addresses/changed/messages", {"body": str(n)})
    assert bodies(other, "changed") == ["1", "2"]
    status, told = call(one, "PATCH", "/config/queues/changed", {"values": {"selector": "a ="}})
    assert status == 409 and "Invalid selector" in told["detail"]
    assert done(one, "DELETE", "/config/addresses/changed")["exists"] is False
    assert call(other, "DELETE", "/config/addresses/changed")[0] == 404


def test_a_token_that_one_edge_has_made_is_known_at_the_other(shared: Cluster):
    one, other = shared.edges
    secret = done(one, "POST", "/tokens", {"name": "backup", "groups": ["ops"]})["token"]
    assert call(other, "GET", "/overview", token=secret)[0] == 403, "known, and may not: its group has no right"
    assert call(other, "GET", "/overview", token="stampede_other")[0] == 401
    assert [row["name"] for row in done(other, "GET", "/tokens")["items"]] == ["backup"]
    done(other, "DELETE", "/tokens/backup")
    assert call(one, "GET", "/overview", token=secret)[0] == 401


def test_an_owner_that_does_not_answer_is_named(shared: Cluster):
    """It stands still: too short to be given up, too long to be waited for."""
    edge, owner = shared.edges[0], shared.owners[2]
    owner.pause()
    try:
        told = done(edge, "GET", "/queues")
        assert [missing["owner"] for missing in told["missing"]] == [owner.id]
        status, told = call(edge, "POST", "/queues", {"address": "while.away"})
        assert status == 503 and owner.id in told["detail"]
    finally:
        owner.resume()
    Cluster.wait(
        lambda: done(edge, "GET", "/queues")["missing"] == [], PATIENCE_S, lambda: "it does not answer any more"
    )


def test_what_was_done_outlives_its_leader(shared: Cluster):
    edge = shared.edges[0]
    done(edge, "POST", "/queues", {"address": "lasting"})
    done(edge, "POST", "/addresses/lasting/messages", {"body": "x"})
    done(edge, "POST", "/queues/lasting/pause")
    (part,) = done(edge, "GET", "/queues/lasting")["parts"]
    leader = shared.records()[part["slot"]]["leader"]
    victim = next(owner for owner in shared.owners if owner.id == leader)
    victim.kill()

    def served() -> bool:
        status, told = call(edge, "GET", "/queues/lasting")
        return status == 200 and told["parts"][0]["paused"] and told["parts"][0]["messages"] == 1

    Cluster.wait(served, 120, lambda: str(call(edge, "GET", "/queues/lasting")))
    victim.start()
    victim.wait_ready()
