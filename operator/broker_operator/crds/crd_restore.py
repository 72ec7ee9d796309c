"""The schema of StompRestore: the disks of a new broker are filled from a backup before its owners start.

Rule: the broker names it too (spec.restoreFrom), so that neither alone can fill or hold up anything.
"""

from __future__ import annotations

from ..spec.schema import Schema, table, text
from .crd_address import broker_ref
from .crd_backup import deadline, resources, run_status, store
from .rules import Rule, fixed, ruled


def spec() -> Schema:
    source = ruled(
        table(
            "The backup.",
            {
                "backupRef": table("A StompBackup of this namespace.", {"name": text("Its name.", most=40)}, ["name"]),
                "store": store(),
                "folder": text("With store: NAMESPACE/NAME of the StompBackup that made it.", most=253),
                "run": text("Name of one run, as 2026-11-27T02-00-00Z. Default: the newest complete one.", most=64),
            },
        ),
        Rule("has(self.backupRef) != has(self.store)", "give either source.backupRef or source.store."),
        Rule(
            "has(self.store) == has(self.folder)", "source.folder goes with source.store: NAMESPACE/NAME of the backup."
        ),
    )
    return table(
        "From where, and into which broker.",
        {
            "brokerRef": broker_ref(),
            "source": fixed(source, "spec.source", "make a new StompRestore."),
            "deadlineSeconds": deadline(),
            "resources": resources(),
        },
        ["source"],
    )


COLUMNS = (
    ("Broker", "string", ".spec.brokerRef.name", 0),
    ("Run", "string", ".status.restored.run", 0),
    ("Taken", "date", ".status.restored.takenAt", 0),
    ("Step", "string", ".status.step", 1),
    ("Complete", "string", '.status.conditions[?(@.type=="Complete")].status', 0),
)


def status() -> dict[str, Schema]:
    return {
        "restored": run_status("What is restored."),
        "step": {"type": "string", "description": "What is done now: metadata, the name of an owner."},
        "owners": {
            "type": "array", "description": "Owners in the backup, in the order of ours.", "items": {"type": "string"},
        },
        "completedAt": {"type": "string", "format": "date-time", "description": "When all disks were filled."},
    }  # fmt: skip
