"""What an acceptor may let its clients do against the rules of STOMP, as RabbitMQ does: off by default."""

from __future__ import annotations

import socket
import subprocess
import sys
from base64 import b64encode

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.harness import Broker, Client, scratch
from tests.harness.broker import free_ports

from .checks import error

pytestmark = pytest.mark.xdist_group("rabbitmq-leniency")
LENIENT = {
    "virtual_hosts": "/, shop, localhost", "default_user": "guest", "implicit_connect": "true",
    "subscribe_without_id": "true", "nack_v10": "true", "open_after_error": "true", "trailing_lf": "true",
    "ws_http_auth": "true",
}  # fmt: skip


@pytest.fixture(scope="module")
def ports(request):
    """Of an acceptor with all switches, and of one without any."""
    lenient, strict = free_ports(2)
    settings = {f"acceptors.lenient.{name}": value for name, value in LENIENT.items()}
    for name, port in (("lenient", lenient), ("strict", strict)):
        settings |= {f"acceptors.{name}.port": port, f"acceptors.{name}.dialect": "rabbitmq"}
    settings |= {
        "engine.addresses.full.max_size_messages": 1, "engine.addresses.full.full_policy": "FAIL",
        "edge.permissions.#.send": "guests", "edge.permissions.#.consume": "guests",
        "edge.permissions.#.create_address": "guests", "edge.permissions.#.create_durable_queue": "guests",
    }  # fmt: skip
    with scratch(request, "leniency") as folder:
        broker = Broker(folder, settings)
        broker.add_user("guest", "secret")
        broker.add_user("other", "secret")
        groups(broker)
        with broker:
            yield lenient, strict
            assert "Traceback" not in broker.log()


def groups(broker):
    line = [sys.executable, "-m", "broker.app.cli", "user", "groups", "guest", "guests", "--data", str(broker.data)]
    subprocess.run(line, env=broker.environment(), check=True)


@pytest.fixture
def lenient(ports):
    """Opens connections; connects them unless told otherwise."""
    opened = []

    def join(version="1.2", headers=None, port=ports[0], connect=True):
        client = Client(port, version)
        opened.append(client)
        if connect:
            client.connect(headers or {})
        return client

    yield join
    for client in opened:
        client.close()


@pytest.fixture
def name(request):
    return f"l.{abs(hash(request.node.name))}"


def test_a_login_need_not_be_said_and_may_not_be_wrong(lenient, ports, name):
    client = lenient()
    client.subscribe(f"/queue/{name}")
    client.publish(f"/queue/{name}", b"x")
    assert client.read().body == b"x"
    with Client(ports[0]) as wrong:
        wrong.send("CONNECT", {"accept-version": "1.2", "login": "guest", "passcode": "wrong"})
        error(wrong, "Bad CONNECT")
    with Client(ports[1]) as strict:
        strict.send("CONNECT", {"accept-version": "1.2"})
        error(strict, "Bad CONNECT")


def test_who_logs_in_is_not_the_default_user(lenient, name):
    client = lenient(headers={"login": "other", "passcode": "secret"})
    client.send("SEND", {"destination": f"/queue/{name}", "receipt": "r"}, b"x")
    error(client, "access_refused", receipt="r")


def test_the_host_is_one_of_a_list(lenient, ports):
    for host in ("/", "shop"):
        lenient(headers={"host": host})
    other = lenient(connect=False)
    other.send("CONNECT", {"accept-version": "1.2", "host": "elsewhere"})
    error(other, "Bad CONNECT", "Virtual host 'elsewhere' access denied")
    lenient(port=ports[1], headers={"host": "elsewhere", "login": "guest", "passcode": "secret"})


def test_the_first_frame_need_not_be_connect(lenient, ports, name):
    client = lenient("1.0", connect=False)
    client.send("SUBSCRIBE", {"destination": f"/queue/{name}", "receipt": "s"})
    assert client.read().command == "RECEIPT", "and no CONNECTED"
    client.raw(b"SEND\ndestination:/queue/%b\n\nx\0" % name.encode())
    assert client.read().body == b"x"
    nonsense = lenient("1.0", connect=False)
    nonsense.send("NONSENSE", {})
    error(nonsense, "Bad command")
    with Client(ports[1]) as strict:
        strict.send("SUBSCRIBE", {"destination": f"/queue/{name}"})
        error(strict, "Illegal command")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_subscription_without_id(lenient, ports, name, version):
    client = lenient(version)
    destination = f"/queue/{name}"
    client.ask("SUBSCRIBE", {"destination": destination, "ack": "client"})
    client.publish(destination, b"x")
    message = client.read()
    assert message.get("subscription") is None
    client.ask(
        "ACK", {"id" if version == "1.2" else "message-id": message["ack" if version == "1.2" else "message-id"]}
    )
    client.ask("UNSUBSCRIBE", {"destination": destination})
    strict = lenient(version, {"login": "guest", "passcode": "secret"}, ports[1])
    strict.send("SUBSCRIBE", {"destination": destination, "receipt": "s"})
    error(strict, "Missing header", receipt="s")


def test_nack_in_1_0(lenient, ports, name):
    client = lenient("1.0")
    client.ask("SUBSCRIBE", {"destination": f"/queue/{name}", "ack": "client", "id": "1"})
    client.publish(f"/queue/{name}", b"x")
    client.ask("NACK", {"message-id": client.read()["message-id"], "requeue": "true"})
    assert client.read()["redelivered"] == "true"
    strict = lenient("1.0", {"login": "guest", "passcode": "secret"}, ports[1])
    strict.send("NACK", {"message-id": "1", "receipt": "n"})
    error(strict, "Bad command", receipt="n")


