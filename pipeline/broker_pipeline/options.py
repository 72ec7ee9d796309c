"""Options of `format("stampede")`: parsed once, refused by name.

Rule: what is unknown is refused, because a misspelt filter would archive too much or too little. Passcodes may come
from a file or the environment, since Spark shows options in its plans.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.seams.files import read_whole

from .errors import PipelineError

VIEWS: Final = ("messages", "events", "dlq", "log")
_KNOWN: Final = frozenset((
    "broker", "addresses", "view", "startingoffsets", "endingoffsets", "since", "before", "includebody", "user",
    "passcode", "passcodefile", "tls", "cafile", "archive", "maxrowspertrigger", "rowspersplit", "patience",
    "bodies", "text", "url", "destination", "idcolumn", "writeid", "window", "rate", "path",
    "checkpointlocation", "ledger",
))  # fmt: skip


@dataclass(frozen=True)
class Access:
    """How to reach the read API. `brokers`: host:port, tried in order."""

    brokers: tuple[str, ...]
    user: str = ""
    passcode: str = ""
    tls: bool = False
    ca: bytes | None = None
    patience_s: float = 120.0


@dataclass(frozen=True)
class ReadOptions:
    """What to read.

    start, end  earliest | latest | JSON {"slot": {"o": offset, "e": epoch}} | @milliseconds since 1970.
    archive     name of the watermark that `commit` moves ("": none).
    max_rows    log items of one micro-batch; 0: all there are.
    split_rows  log items of one Spark task, about.
    bodies      ref: large bodies stay where they are; inline: into the column; else the folder they are put into.
    """

    access: Access
    addresses: tuple[str, ...] = ()
    view: str = "messages"
    start: str = "earliest"
    end: str = "latest"
    since_ms: int = 0
    before_ms: int = 0
    include_body: bool = True
    archive: str = ""
    max_rows: int = 0
    split_rows: int = 200_000
    bodies: str = "ref"
    text: bool = False


def _number(options: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = options.get(name.lower(), str(default))
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise PipelineError(f"option {name}: {text!r} is not a whole number from {least} on")
    return number


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise PipelineError(f"option {name}: {text!r} is neither true nor false")
    return text == "true"


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Names in lower case, as Spark compares them. Raises PipelineError for unknown ones."""
    found = {name.lower(): value for name, value in options.items()}
    if unknown := sorted(set(found) - _KNOWN):
        raise PipelineError(f"format('stampede') has no option {unknown[0]!r}; docs/pipeline.md lists them")
    return found


def credentials(options: Mapping[str, str]) -> tuple[str, str]:
    """User and passcode: options, else a file, else STAMPEDE_PIPELINE_USER and STAMPEDE_PIPELINE_PASSCODE."""
    user = options.get("user") or os.environ.get("STAMPEDE_PIPELINE_USER", "")
    passcode = options.get("passcode", "")
    if not passcode and (path := options.get("passcodefile", "")):
        try:
            passcode = read_whole(path).decode().strip()
        except OSError as error:
            raise PipelineError(f"option passcodeFile: {path}: {error.strerror}") from None
    return user, passcode or os.environ.get("STAMPEDE_PIPELINE_PASSCODE", "")


def access(options: Mapping[str, str]) -> Access:
    """`options`: lowered. Raises PipelineError."""
    brokers = tuple(part.strip() for part in options.get("broker", "").split(",") if part.strip())
    if not brokers:
        raise PipelineError("option broker is missing: host:port of the read API (setting log_reads.port)")
    for each in brokers:
        if not each.rpartition(":")[2].isdigit():
            raise PipelineError(f"option broker: {each!r} is not host:port")
    user, passcode = credentials(options)
    ca = None
    if path := options.get("cafile", ""):
        try:
            ca = read_whole(path)
        except OSError as error:
            raise PipelineError(f"option caFile: {path}: {error.strerror}") from None
    patience = _number(options, "patience", 120, 1)
    return Access(brokers, user, passcode, _flag(options, "tls", False), ca, float(patience))


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises PipelineError."""
    options = lowered(given)
    view = options.get("view", "messages")
    if view not in VIEWS:
        raise PipelineError(f"option view: {view!r} is none of {', '.join(VIEWS)}")
    addresses = options.get("addresses", options.get("path", ""))
    return ReadOptions(
        access(options),
        tuple(part.strip() for part in addresses.split(",") if part.strip()),
        view,
        options.get("startingoffsets", "earliest"),
        options.get("endingoffsets", "latest"),
        _number(options, "since", 0),
        _number(options, "before", 0),
        _flag(options, "includeBody", True),
        options.get("archive", ""),
        _number(options, "maxRowsPerTrigger", 0),
        _number(options, "rowsPerSplit", 200_000, 1),
        options.get("bodies", "ref"),
        _flag(options, "text", False),
    )
