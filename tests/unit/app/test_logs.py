"""One event is one line, nobody waits for the log, and nothing is lost unsaid."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from broker.app.process import logs
from broker.config.logs import LogSettings
from broker.core.errors import ConfigError


@pytest.fixture
def logged():
    """logged(settings, body) runs `body` with logging set up and returns the lines written."""

    def run(settings, body):
        stream = io.StringIO()
        stop = logs.set_up(settings, stream)
        try:
            body()
        finally:
            stop()
        return stream.getvalue().splitlines()

    return run


def fail():
    try:
        raise ValueError("inner")
    except ValueError:
        logging.getLogger("broker.x").exception("it failed")


def test_text_is_one_line_whatever_clients_send(logged):
    lines = logged(
        LogSettings(),
        lambda: logging.getLogger("broker.edge").warning("login %s", "a\nb\x1b[2J\x9b", extra={"connection": 7}),
    )
    assert len(lines) == 1
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING broker\.edge: login a\\x0ab\\x1b\[2J\\x9b connection=7",
        lines[0],
    )


def test_json_is_one_object_per_line_with_extras_and_traceback(logged):
    def body():
        logging.getLogger("broker.edge").info("line %d\n2", 1, extra={"connection": 7})
        fail()

    first, second = map(json.loads, logged(LogSettings(format="json"), body))
    assert (first["level"], first["logger"], first["message"], first["connection"]) == (
        "INFO",
        "broker.edge",
        "line 1\n2",
        7,
    )
    assert second["message"] == "it failed"
    assert "ValueError: inner" in second["exception"]


def test_traceback_in_text_is_indented(logged):
    lines = logged(LogSettings(), fail)
    assert lines[0].endswith("ERROR broker.x: it failed")
    assert all(line.startswith("  ") for line in lines[1:])
    assert lines[-1] == "  ValueError: inner"


def test_level(logged):
    def body():
        logging.getLogger("broker").info("no")
        logging.getLogger("broker").error("yes")

    assert [line.rpartition(" ")[2] for line in logged(LogSettings(level="ERROR"), body)] == ["yes"]


def test_a_full_queue_drops_and_says_how_many(monkeypatch):
    monkeypatch.setattr(logs, "QUEUE_RECORDS", 2)
    handler = logs.BoundedHandler()
    for number in range(5):
        handler.handle(logging.makeLogRecord({"msg": "%d", "args": (number,)}))
    first, second = handler.records.get(), handler.records.get()
    assert (first.getMessage(), second.getMessage()) == ("0", "1")
    handler.handle(logging.makeLogRecord({"msg": "later"}))
    assert "3 log lines were dropped" in handler.records.get().getMessage()
    assert handler.records.get().getMessage() == "later"
    handler.close()


def test_the_root_logger_is_given_back():
    before = logging.getLogger().handlers[:]
    stop = logs.set_up(LogSettings(), io.StringIO())
    assert logging.getLogger().handlers != before
    stop()
    assert logging.getLogger().handlers == before


def audited(settings: LogSettings, body: Callable[[], None]) -> list[str]:
    """What the log itself has."""
    stream = io.StringIO()
    stop = logs.set_up(settings, stream)
    try:
        body()
    finally:
        stop()
    return stream.getvalue().splitlines()


def note(action: str) -> None:
    logging.getLogger("stampede.audit").info("%s", json.dumps({"who": "ada", "action": action, "target": "\udc80"}))


def test_audit_lines_go_to_their_own_file_whatever_the_level_is(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = LogSettings(level="ERROR", audit_file=str(path))
    log = audited(settings, lambda: [note("login"), note("send"), logging.getLogger("broker").error("other")])
    assert [line.rpartition(" ")[2] for line in log] == ["other"]
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["who"], line["action"]) for line in told] == [("ada", "login"), ("ada", "send")]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told[0]["time"]) and next(iter(told[0])) == "time"
    audit = logging.getLogger("stampede.audit")
    assert audit.propagate and not audit.handlers and audit.level == logging.NOTSET


def test_audit_lines_go_to_stdout(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert not audited(LogSettings(audit_file="-"), lambda: note("login"))
    (line,) = capsysbinary.readouterr().out.splitlines()
    assert json.loads(line)["action"] == "login"


def test_without_a_file_they_are_lines_of_the_log() -> None:
    (line,) = audited(LogSettings(), lambda: note("login"))
    assert " INFO stampede.audit: {" in line


def test_an_audit_file_that_cannot_be_had_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.audit_file .*/gone/audit cannot be written: No such file"):
        logs.set_up(LogSettings(audit_file=str(tmp_path / "gone" / "audit")))


def test_what_could_not_be_written_is_counted_in_the_file_and_said_once_in_the_log() -> None:
    class File:
        path, full = "audit", True
        lines: ClassVar[list[bytes]] = []

        def write(self, line: bytes) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            self.lines.append(line)

        def stuck(self) -> str:
            return ""

    file = File()
    stream = io.StringIO()
    stop = logs.set_up(LogSettings(), stream)
    try:
        writer = logs.AuditWriter(file)  # type: ignore[arg-type]
        record = logging.makeLogRecord({"name": "stampede.audit", "msg": '{"action": "login"}'})
        for _ in range(3):
            writer.handle(record)
        file.full = False
        writer.handle(record)
    finally:
        stop()
    assert stream.getvalue().count("audit lines are lost: audit cannot be written: No space left on device") == 1
    told = [json.loads(line) for line in file.lines]
    assert [(line["action"], line.get("target")) for line in told] == [
        ("audit", "3 audit lines could not be written"), ("login", None),
    ]  # fmt: skip