def test_errors_that_leave_the_connection_open(lenient, name):
    client = lenient()
    wrong = [
        ("SEND", {"destination": "/nowhere/a"}, "Unknown destination"),
        ("SEND", {"destination": "/queue/a/b"}, "Invalid destination"),
        ("SEND", {"destination": "/queue/a", "message-id": "mine"}, "Invalid header"),
        ("UNSUBSCRIBE", {"id": "none"}, "No subscription found"),
        ("COMMIT", {"transaction": "none"}, "Bad transaction"),
    ]
    for number, (command, headers, message) in enumerate(wrong):
        client.send(command, {**headers, "receipt": f"r{number}"})
        frame = client.expect("ERROR", {"receipt-id": f"r{number}"})
        assert frame["message"] == message
    client.subscribe(f"/queue/{name}")
    client.publish(f"/queue/{name}", b"x")
    assert client.read().body == b"x"


def test_each_frame_that_is_refused_gets_its_error_in_turn(lenient):
    client, frames = lenient(), b""
    for number in range(4):
        frames += b"SEND\ndestination:/queue/full\nreceipt:r%d\n\nx\0" % number
    client.raw(frames)
    answers = [client.read() for _ in range(4)]
    assert [(frame.command, frame["receipt-id"]) for frame in answers] == [
        ("RECEIPT", "r0"), ("ERROR", "r1"), ("ERROR", "r2"), ("ERROR", "r3"),
    ]  # fmt: skip
    client.raw(b"SEND\ndestination:/nowhere/a\nreceipt:s1\n\nx\0" * 2)
    assert [client.read()["receipt-id"] for _ in range(2)] == ["s1", "s1"]
    client.sync()


def test_a_refused_frame_of_a_transaction_ends_it_with_the_connection(lenient, name):
    client = lenient()
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(f"/queue/{name}", b"x", transaction="t")
    client.send("SEND", {"destination": "/nowhere/a", "transaction": "t", "receipt": "r"}, b"x")
    error(client, "Unknown destination", receipt="r")


LARGE = 300 * 1024
"""Bytes of a body that is streamed."""


def test_each_frame_ends_with_a_line(ports, name):
    """RabbitMQ's trailing_lf: for clients that read up to NUL and LF."""

    def all_of(port: int) -> bytes:
        told = b"".join(b"SEND\ndestination:/queue/%b\nreceipt:%d\n\nx\0" % (name.encode(), n) for n in range(5))
        large = b"SEND\ndestination:/queue/%b\ncontent-length:%d\n\n%b\0" % (name.encode(), LARGE, b"y" * LARGE)
        with socket.create_connection(("127.0.0.1", port), 20) as line:
            line.sendall(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:secret\n\n\0" + told + large)
            line.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/%b\n\n\0" % name.encode())
            found = b""
            while found.count(b"\0") < 1 + 5 + 6:
                found += line.recv(65536)
            line.sendall(b"DISCONNECT\nreceipt:bye\n\n\0")
            while piece := line.recv(65536):
                found += piece
        return found

    with_lf = all_of(ports[0])
    assert with_lf.count(b"\0") == with_lf.count(b"\0\n") == 13 and with_lf.endswith(b"\0\n")
    assert b"\n\n\n" not in with_lf and b"\0\n\n" not in with_lf
    assert b"\0\n" not in all_of(ports[1])


def as_who(port: int, connect_says: dict[str, str], *said: str) -> str:
    """The first answer to a SEND, which guest may and other may not; or to CONNECT."""
    headers = [("Authorization", each) for each in said]
    with connect(f"ws://127.0.0.1:{port}/", additional_headers=headers, open_timeout=20) as line:
        lines = "".join(f"{name}:{value}\n" for name, value in connect_says.items())
        line.send(f"CONNECT\naccept-version:1.2\nhost:/\n{lines}\n\0")
        first = str(line.recv(timeout=20))
        if first.startswith("ERROR"):
            return first
        line.send("SEND\ndestination:/queue/http\nreceipt:r\n\nx\0")
        return str(line.recv(timeout=20))


def basic(login: str, passcode: str) -> str:
    return "Basic " + b64encode(f"{login}:{passcode}".encode()).decode()


def test_the_login_of_a_websocket_is_that_of_its_request(ports):
    """RabbitMQ's use_http_auth: over CONNECT's, and without one it is the default user."""
    lenient, strict = ports
    guest, other = ({"login": login, "passcode": "secret"} for login in ("guest", "other"))
    assert as_who(lenient, guest, basic("other", "secret")).startswith("ERROR\nmessage:access_refused")
    assert as_who(lenient, other, basic("guest", "secret")).startswith("RECEIPT")
    assert as_who(lenient, other).startswith("RECEIPT"), "the default user"
    assert "Bad CONNECT" in as_who(lenient, guest, basic("guest", "wrong"))
    assert as_who(strict, guest, basic("other", "wrong")).startswith("RECEIPT"), "another port has CONNECT's alone"


@pytest.mark.parametrize("said", [["Basic nonsense"], ["Digest x"], [basic("guest", "secret")] * 2])
def test_a_request_that_says_nobody_is_refused(ports, said):
    with pytest.raises(InvalidStatus) as refused:
        as_who(ports[0], {}, *said)
    assert refused.value.response.status_code == 401 and b"ws_http_auth" in refused.value.response.body
