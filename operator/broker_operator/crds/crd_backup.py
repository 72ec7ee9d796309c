"""The schema of StompBackup: copies of all owners of a broker, by the clock, in a volume or a bucket.

Rule: where copies lie is said once; keys stand in Secrets only.
"""

from __future__ import annotations

from ..spec.schema import Schema, boolean, integer, table, text
from .crd_address import broker_ref
from .rules import Rule, fixed, ruled

_NUMBER: Schema = {"type": "integer", "format": "int64"}
_TIME: Schema = {"type": "string", "format": "date-time"}


def store() -> Schema:
    url = text("s3://BUCKET or s3://BUCKET/FOLDER.", most=512, pattern="^s3://[a-z0-9][a-z0-9.-]+(/.*)?$")
    endpoint = text(
        "https://HOST[:PORT] of a store that speaks S3. Default: that of Amazon.", pattern="^https?://[^/]+/?$"
    )
    bucket = table(
        "A bucket of S3, or of what speaks like it.",
        {
            "url": url,
            "endpoint": endpoint,
            "region": text("Region. Default: us-east-1.", most=63),
            "secretName": text("Secret with accessKeyId and secretAccessKey. Default: what the pods are given."),
        },
        ["url"],
    )
    volume = table(
        "A volume.",
        {
            "claimName": text(
                "PersistentVolumeClaim of this namespace. Owners are copied one after the other, so ReadWriteOnce is "
                "enough where a volume can follow from node to node."
            )
        },
        ["claimName"],
    )
    return ruled(
        table("Where copies lie, in FOLDER/NAMESPACE/NAME of the StompBackup.", {"volume": volume, "bucket": bucket}),
        Rule("has(self.volume) != has(self.bucket)", "give either volume or bucket."),
    )


def resources() -> Schema:
    return {
        "type": "object",
        "description": "Requests and limits of each pod, as in a container. Default: 100m CPU and 256Mi memory asked.",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def deadline() -> Schema:
    return integer(
        "How long one step (one owner) may take, waiting for its node and volumes included.", 60, 604800, 3600
    )


def spec() -> Schema:
    schedule = ruled(
        text("Five fields of cron, as 0 2 * * *. Default: one backup, when the resource is made.", most=120),
        Rule(
            "self.split(' ').filter(w, size(w) > 0).size() == 5",
            "spec.schedule has five fields: minute, hour, day of month, month, day of week, as 0 2 * * *.",
        ),
    )
    retention = table(
        "What is kept.",
        {"keep": integer("The newest complete ones; older ones go when another is complete.", 1, 1000, 7)},
        default={},
    )
    return table(
        "What is copied, when, and where to.",
        {
            "brokerRef": broker_ref(),
            "schedule": schedule,
            "timeZone": text("Time zone of the schedule, as Europe/Berlin.", most=64, default="UTC"),
            "suspend": boolean("No new backup begins.", False),
            "store": fixed(
                store(), "spec.store", "make a new StompBackup: this one would lose sight of what it keeps."
            ),
            "retention": retention,
            "megabytesPerSecond": integer("What is read of an owner's disk at most; 0: no bound.", 0, 100000, 50),
            "deadlineSeconds": deadline(),
            "resources": resources(),
        },
        ["store"],
    )


COLUMNS = (
    ("Broker", "string", ".spec.brokerRef.name", 0),
    ("Schedule", "string", ".spec.schedule", 0),
    ("Last", "date", ".status.last.takenAt", 0),
    ("Bytes", "integer", ".status.last.bytes", 1),
    ("Messages", "integer", ".status.last.messages", 0),
    ("Running", "string", ".status.running.step", 1),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
)


def run_status(about: str, **more: Schema) -> Schema:
    return {
        "type": "object",
        "description": about,
        "properties": {
            "run": {"type": "string", "description": "Name of its folder."},
            "takenAt": {
                **_TIME,
                "description": "What was receipted before, and not acknowledged by then, is in it.",
            },
            "bytes": {**_NUMBER, "description": "Of all owners."},
            "messages": {
                **_NUMBER,
                "description": "In the queues of all owners: one with three copies is counted three times.",
            },
            "lost": {**_NUMBER, "description": "Large bodies that were damaged and are not in it."},
            **more,
        },
    }


def running_status() -> Schema:
    return run_status(
        "The one that is being made.",
        startedAt=_TIME,
        step={"type": "string", "description": "What is done now: metadata, the name of an owner, complete."},
        owners={"type": "array", "description": "All of them.", "items": {"type": "string"}},
        why={"type": "string", "description": "annotation, schedule, retry: what it was begun for."},
    )


def status() -> dict[str, Schema]:
    return {
        "place": {"type": "string", "description": "Folder of all of them, for StompRestore and `stampede restore`."},
        "last": run_status("The last complete one.", completedAt=_TIME, seconds={**_NUMBER, "description": "It took."}),
        "running": running_status(),
        "scheduledAt": {**_TIME, "description": "The last time of the schedule that was met."},
        "nextAt": {**_TIME, "description": "When the next one begins."},
        "failedAt": {**_TIME, "description": "When one failed, if none was complete since."},
        "asked": {"type": "string", "description": "The annotation stampede.dev/run that was carried out last."},
    }
