"""Messages of some time sent again, from the archive and what is not in it yet, to another address.

What is replayed is pinned by a plan when an id is first used: time, condition and the ends of the slots. Each message
has the id `replay:<id>/<slot>/<offset>/<index>`, and after every few thousand receipts a note says how far the order
(slot, offset, index) has been confirmed. Who runs it again, also after a kill, sends from the note on only; what was
confirmed behind the note the broker knows by its id.

Rule: the archive up to its end, the live log from there: no gap, no overlap. One task sends: each slot stays in order.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import PipelineError
from ..log.ranges import Offsets, earliest, latest
from ..log.reads import LogReads
from ..options import access, lowered
from ..progress import Progress, Say, tasks
from ..store.manifests import Archive, State
from ..store.notes import Notes
from ..store.stores import Lock

ORDER = ("slot", "offset", "index")


@dataclass(frozen=True)
class Plan:
    """since, before: `ts` as Spark reads it ("2026-11-24 13:00"), "" = no bound. ends: slot → offset."""

    id: str
    into: str
    addresses: tuple[str, ...] = ()
    since: str = ""
    before: str = ""
    where: str = ""
    ends: dict[str, int] = field(default_factory=dict)


def plan(archive: Archive, source: dict[str, str], wanted: Plan) -> Plan:
    """What the id stands for: written down when it is new. Raises PipelineError when it stands for something else."""
    if not re.fullmatch(r"[\w.-]{1,100}", wanted.id):
        raise PipelineError("an id of a replay has letters, digits, dots, dashes and underscores only")
    name = f"replays/{wanted.id}.json"
    if archive.store.exists(name):
        read = json.loads(archive.store.read(name))
        known = Plan(**(read | {"addresses": tuple(read["addresses"])}))
        if (known.into, known.addresses, known.since, known.before, known.where) != (
            wanted.into, wanted.addresses, wanted.since, wanted.before, wanted.where
        ):  # fmt: skip
            raise PipelineError(f"replay {wanted.id} was something else before ({archive.path(name)}): use another id")
        return known
    with LogReads(access(lowered(source))) as reads:
        _, _, infos = reads.describe(wanted.addresses, "messages")
    ends = {slot: place["o"] for slot, place in latest(infos.values()).items()}
    return Plan(wanted.id, wanted.into, wanted.addresses, wanted.since, wanted.before, wanted.where, ends)


def rows(spark: Any, archive: Archive, source: dict[str, str], wanted: Plan) -> Any:
    """What is to be sent, in order."""
    from pyspark.sql import functions as f

    folder = archive.path("")
    state = archive.existing()
    names = [name for name in wanted.addresses if "*" not in name and "#" not in name]
    if len(names) != len(wanted.addresses):
        raise PipelineError("a replay names its addresses one by one: patterns are not looked up in archives")
    with LogReads(access(lowered(source))) as reads:
        broker, _, infos = reads.describe(wanted.addresses, "messages")
    start: Offsets = earliest(infos.values())
    assert state.last is not None
    if state.last.broker != broker:
        raise PipelineError(f"{folder} is the archive of broker {state.last.broker}, and this is {broker}")
    held = {file.address for file in state.files.values()}
    if outside := [name for name in names if name not in held and not archives(state.last.scope, name)]:
        raise PipelineError(
            f"{folder} is of {', '.join(state.last.scope)}, and has nothing of {', '.join(outside)}: name "
            "addresses that it archives, or use another folder"
        )
    start |= dict(state.last.ends["messages"])
    ends = {slot: {"o": max(end, start.get(slot, {"o": 1})["o"]), "e": 0} for slot, end in wanted.ends.items()}
    live = source | {
        "addresses": ",".join(names), "startingOffsets": json.dumps(start), "endingOffsets": json.dumps(ends),
        "bodies": "inline",
    }  # fmt: skip
    found = spark.read.format("stampede").options(**live).load()
    _check_names(names, state, found)
    if paths := archive.live("messages", state):
        found = spark.read.parquet(*paths).unionByName(found)
    if names:
        found = found.where(f.col("address").isin(names))
    if wanted.since:
        found = found.where(f.col("ts") >= f.lit(wanted.since).cast("timestamp"))
    if wanted.before:
        found = found.where(f.col("ts") < f.lit(wanted.before).cast("timestamp"))
    if wanted.where:
        found = found.where(wanted.where)
    pinned = f.from_json(f.lit(json.dumps(wanted.ends)), "map<string,bigint>")
    return found.where(f.col("offset") < f.element_at(pinned, f.col("slot").cast("string")))


def _check_names(names: list[str], state: State, live: Any) -> None:
    """Raises PipelineError for addresses that neither the archive nor the log behind it has a message of. `live`: what
    that log has; it is looked at where the archive does not know a name."""
    archived = {file.address for file in state.files.values() if file.view == "messages"}
    unknown = set(names) - archived
    if unknown:
        unknown -= {row.address for row in live.select("address").distinct().collect()}
    if unknown:
        raise PipelineError(
            f"neither the archive nor the log behind it has a message of {', '.join(sorted(unknown))}: check the "
            f"spelling; the archive has {', '.join(sorted(archived)[:20]) or 'nothing'}"
        )


def archives(scope: tuple[str, ...], name: str) -> bool:
    """Is this address among those of an archive, which names them or gives patterns: * is one word, # the rest."""
    return not scope or any(_stands_for(each.split("."), name.split(".")) for each in scope)


