"""What `stampede doctor` asks of others: a broker that runs, etcd, and the cluster's replicas.

Rule: as doctor.py; one question to each, with a limit of time. What is read is judged by pure functions.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, Final, NamedTuple

from broker.cluster.operate import Picture
from broker.cluster.planning.view import health
from broker.config.settings import AdminSettings
from broker.seams.clock import SystemClock

from .doctor import FAULT, FINE, WARNING, Finding

TIMEOUT_S: Final = 3.0
APART_S: Final = 3.0
"""Clocks may differ by so much: HTTP tells whole seconds."""
TEXT: Final = 500
"""Characters of an answer that are shown."""


class Reply(NamedTuple):
    """Of a /readyz. status 0: no answer, and `text` says why. apart: its clock minus ours, in seconds."""

    status: int
    text: str
    apart: float = 0.0


def ready(address: str) -> Reply:
    """What the admin port at host:port says of itself."""
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=TIMEOUT_S) as answer:
            return Reply(answer.status, _text(answer), _apart(answer.headers["Date"]))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, _text(error), _apart(error.headers["Date"]))
    except (OSError, HTTPException, ValueError) as error:
        return Reply(0, str(getattr(error, "reason", error)))


def _text(answer: Any) -> str:
    return " ".join(answer.read(TEXT).decode("utf-8", "replace").split())


def _apart(date: str | None) -> float:
    """Raises ValueError for what is no date."""
    return 0.0 if date is None else parsedate_to_datetime(date).timestamp() - SystemClock.wall()


def admin_address(admin: AdminSettings) -> str:
    """Where a broker with these settings is asked from this machine; "": nowhere."""
    if admin.port <= 0:
        return ""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)
    return f"[{host}]:{admin.port}" if ":" in host else f"{host}:{admin.port}"


def of_broker(address: str, reply: Reply) -> Finding:
    if reply.status == 0:
        return Finding(
            "broker", WARNING, f"no answer from {address}: {reply.text}",
            "start one (`stampede serve`), or name its admin port by --set admin.port=",
        )  # fmt: skip
    if reply.status != 200:
        return Finding("broker", FAULT, f"{address} is not ready ({reply.status}): {reply.text}", "read its log")
    return Finding("broker", FINE, f"{address} is ready: {reply.text}")


def of_etcd(rows: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """rows: of etcd_cli.rows."""
    for row in rows:
        name, state = row["endpoint"], row["state"]
        if state == "up":
            yield Finding("etcd", FINE, f"{name}: {row['version']}, {row['database bytes']:,} bytes")
        elif state.startswith("nearly full"):
            yield Finding(
                "etcd", WARNING, f"{name}: {row['database bytes']:,} bytes; beyond its quota it takes no writes",
                "compact and defragment it: deploy/README.md",
            )  # fmt: skip
        else:
            yield Finding(
                "etcd", FAULT, f"{name}: {state}",
                "start that member again; without a majority nothing fails over, what is led goes on until leases end",
            )  # fmt: skip
    members = max((row["members"] for row in rows), default=0)
    if members in (1, 2):
        yield Finding("etcd", WARNING, f"{members} members: none of them may be lost", "run three, on three machines")
    if len({row["leader"] for row in rows if row["state"] == "up"}) > 1:
        yield Finding("etcd", FAULT, "the endpoints name different leaders", "etcd.endpoints must be of one etcd")


def of_cluster(picture: Picture) -> Iterator[Finding]:
    """Owners, slots and their replicas, as etcd has them."""
    view, now = picture.view, health(picture.view)
    if not picture.controller:
        yield Finding("controller", FAULT, "no owner plans: failures are not handled", "start an owner; look at etcd")
    away = sorted({one for record in view.records.values() for one in record.replicas} - set(view.owners))
    if away:
        yield Finding(
            "owners", FAULT, f"away: {', '.join(away)}",
            "start them with their disks; one that lost its disk starts with an empty folder (docs/cluster.md)",
        )  # fmt: skip
    else:
        yield Finding("owners", FINE, f"{len(view.owners)} owners, {len(picture.edges)} edges")
    yield from _slots(
        now.offline, FAULT, "without a leader", "start an owner that is in sync: `stampede cluster status`"
    )
    yield from _slots(
        now.stalled,
        FAULT,
        "below cluster.min_in_sync: durable messages are not confirmed",
        "start the owners that are away",
    )
    yield from _slots(
        now.under_replicated, WARNING, "with fewer replicas in sync than wanted",
        "wait while they are seeded, or start the owners that are away",
    )  # fmt: skip
    yield from _slots(
        now.shelved, FAULT, "shelved: their leaders stopped one after the other", "`stampede cluster unshelve SLOT`"
    )
    if now.slots and not (now.offline or now.stalled or now.under_replicated):
        yield Finding(
            "slots", FINE, f"{now.slots} slots, all in sync; {now.seeding} being seeded, {now.transfers} moving"
        )
    for owner, edges in view.unreached().items():
        yield Finding(
            "network", WARNING, f"{owner} is not reached by {', '.join(edges)}", "look at the network between them"
        )
    for key, why in picture.bad.items():
        yield Finding("configuration", FAULT, f"{key} cannot be read: {why}", "write it again, or delete it")


def _slots(count: int, level: str, what: str, fix: str) -> Iterator[Finding]:
    if count:
        yield Finding("slots", level, f"{count} {what}", fix)


def of_member(name: str, address: str, reply: Reply) -> Iterator[Finding]:
    """An owner or an edge that is registered."""
    if reply.status == 0:
        yield Finding(
            "members", WARNING, f"{name}: no answer from {address}: {reply.text}",
            "its admin port must be reachable from here (admin.host, admin.port)",
        )  # fmt: skip
        return
    if reply.status != 200:
        yield Finding("members", FAULT, f"{name} is not ready ({reply.status}): {reply.text}", "read its log")
    if abs(reply.apart) > APART_S:
        yield Finding(
            "clocks", WARNING, f"the clock of {name} is {reply.apart:+,.0f} s from ours",
            "have all machines keep time (chrony, systemd-timesyncd): delays and times to live count by it",
        )  # fmt: skip
