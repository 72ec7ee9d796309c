"""What the audit log has of the operator: which resource changed what in etcd.

Lines of JSON of the logger `stampede.audit`, with the fields of the API's (broker/admin/api/audit.py). Who changed the
resource, Kubernetes' own audit log says.

Rule: names of keys only; a value may be the hash of a passcode.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from broker.cluster.keys import Keys
from broker.metadata.port import Delete, Put

_log = logging.getLogger("stampede.audit")


def note(keys: Keys, who: str, actions: Iterable[Put | Delete]) -> None:
    """These are done. who: the resource that wanted it; markers of our own are no change of anybody."""
    for action in actions:
        if action.key.startswith(keys.managed):
            continue
        entry = {
            "who": who, "from": "operator", "action": "set" if isinstance(action, Put) else "delete",
            "target": action.key.removeprefix(keys.root), "outcome": "done",
        }  # fmt: skip
        _log.info("%s", json.dumps(entry, ensure_ascii=False))