def _stands_for(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_stands_for(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _stands_for(pattern[1:], words[1:])


def count(spark: Any, folder: str, source: dict[str, str], wanted: Plan, say: Say) -> list[dict[str, Any]]:
    """A dry run: address, messages, bytes, first and last time."""
    archive = Archive(folder, spark)
    with tasks(spark, say, "of what would be sent counted"):
        rows(spark, archive, source, plan(archive, source, wanted)).createOrReplaceTempView("replayed")
        found = spark.sql(
            "select address, count(*) as messages, sum(size) as bytes, cast(min(ts) as string) as first, "
            "cast(max(ts) as string) as last from replayed group by address order by address"
        )
        return [row.asDict() for row in found.collect()]


def replay(spark: Any, folder: str, source: dict[str, str], url: str, wanted: Plan, rate: float, say: Say) -> int:
    """Sends; returns how many messages this run still had to send. Raises PipelineError."""
    from pyspark.sql import functions as f

    archive = Archive(folder, spark)
    archive.existing()  # before a lock makes its folder
    lock = archive.lock()
    try:
        pinned = plan(archive, source, wanted)
        archive.store.write(f"replays/{pinned.id}.json", [json.dumps(asdict(pinned), indent=1).encode()])
        note = f"replays/{pinned.id}.done"
        found = left(archive, note, rows(spark, archive, source, pinned))
        said = f.create_map(f.lit("x-original-address"), "address", f.lit("x-original-message-id"), "message_id")
        kept = f.map_filter("headers", lambda name, _: ~name.startswith("x-original-"))
        number = f.concat_ws("/", f.lit(f"replay:{pinned.id}"), *ORDER)
        sent = found.select(
            *ORDER, "body", "body_ref", "message_id", "priority", f.map_concat(kept, said).alias("headers"),
            number.alias("id"),
        ).coalesce(1).sortWithinPartitions(*ORDER)  # fmt: skip
        return put_rows(
            spark, archive, lock, note, sent, {"url": url, "destination": pinned.into, "rate": str(rate)}, say
        )
    finally:
        lock.close()


def left(archive: Archive, note: str, found: Any) -> Any:
    """What lies behind the place that has been noted."""
    if not archive.store.exists(note):
        return found
    slot, offset, index = map(int, json.loads(archive.store.read(note)))
    return found.where(
        f"slot > {slot} or slot = {slot} and (offset > {offset} or offset = {offset} and index > {index})"
    )


def put_rows(spark: Any, archive: Archive, lock: Lock, note: str, sent: Any, options: dict[str, str], say: Say) -> int:
    """Sends these rows, which are in order, and notes how far that is. Returns how many they were."""
    with tasks(spark, say, "of what is to be sent counted"):
        total = int(sent.count())
    say(f"{total} messages to send")
    if total:
        with Notes(spark, archive, note, lock, Progress(say, total, "messages sent")) as notes:
            more = {"idColumn": "id", "ledger": notes.where, "bodies": archive.path("")}
            with_bodies(spark, archive, sent).write.format("stampede").mode("append").options(**options, **more).save()
    return total


def with_bodies(spark: Any, archive: Archive, sent: Any) -> Any:
    """Workers read large bodies of a folder as files; of other archives they come by Spark's own reader of files."""
    from pyspark.sql import functions as f

    if not archive.store.remote:
        return sent
    names = [row.body_ref for row in sent.where("body_ref is not null").select("body_ref").distinct().collect()]
    if not names:
        return sent
    files = spark.read.format("binaryFile").load([archive.path(name) for name in names])
    files = files.select(f.concat(f.lit("bodies/"), f.substring_index("path", "/", -1)).alias("body_ref"), "content")
    joined = sent.join(files, "body_ref", "left").withColumn("body", f.coalesce("body", "content")).drop("content")
    return joined.coalesce(1).sortWithinPartitions(*ORDER)
