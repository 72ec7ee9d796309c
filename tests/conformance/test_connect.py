"""C20 … C28 and C10: CONNECT, versions, what CONNECTED says; frames at the wrong time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, scratch

from .checks import error, every_version, since_11

SERVER = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)?( .*)?")
AWKWARD = r"back\slash \n \c \t: colon"
"""A passcode that changes when somebody unescapes it."""


@every_version
def test_C20_connect_is_answered_by_connected(dial, version):
    frame = dial(version).connect()
    assert frame.body == b""


@since_11
def test_C22_the_stomp_frame_is_a_connect(dial, version):
    client = dial(version)
    client.send("STOMP", {"accept-version": version, "host": "any"})
    assert client.expect("CONNECTED")["version"] == version


def test_C23_no_accept_version_means_10(dial, queue):
    client = dial("1.0")
    client.send("CONNECT")
    assert client.expect("CONNECTED").get("version") in (None, "1.0")
    client.ask("SUBSCRIBE", {"destination": queue, "ack": "client"})  # 1.1 would miss an id
    client.publish(queue, b"x")
    message = client.read()
    assert "ack" not in message.headers
    client.ask("ACK", {"message-id": message["message-id"]})


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("1.0,1.1,1.2", "1.2"), ("1.2,1.1,1.0", "1.2"), ("1.0,1.1", "1.1"), ("1.1", "1.1"), ("1.0", "1.0"),
        ("1.1, 1.2", "1.2"), ("9.9,1.2", "1.2"), ("1.0,1.3", "1.0"),
    ],
)  # fmt: skip
def test_C24_the_highest_common_version_wins(dial, offered, chosen):
    client = dial()
    client.send("CONNECT", {"accept-version": offered, "host": "x"})
    assert client.expect("CONNECTED")["version"] == chosen


@pytest.mark.parametrize("offered", ["2.0", "0.9,1.3", "12", "1.", "one"])
def test_C25_no_common_version_gets_the_list_and_the_end(dial, offered):
    client = dial()
    client.send("CONNECT", {"accept-version": offered, "host": "x"})
    frame = error(client, Code.VERSION_MISMATCH)
    assert sorted(frame["version"].split(",")) == ["1.0", "1.1", "1.2"]


@every_version
@pytest.mark.parametrize("host", [None, "", "no.such.host", "/", "a:b"])
def test_C26_any_host_or_none_is_served(dial, version, host):
    client = dial(version)
    headers = {"accept-version": version} | ({} if host is None else {"host": host})
    client.send("CONNECT", headers)
    client.expect("CONNECTED")


@since_11
def test_C27_the_server_header_names_product_and_version(dial, version):
    server = dial(version).connect()["server"]
    assert SERVER.fullmatch(server), server


@every_version
def test_C28_connected_has_a_session_of_its_own(dial, version):
    assert dial(version).connect()["session"] != dial(version).connect()["session"]


@every_version
def test_a_receipt_on_connect_does_no_harm(dial, version):
    client = dial(version)
    client.connect({"receipt": "early"})
    client.nothing()


@every_version
def test_a_second_connect_is_an_error(join, version):
    client = join(version)
    client.send("CONNECT", {"accept-version": version, "host": "x", "receipt": "again"})
    error(client, Code.ALREADY_CONNECTED, "again")


@pytest.mark.parametrize(
    "headers",
    [
        ("SEND", {"destination": "/queue/early"}), ("SUBSCRIBE", {"id": "1", "destination": "/queue/early"}),
        ("ACK", {"id": "1"}), ("BEGIN", {"transaction": "t"}), ("DISCONNECT", {}),
    ],
    ids=lambda case: case[0],
)  # fmt: skip
def test_a_frame_before_connect_is_an_error(dial, headers):
    client = dial()
    command, pairs = headers
    client.send(command, pairs | {"receipt": "r"})
    error(client, Code.NOT_CONNECTED, "r")


@every_version
def test_C34_an_unknown_command_is_an_error(join, version):
    client = join(version)
    client.send("SENT", {"destination": "/queue/a", "receipt": "r"})
    error(client, Code.UNKNOWN_COMMAND, "r")


def test_C34_an_unknown_first_command_is_an_error(dial):
    client = dial()
    client.raw(b"HELLO\n\n\0")
    frame = client.expect("ERROR")
    assert frame["error-code"] in (str(Code.UNKNOWN_COMMAND.number), str(Code.NOT_CONNECTED.number))
    client.ended()


@every_version
def test_C19_quick_connect_and_disconnect_cycles(join, version):
    for _ in range(20):
        client = join(version)
        client.ask("DISCONNECT")
        client.ended()


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with the user `ann`."""
    with scratch(request, "guarded") as folder:
        broker = Broker(folder)
        broker.add_user("ann", AWKWARD)
        with broker:
            yield broker
            assert AWKWARD not in broker.log()


