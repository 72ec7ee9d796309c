"""kopf's part: it watches custom resources and tells of what it sees.

Rule: handlers take an event and hand it on; they never write, never wait, and return nothing that kopf would store.
kopf itself adds no finalizer and no annotation, because only raw events are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from ..spec.model import Table
from ..spec.names import ACCEPTOR, BROKER, GROUP, PLURALS, USER, VERSION
from .kube import WATCH_S, login

KINDS = (BROKER, ACCEPTOR, USER)
"""Addresses come by the thousand, and kopf needs 10 KB for each object that it follows: they have an informer."""

Tell = Callable[[str, Table], None]
"""tell(event type, object). Types: ADDED, MODIFIED, DELETED, and "" for what was there already."""


def registry(tell: Tell, connection: Callable[[], kopf.ConnectionInfo] = login) -> kopf.OperatorRegistry:
    """Everything that kopf is asked to do."""
    found = kopf.OperatorRegistry()

    async def on_event(event: Any, **_: Any) -> None:
        tell(event["type"] or "", dict(event["object"]))

    for plural in (PLURALS[kind] for kind in KINDS):
        kopf.on.event(GROUP, VERSION, plural, registry=found, id=f"{plural}-event")(on_event)

    def on_login(**_: Any) -> kopf.ConnectionInfo:
        return connection()

    kopf.on.login(registry=found)(on_login)
    return found


def settings() -> kopf.OperatorSettings:
    """No writes of kopf's own, no look at the whole cluster, and watches that cannot hang for ever."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.scanning.disabled = True
    found.peering.standalone = True
    found.watching.server_timeout = WATCH_S
    found.watching.client_timeout = WATCH_S + 30
    found.watching.connect_timeout = 30
    # A worker per object, for as long as there is something to tell of it: a thousand at once would cost 20 MB.
    found.queueing.worker_limit = 32
    found.queueing.idle_timeout = 0.05
    # kopf would take one of its usual name off, though it may be another operator's.
    found.persistence.finalizer = f"{GROUP}/unused"
    return found
