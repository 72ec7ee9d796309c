"""Requests of commands to the API: every end has its exit code."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import click
import pytest
from click.testing import CliRunner, Result

from broker.app.cli import main
from broker.app.commands import admin_client as subject
from broker.app.commands.admin_cli import QUEUE_COLUMNS
from broker.app.commands.admin_client import AdminApi
from tests.harness.api import Api, running


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path, engine={"addresses": {"#": {"dead_letter_address": "DLQ"}}}) as api:
        yield api


async def run(api: Api, *line: str, input: str | None = None) -> Result:
    """`stampede LINE --url …`, in a thread: the broker is in this loop."""
    url = f"http://127.0.0.1:{api.broker.admin.port}"
    return await asyncio.to_thread(CliRunner().invoke, main, [*line, "--url", url], input)


async def test_exit_codes(api):
    missing = await run(api, "queue", "show", "nothing")
    assert missing.exit_code == 4 and "'nothing'" in missing.stderr and "ADDRESS::NAME" in missing.stderr
    assert (await run(api, "queues", "--sort", "colour")).exit_code == 1
    assert (await run(api, "queues", "--colour")).exit_code == 2
    away = await asyncio.to_thread(CliRunner().invoke, main, ["queues", "--url", "http://127.0.0.1:9"])
    assert away.exit_code == 3 and "stampede serve" in away.stderr


class Answers(BaseHTTPRequestHandler):
    """Answers in turn what `given` has: (status, body); the last one again and again."""

    given: ClassVar[list[tuple[int, Any]]] = []
    asked: ClassVar[list[tuple[str, str, bytes, str]]] = []

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.command, self.path, body, self.headers.get("Authorization", "")))
        status, told = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_DELETE = do_PUT = do_PATCH = do_GET

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def broker(monkeypatch):
    """A client of a broker that gives these answers, and what it was asked."""
    monkeypatch.setattr(subject, "AGAIN_S", 0.01)
    monkeypatch.setattr(subject, "STARTS_S", 0.05)
    Answers.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def make(*given: tuple[int, Any], login: str | None = None) -> AdminApi:
        Answers.given[:] = given
        return AdminApi(f"http://127.0.0.1:{server.server_port}/", login)

    yield make
    server.shutdown()
    thread.join()
    server.server_close()


def page(*names: str, next: str | None = None, missing: Any = ()) -> tuple[int, Any]:
    return 200, {"items": [{"name": name} for name in names], "next": next, "missing": list(missing)}


def test_pages_are_asked_for_until_there_are_enough(broker, capsys):
    api = broker(page("a", "b", next="p2"), page("c", "d", next="p3", missing=[{"owner": "o", "why": "away"}]))
    assert [row["name"] for row in api.rows("/queues", 3, sort="name", match=None)] == ["a", "b", "c", "d"]
    paths = [asked[1] for asked in Answers.asked]
    assert paths == ["/api/v1/queues?limit=3&sort=name", "/api/v1/queues?limit=1&page=p2&sort=name"]
    assert "o is missing: away" in capsys.readouterr().err
    api = broker(page("a"))
    assert [row["name"] for row in api.rows("/queues", 500)] == ["a"], "a page without a next one is the last"


TOTALS = {
    "id": "b", "version": "1", "clients": {"connections": 0},
    "messaging": {"queues": 0, "messages": 0, "since_start": {"accepted": 0, "delivered": 0, "acked": 0}},
}  # fmt: skip
AWAY = [{"owner": "edge-1", "why": "away"}]
ROW = {"id": "0-1", "raw": "AA==", "flags": 0, "priority": 4, "durable": True, "expires": 0, "timestamp": 1}
PART = {"waiting": 2, "why": [], **dict.fromkeys(QUEUE_COLUMNS, 0), "durable": True, "selector": None, "slot": 3}


@pytest.mark.parametrize(
    ("line", "given", "code", "said"),
    [
        ("disconnect --user bob --yes", [{"total": 2}, {"done": 2, "more": False, "missing": AWAY}], 1, "2"),
        ("disconnect --user bob --yes", [{"total": 2}, {"done": 2, "more": False, "missing": []}], 0, "2"),
        ("export q -", [{"parts": [PART], "missing": []}, {"items": [ROW], "next": None, "missing": AWAY}], 1, "0-1"),
        ("queue show q", [{"parts": [PART], "missing": AWAY}], 0, "waiting"),
        ("dlq", [{"queues": [], "complete": True, "missing": AWAY}], 0, "COUNT"),
        ("dlq q", [{"groups": [], "complete": True, "missing": AWAY}], 0, "COUNT"),
        ("messages q", [{"items": [], "next": None, "missing": AWAY}], 0, "ID"),
        ("top --count 1", [TOTALS | {"missing": AWAY}, {"items": [], "next": None, "missing": []}], 0, "edge-1 is"),
    ],
)
def test_what_an_answer_lacks_is_said_and_what_was_not_all_done_has_its_code(broker, line, given, code, said):
    """Half of a user's connections went on, half of a queue was in the file, and the command had exit code 0."""
    url = broker(*[(200, told) for told in given])._url.removesuffix("/api/v1")
    result = CliRunner().invoke(main, [*line.split(), "--url", url])
    assert (result.exit_code, said in result.stdout) == (code, True), (result.stdout, result.stderr)
    assert ("edge-1 is missing: away" in result.output) is any(told.get("missing") for told in given)


