"""Options of `format("stampede")`: parsed once, refused by name.

Rule: what is unknown is refused, because a misspelt filter would archive too much or too little. Passcodes may come
from a file or the environment, since Spark shows options in its plans.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from broker.core.strict_numbers import natural
from broker.seams.client_tls import client_context
from broker.seams.files import read_whole

from .errors import PipelineError

VIEWS: Final = ("messages", "events", "dlq", "log")
_KNOWN: Final = frozenset((
    "broker", "addresses", "view", "startingoffsets", "endingoffsets", "since", "before", "includebody", "user",
    "passcode", "passcodefile", "tls", "cafile", "archive", "maxrowspertrigger", "rowspersplit", "patience",
    "bodies", "text", "url", "destination", "idcolumn", "writeid", "window", "rate", "path",
    "checkpointlocation", "ledger", "mode", "ahead", "selector", "quiet", "atomic", "chunk",
))  # fmt: skip
_LOG_ONLY: Final = ("view", "startingOffsets", "endingOffsets", "since", "before", "archive", "includeBody",
                    "addresses", "broker", "path")  # fmt: skip
LOGIN_FAILED: Final = 1201
NO_LOGIN: Final = "check the options user and passcode (or passcodeFile), or what stands for them in the option url"
CONSUME_ROWS: Final = 10_000
"""Of one batch of consume mode; the broker keeps twice as many for it."""
MOST_CONSUME_ROWS: Final = 1_000_000


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


@dataclass(frozen=True)
class ConsumeOptions:
    """What mode=consume takes.

    ahead    the folder of batches that are not acknowledged yet.
    quiet_s  of a trigger availableNow: it ends when nothing has come for so long.
    bodies   inline: large bodies are values; else the folder they are put into."""

    url: str
    destination: str
    ahead: str
    max_rows: int = CONSUME_ROWS
    split_rows: int = 200_000
    patience_s: float = 120.0
    quiet_s: float = 2.0
    bodies: str = "inline"
    text: bool = False
    selector: str = ""
    ca: bytes | None = None

    @property
    def place(self) -> str:
        """Broker and queue, without credentials."""
        parts = urlsplit(self.url)
        return f"{self.destination} of {parts.hostname}:{parts.port or 61613}"


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


def stomp_url(options: Mapping[str, str]) -> str:
    """Option `url`, with the credentials that it does not hold itself. Raises PipelineError."""
    url = options.get("url", "")
    if not url:
        raise PipelineError("option url is missing: stomp://host:61613")
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("stomp", "stomp+ssl", "ws", "wss") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise PipelineError("option url is none of stomp://, stomp+ssl://, ws:// or wss:// with a host and a port")
    user, passcode = credentials(options)
    if parts.username is None and user:
        place = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{quote(user, safe='')}:{quote(passcode, safe='')}@{place}").geturl()
    return url


def ca_file(options: Mapping[str, str]) -> bytes | None:
    """Raises PipelineError."""
    path = options.get("cafile", "")
    try:
        return read_whole(path) if path else None
    except OSError as error:
        raise PipelineError(f"option caFile: {path}: {error.strerror}") from None


def context(options: Any) -> ssl.SSLContext | None:
    """`ca`: certificates to trust in the place of the system's; None: those."""
    return client_context(cadata=options.ca.decode()) if options.ca is not None else None


def consumes(given: Mapping[str, str]) -> bool:
    """Raises PipelineError."""
    mode = {name.lower(): value for name, value in given.items()}.get("mode", "log")
    if mode not in ("log", "consume"):
        raise PipelineError(f"option mode: {mode!r} is neither log nor consume")
    return mode == "consume"


def consume_options(given: Mapping[str, str]) -> ConsumeOptions:
    """Raises PipelineError."""
    options = lowered(given)
    for name in _LOG_ONLY:
        if name.lower() in options:
            raise PipelineError(
                f"option {name} is of reading the log; mode=consume takes what the queue gives, in order"
            )
    destination = options.get("destination", "")
    if not destination:
        raise PipelineError("option destination is missing: the queue that is taken from, such as /queue/orders")
    if destination.startswith("/topic/"):
        raise PipelineError(
            f"option destination: {destination} would lose what comes while nobody listens: name a queue of the topic, "
            "/queue/address::queue, such as that of a durable subscription"
        )
    if not options.get("ahead"):
        raise PipelineError(
            "option ahead is missing: a folder that driver and workers see, kept as long as the checkpoint; batches "
            "are there until Spark has committed them"
        )
    if (bodies := options.get("bodies", "inline")) == "ref":
        raise PipelineError("option bodies: ref is of reading the log; mode=consume has inline, or a folder")
    most = _number(options, "maxRowsPerTrigger", CONSUME_ROWS, 1)
    if most > MOST_CONSUME_ROWS:
        raise PipelineError(f"option maxRowsPerTrigger: at most {MOST_CONSUME_ROWS} in mode=consume")
    quiet = options.get("quiet", "2")
    if not re.fullmatch(r"\d+(\.\d+)?", quiet):
        raise PipelineError(f"option quiet: {quiet!r} is not a number of seconds")
    return ConsumeOptions(
        stomp_url(options), destination, options["ahead"], most, _number(options, "rowsPerSplit", 200_000, 1),
        float(_number(options, "patience", 120, 1)), float(quiet), bodies, _flag(options, "text", False),
        options.get("selector", ""), ca_file(options),
    )  # fmt: skip


def access(options: Mapping[str, str]) -> Access:
    """`options`: lowered. Raises PipelineError."""
    brokers = tuple(part.strip() for part in options.get("broker", "").split(",") if part.strip())
    if not brokers:
        raise PipelineError("option broker is missing: host:port of the read API (setting log_reads.port)")
    for each in brokers:
        if natural(each.rpartition(":")[2], 5) is None:
            raise PipelineError(f"option broker: {each!r} is not host:port")
    user, passcode = credentials(options)
    ca = ca_file(options)
    patience = _number(options, "patience", 120, 1)
    return Access(brokers, user, passcode, _flag(options, "tls", False), ca, float(patience))


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises PipelineError."""
    options = lowered(given)
    if stray := sorted({"ahead", "selector", "quiet", "url", "destination"} & set(options)):
        raise PipelineError(f"option {stray[0]} is of mode=consume or of writing; this reads the log of `broker`")
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