SOURCES = (f"127.9.{a}.{b}" for a in range(256) for b in range(1, 255))


def login(guarded: Broker, version: str, cut: str, headers: dict[str, object]) -> Client:
    """From an address of its own: failures make later logins from the same address wait."""
    client = Client(guarded.port, version, cut=cut, source=next(SOURCES))
    client.send("CONNECT", {"accept-version": version, "host": "x"} | headers)
    return client


@every_version
@pytest.mark.parametrize(
    "headers",
    [{"login": "ann", "passcode": "wrong"}, {"login": "bob", "passcode": AWKWARD}, {"login": "ann"}, {}],
    ids=["wrong-passcode", "unknown-user", "no-passcode", "nothing"],
)
def test_C21_rejected_login_gets_error_then_close(guarded, version, cut, headers):
    with login(guarded, version, cut, headers | {"receipt": "in"}) as client:
        frame = error(client, Code.LOGIN_FAILED, "in")
        # The same words whatever was wrong: nothing tells which users there are.
        said = f"Security Error occurred: User name [{headers.get('login', '')}] or password is invalid"
        assert frame.body == said.encode()


@since_11
def test_C10_connect_headers_are_not_unescaped(guarded, version, cut):
    with login(guarded, version, cut, {"login": "ann", "passcode": AWKWARD}) as client:
        client.expect("CONNECTED")


def test_what_follows_connect_in_the_same_packet_waits_for_the_login(guarded, queue):
    """The login is decided in a thread; pipelined frames must neither be lost nor overtake it."""
    with Client(guarded.port, source=next(SOURCES)) as client:
        client.raw(
            f"CONNECT\naccept-version:1.2\nhost:x\nlogin:ann\npasscode:{AWKWARD}\n\n\0"
            f"SUBSCRIBE\nid:1\ndestination:{queue}\nreceipt:a\n\n\0SEND\ndestination:{queue}\n\nhello\0".encode()
        )
        client.expect("CONNECTED")
        client.expect("RECEIPT", {"receipt-id": "a"})
        assert client.read().body == b"hello"


def test_what_follows_a_rejected_connect_is_not_carried_out(guarded, queue):
    with Client(guarded.port, source=next(SOURCES)) as client:
        client.raw(
            "CONNECT\naccept-version:1.2\nhost:x\nlogin:ann\npasscode:no\n\n\0"
            f"SEND\ndestination:{queue}\npersistent:true\nreceipt:a\n\nstolen\0".encode()
        )
        error(client, Code.LOGIN_FAILED)
    with login(guarded, "1.2", False, {"login": "ann", "passcode": AWKWARD}) as client:
        client.expect("CONNECTED")
        client.subscribe(queue)
        client.nothing()


def test_a_client_of_1_0_is_told_version_server_and_heart_beat(dial: Callable[..., Client]) -> None:
    """RabbitMQ and ActiveMQ say them; nine tests of RabbitMQ's own suite want them."""
    client = dial("1.0")
    client.send("CONNECT", {})
    told = client.expect("CONNECTED")
    assert told["version"] == "1.0" and told["server"].startswith("stampede/") and told["heart-beat"] == "0,0"