@pytest.mark.parametrize(("path", "most"), [("/queues", subject.PAGE), ("/queues/q/messages", 200)])
def test_a_page_is_as_large_as_the_api_allows(broker, path, most):
    list(broker(page()).rows(path, 10_000))
    assert f"limit={most}" in Answers.asked[0][1]


def test_a_broker_that_starts_is_asked_again_and_not_for_ever(broker, capsys):
    starting = (503, {"type": subject.STARTING, "title": "It starts", "detail": "wait"})
    assert broker(starting, starting, (200, {"x": 1})).get("/about") == {"x": 1} and len(Answers.asked) == 3
    Answers.asked.clear()
    with pytest.raises(SystemExit) as end:
        broker(starting).get("/about")
    assert end.value.code == subject.REFUSED and 4 <= len(Answers.asked) <= 8
    assert "It starts: wait" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "told", "code", "said"),
    [
        (404, {"title": "No", "detail": "none", "fix": "look"}, subject.NO_SUCH_THING, "No: none\nLook.\n"),
        (409, {"title": "No", "detail": "taken"}, subject.REFUSED, "No: taken\n"),
        (500, b"<html>", subject.REFUSED, "Check --url: that is no admin port of a broker.\n"),
        (500, [], subject.REFUSED, "Check --url: that is no admin port of a broker.\n"),
    ],
)
def test_a_refusal_is_told_with_its_fix_and_a_code(broker, capsys, status, told, code, said):
    with pytest.raises(SystemExit) as end:
        broker((status, told)).get("/x")
    assert end.value.code == code and capsys.readouterr().err.endswith(said)


def test_what_is_no_json_is_no_answer(broker, capsys):
    with pytest.raises(SystemExit) as end:
        broker((200, b"<html>")).get("/x")
    assert end.value.code == subject.NO_CONNECTION and "stampede serve" in capsys.readouterr().err


def test_only_what_was_said_is_sent(broker):
    api = broker((200, {}))
    api.call("POST", "/x", {"a": 1, "b": None})
    api.call("DELETE", "/x", {"a": 1})
    assert [(method, body) for method, _, body, _ in Answers.asked] == [("POST", b'{"a": 1}'), ("DELETE", b"")]


@pytest.mark.parametrize(
    ("login", "token", "header"),
    [("ada", "t", "Basic YWRhOng="), (None, "t", "Bearer t"), (None, None, "")],
)
def test_who_asks_is_a_user_or_a_machine(broker, monkeypatch, login, token, header):
    monkeypatch.setenv("STAMPEDE_PASSCODE", "x")
    monkeypatch.delenv("STAMPEDE_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("STAMPEDE_TOKEN", token)
    broker((200, {}), login=login).get("/x")
    assert Answers.asked[0][3] == header


def test_names_are_one_part_of_a_path():
    assert subject.part("a/b::c d#") == "a%2Fb%3A%3Ac%20d%23"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), ("", "-"), (True, "yes"), (False, "no"), (["a", 1], "a,1"), (0, "0"),
        ("a\x1b[2J", "a\ufffd[2J"), ("x" * 200, "x" * 120),
    ],
)  # fmt: skip
def test_a_cell_is_one_line_without_control_characters(value, text):
    assert subject.cell(value) == text


def test_a_table_has_numbers_to_the_right(capsys):
    subject.show([{"name": "a", "n": 5}, {"name": "long", "n": 1000}], ["name", "n"], "table")
    assert capsys.readouterr().out == "NAME     N\na        5\nlong  1000\n"
    subject.show([{"name": "ä"}], ["name"], "json")
    assert json.loads(capsys.readouterr().out) == [{"name": "ä"}]
    subject.show([{"name": "ä"}], ["name"], "yaml")
    assert capsys.readouterr().out == "- name: ä\n"


def test_what_cannot_be_undone_is_confirmed_by_its_name(monkeypatch):
    subject.confirm("q", "It goes.", True)
    for typed, right in (("q ", True), ("other", False), ("", False)):
        monkeypatch.setattr(subject.click, "prompt", lambda *_, typed=typed, **__: typed)
        if right:
            subject.confirm("q", "It goes.", False)
        else:
            with pytest.raises(click.UsageError, match="not confirmed"):
                subject.confirm("q", "It goes.", False)
