"""Logging: one line per event on stderr, as text or JSON, written by a thread so that the loop never waits for it;
audit lines to a file of their own where the settings name one, by a thread of its own.

Rule: a logging call only puts a record into a bounded queue. When the queue is full the record is dropped and counted:
a slow terminal must not stop the broker. Knows nothing of what is logged.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import TextIO

from broker.config.logs import LogSettings
from broker.core.errors import ConfigError
from broker.seams.line_file import LineFile

QUEUE_RECORDS = 10_000
"""About 10 MB of records at most."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Text from clients may hold line ends or terminal escapes; one event must stay one line.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


AUDIT = "stampede.audit"


def set_up(settings: LogSettings, stream: TextIO | None = None) -> Callable[[], None]:
    """Takes over the root logger. Returns what must be called last: it writes what is queued and restores. Raises
    ConfigError for an audit file that cannot be had."""
    stop_audit = _set_up_audit(settings)
    root = logging.getLogger()
    writer = logging.StreamHandler(stream or sys.stderr)
    writer.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    handler = BoundedHandler()
    listener = QueueListener(handler.records, writer)
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    # asyncio tells at DEBUG which selector it uses, aiohttp every request: nothing an operator asked for.
    for name in ("asyncio", "aiohttp"):
        logging.getLogger(name).setLevel(logging.INFO if root.level < logging.INFO else logging.NOTSET)
    listener.start()

    def stop() -> None:
        stop_audit()
        root.handlers[:] = before
        root.setLevel(level)
        listener.stop()
        handler.close()

    return stop


def _set_up_audit(settings: LogSettings) -> Callable[[], None]:
    path = settings.audit_file
    if not path:
        return lambda: None
    try:
        file = None if path == "-" else LineFile(path, settings.audit_file_bytes, settings.audit_files_kept)
    except OSError as error:
        raise ConfigError(f"log.audit_file {path} cannot be written: {error.strerror}.") from None
    audit = logging.getLogger(AUDIT)
    handler, before = BoundedHandler(), (audit.handlers[:], audit.level, audit.propagate)
    listener = QueueListener(handler.records, AuditWriter(file))
    audit.handlers[:], audit.propagate = [handler], False
    audit.setLevel(logging.INFO)
    listener.start()

    def stop() -> None:
        audit.handlers[:], audit.propagate = before[0], before[2]
        audit.setLevel(before[1])
        listener.stop()
        handler.close()
        if file is not None:
            file.close()

    return stop


class AuditWriter(logging.Handler):
    """Writes audit lines, which are JSON, with their time in front. file: None: stdout. What cannot be written is
    counted, said in the log, and in the file when it can be written again."""

    def __init__(self, file: LineFile | None) -> None:
        super().__init__()
        self._file = file
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._lost:
                self._write(_audit_line(_time(record), _lost(self._lost)))
                self._lost = 0
            told = record.getMessage()
            self._write(_audit_line(_time(record), told if record.name == AUDIT else _lost(0, told)))
        except (OSError, ValueError) as error:  # ValueError: stdout was closed
            self._lost += 1
            if self._lost == 1:
                where = self._file.path if self._file is not None else "stdout"
                why = getattr(error, "strerror", None) or error
                logging.getLogger("stampede").error("audit lines are lost: %s cannot be written: %s", where, why)

    def _write(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
            if stuck := self._file.stuck():
                logging.getLogger("stampede").error(
                    "%s cannot be put aside, and grows: %s. Make its folder writable, or set log.audit_file_bytes = 0",
                    self._file.path, stuck,
                )  # fmt: skip
        else:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


def _audit_line(time: str, entry: str) -> bytes:
    return f'{{"time": "{time}", {entry[1:]}\n'.encode(errors="backslashreplace")


def _lost(lines: int, why: str = "") -> str:
    """An entry that says that others are missing."""
    told = why or f"{lines} audit lines could not be written"
    return json.dumps({"who": "", "from": "", "action": "audit", "target": told, "outcome": "lost"})


class BoundedHandler(QueueHandler):
    """Puts records into a bounded queue; never blocks, never raises."""

    def __init__(self) -> None:
        self.records: queue.Queue[logging.LogRecord] = queue.Queue(QUEUE_RECORDS)
        super().__init__(self.records)
        self._dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Arguments are rendered now, they may change; the traceback is rendered by the writing thread."""
        record.msg, record.args = record.getMessage(), None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self.records.put_nowait(self._told())
                self._dropped = 0
            self.records.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def _told(self) -> logging.LogRecord:
        text = f"{self._dropped} log lines were dropped: the log is written more slowly than it comes"
        return logging.makeLogRecord(
            {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": text}
        )


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO broker.edge: text key=value`. A traceback follows, each line indented."""

    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f" {key}={value}" for key, value in _extras(record).items())
        line = (record.getMessage() + extras).translate(_CONTROLS)
        text = f"{_time(record)} {record.levelname} {record.name}: {line}"
        if record.exc_info:
            text += "\n  " + self.formatException(record.exc_info).replace("\n", "\n  ")
        return text


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, what was given as `extra`, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(record), "level": record.levelname, "logger": record.name, "message": record.getMessage(),
        }  # fmt: skip
        fields.update(_extras(record))
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)
