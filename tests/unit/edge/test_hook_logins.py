"""Logins that a service or a function judges: only a clear yes is one, and who answers wrongly lets nobody in."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from broker.core.errors import ConfigError, RefusedError
from broker.core.virtual_host import DEFAULT, VirtualHost
from broker.edge.access.hook_logins import HookLogins

from .clocked import Time

CHANNEL: Any = SimpleNamespace(peer="10.0.0.1:5", id=1)
YES = {"allow": True, "groups": ["staff"], "valid_s": 60}


class Service:
    """answer: what it says next, or a status.    asked: what it was asked, with its headers."""

    def __init__(self) -> None:
        self.answer: Any = YES
        self.asked: list[tuple[dict[str, Any], Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.asked.append((json.loads(body), self.headers))
                said = service.answer
                text = said.encode() if isinstance(said, str) else json.dumps(said).encode()
                self.send_response(said if isinstance(said, int) and not isinstance(said, bool) else 200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/judge"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.server.shutdown()
    service.server.server_close()


@pytest.fixture
def logins() -> Iterator[Callable[..., HookLogins]]:
    made: list[HookLogins] = []

    def make(clock: Any = None, **table: Any) -> HookLogins:
        made.append(HookLogins({"ours": table}, clock or Time()))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def test_a_service_says_who_comes_in_with_which_groups_and_for_how_long(
    service: Service, logins: Any, tmp_path: Any
) -> None:
    (tmp_path / "t").write_text("of-the-broker\n")
    time = Time()
    made = logins(time, url=service.url, token_file=str(tmp_path / "t"), groups_prefix="x:", user_prefix="y:")
    found = await made.prove("ada", "ada-pass", DEFAULT, CHANNEL)
    assert (found.name, found.groups, found.outside) == ("y:ada", ("x:staff",), True)
    assert found.until == time.now + 60 and made.still_valid(found.mark) and not made.still_valid(0)
    ((asked, headers),) = service.asked
    assert asked == {"login": "ada", "passcode": "ada-pass", "host": "", "peer": "10.0.0.1:5"}
    assert headers["Authorization"] == "Bearer of-the-broker"
    assert (
        made.known("ada", "ada-pass", DEFAULT, CHANNEL) == found
        and made.known("ada", "other", DEFAULT, CHANNEL) is None
    )
    time.now += 61
    assert made.known("ada", "ada-pass", DEFAULT, CHANNEL) is None


@pytest.mark.parametrize(
    "answer",
    [{"allow": False}, {"allow": "true"}, {"allow": 1}, {}, None, False, [], "yes", "{", 403, 500,
     {"allow": True, "groups": "staff"}, {"allow": True, "groups": [1]}, {"allow": True, "valid_s": 0},
     {"allow": True, "valid_s": True}, "x" * 70_000, '{"allow": true, "valid_s": NaN}',
     '{"allow": true, "valid_s": Infinity}', '{"allow": true, "valid_s": 1' + "0" * 400 + "}"],
)  # fmt: skip
async def test_anything_but_a_clear_yes_is_a_no(service: Service, logins: Any, answer: Any) -> None:
    service.answer = answer
    with pytest.raises(RefusedError, match="or password is invalid"):
        await logins(url=service.url).prove("ada", "ada-pass", DEFAULT, CHANNEL)


async def test_a_no_earns_waits_and_no_answer_does_not(
    service: Service, logins: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made, slept = logins(url=service.url), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    made._checks._penalties._sleep = sleep
    for answer, waits in ((500, 0), ({"allow": False}, 3)):
        service.answer = answer
        for _ in range(6):
            with pytest.raises(RefusedError):
                await made.prove("ada", "s3cret", DEFAULT, CHANNEL)
        assert len(slept) == waits
    assert caplog.text.count("nobody new can log in") == 1 and "s3cret" not in caplog.text


async def test_groups_that_nobody_could_name_are_left_out(service: Service, logins: Any) -> None:
    service.answer = {"allow": True, "groups": ["b", "a", "a", "*", "x,y", " z"]}
    found = await logins(url=service.url).prove("ada", "x", DEFAULT, CHANNEL)
    assert found.groups == ("a", "b") and found.until == 0


async def test_its_users_count_where_it_says(service: Service, logins: Any) -> None:
    made = logins(url=service.url, virtual_hosts="shop")
    assert (await made.prove("ada", "x", VirtualHost("shop", "."), CHANNEL)).name == "$host/shop.ada"
    for login, host in (("ada", DEFAULT), ("$host/shop.ada", VirtualHost("shop", ".")), ("", VirtualHost("shop", "."))):
        with pytest.raises(RefusedError):
            await made.prove(login, "x", host, CHANNEL)
    assert len(service.asked) == 1


async def test_a_function_is_asked_alike(logins: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("company_logins")
    module.judge = lambda asked: YES if asked["passcode"] == "right" else None
    module.broken = lambda asked: 1 // 0
    monkeypatch.setitem(sys.modules, "company_logins", module)
    assert (await logins(python="company_logins:judge").prove("ada", "right", DEFAULT, CHANNEL)).name == "ada"
    for python, passcode in (("judge", "wrong"), ("broken", "right")):
        with pytest.raises(RefusedError):
            await logins(python=f"company_logins:{python}").prove("ada", passcode, DEFAULT, CHANNEL)
    for python in ("company_logins:nothing", "nowhere_at_all:judge", "company_logins:__name__"):
        with pytest.raises(ConfigError, match=r"MODULE:FUNCTION|no function"):
            logins(python=python)


async def test_a_yes_is_that_of_the_address_that_was_asked_about(service: Service, logins: Any) -> None:
    made = logins(url=service.url)
    elsewhere: Any = SimpleNamespace(peer="10.0.0.2:5", id=2)
    await made.prove("ada", "x", DEFAULT, CHANNEL)
    assert made.known("ada", "x", DEFAULT, SimpleNamespace(peer="10.0.0.1:6", id=3)) is not None
    assert made.known("ada", "x", DEFAULT, elsewhere) is None
    service.answer = {"allow": False}
    with pytest.raises(RefusedError):
        await made.prove("ada", "x", DEFAULT, elsewhere)


async def test_what_a_function_says_of_its_failure_is_not_told(
    logins: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def judge(asked: Any) -> Any:
        raise ValueError(f"cannot ask about {asked}")

    module: Any = ModuleType("company_logins")
    module.judge = judge
    monkeypatch.setitem(sys.modules, "company_logins", module)
    with pytest.raises(RefusedError):
        await logins(python="company_logins:judge").prove("ada", "s3cret", DEFAULT, CHANNEL)
    assert "ValueError (" in caplog.text and "test_hook_logins.py:" in caplog.text and "s3cret" not in caplog.text
