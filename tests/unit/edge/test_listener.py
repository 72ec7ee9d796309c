"""Listening sockets: all that is turned on is bound or nothing, and a port that cannot be had names its setting."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import ConfigError
from broker.edge.access import listener
from broker.edge.access.listener import Listeners, listen_host

OFF = {"tls_port": -1, "ws_port": -1, "wss_port": -1}
NOWHERE = {"port": -1, **OFF}


def made(users: bool = False, host: str = "127.0.0.1", **edge: Any) -> Listeners:
    settings = Settings(edge=EdgeSettings(**{"port": 0, **OFF, **edge}))
    loop: Any = asyncio.get_running_loop()
    nobody: Any = SimpleNamespace(open_from=lambda: {})
    return Listeners(nobody, settings, loop, host, users)


async def connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.transport.abort()
    return True


@pytest.mark.parametrize(
    ("host", "users", "expected"),
    [("", False, "127.0.0.1"), ("", True, ""), ("10.0.0.1", False, "10.0.0.1"), ("10.0.0.1", True, "10.0.0.1")],
)
def test_without_users_only_this_machine_is_served(host, users, expected):
    assert listen_host(EdgeSettings(host=host), users) == expected


async def test_real_ports_are_known_and_shown_and_ports_that_are_off_are_not():
    listeners = made(ws_port=0)
    assert listeners.rows() == [] and listeners.banner() == []
    await listeners.start()
    try:
        assert sorted(listeners.ports) == ["tcp", "ws"] and all(listeners.ports.values())
        assert listeners.banner()[0] == f"  {'STOMP':<22} 127.0.0.1 port {listeners.ports['tcp']}"
        rows = {row["name"]: row for row in listeners.rows()}
        assert rows["tcp"]["path"] == "" and rows["tcp"]["host"] == "127.0.0.1" and rows["tcp"]["tls"] is False
        assert rows["ws"]["label"] == "STOMP over WebSocket" and rows["ws"]["port"] == listeners.ports["ws"]
        listeners.stop_accepting()
        listeners.stop_accepting()
        await asyncio.sleep(0)
        assert not await connects(listeners.ports["tcp"])
    finally:
        await listeners.close()


async def test_a_port_that_is_taken_names_the_setting_and_no_other_port_is_left_open():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listeners = made(ws_port=port)
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1: it is in use; .* change edge.ws_port"):
            await listeners.start()
        assert not await connects(listeners.ports["tcp"]), "all or nothing"
        assert listeners._sockets == [] and listeners._servers == []


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EADDRINUSE, "in use; stop the other program or change edge.port"),
        (errno.EADDRNOTAVAIL, "does not have that address; change edge.host"),
        (errno.EACCES, "not permitted .* change edge.port"), (errno.ENOBUFS, "change edge.port or edge.host"),
    ],
)  # fmt: skip
async def test_why_a_port_cannot_be_had_says_what_to_change(monkeypatch, number, told):
    def fail(self: Listeners, *_: object) -> None:
        raise OSError(number, "why")

    monkeypatch.setattr(Listeners, "_bind", fail)
    listeners = made()
    with pytest.raises(ConfigError, match=told):
        await listeners.start()
    assert listeners._sockets == []


async def test_a_host_that_is_unknown_names_its_setting(monkeypatch):
    listeners = made(host="nowhere.invalid")

    async def unknown(*_: object, **__: object) -> None:
        raise OSError(-2, "Name or service not known")

    listeners._loop = SimpleNamespace(getaddrinfo=unknown)  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"'nowhere.invalid': Name or service not known; change edge.host"):
        await listeners._addresses("tcp", listeners._acceptors["tcp"])
    listeners._loop = asyncio.get_running_loop()
    await listeners.close()


@pytest.mark.parametrize("dual", [True, False])
async def test_every_interface_is_one_socket(monkeypatch, dual):
    monkeypatch.setattr(listener.socket, "has_dualstack_ipv6", lambda: dual)
    listeners = made(host="")
    found = await listeners._addresses("tcp", listeners._acceptors["tcp"])
    assert found == [(socket.AF_INET6 if dual else socket.AF_INET, "")]
    await listeners.close()


@pytest.mark.parametrize(("users", "host", "told"), [(True, "", True), (False, "", False), (True, "127.0.0.1", False)])
async def test_passcodes_in_clear_text_are_told_of_or_refused_where_others_reach_the_port(users, host, told, caplog):
    for clear_text in ("warn", "refuse"):
        listeners = made(users, host, clear_text=clear_text)
        listeners.ports = {"tcp": 61613}
        caplog.clear()
        with caplog.at_level(logging.WARNING, "stampede.edge"):
            if told and clear_text == "refuse":
                with pytest.raises(ConfigError, match=r"edge.clear_text is refuse.*all interfaces port 61613"):
                    listeners._in_clear_text()
            else:
                listeners._in_clear_text()
        assert ("edge.port = -1" in caplog.text) is (told and clear_text == "warn")
        await listeners.close()


async def test_nothing_to_listen_on_is_nothing():
    listeners = made(**NOWHERE)
    await listeners.start()
    assert listeners.ports == {} and listeners.rows() == []
    await listeners.close()
