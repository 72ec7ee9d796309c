"""One event is one line, nobody waits for the log, and nothing is lost unsaid."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from broker.app.process import logs
from broker.config.settings import LogSettings


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
