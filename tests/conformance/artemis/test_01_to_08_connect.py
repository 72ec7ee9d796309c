"""Cases 1 to 8: CONNECT, versions, login, DISCONNECT."""

from __future__ import annotations

import pytest

from tests.harness.stomp import ClosedByBroker

from .checks import error
from .sites import LOGIN, PASSCODE

pytestmark = pytest.mark.timeout(180)  # the first test of all waits for the cluster


def test_case_01_connect_without_accept_version(join):
    client = join("1.0")
    client.ask("DISCONNECT")
    client.ended()


def test_case_01_connected_has_a_session_and_no_version(dial):
    connected = dial("1.0").connect()
    assert "version" not in connected.headers
    assert connected["session"]


def test_case_02_the_highest_version_and_the_server_header(dial):
    client = dial()
    client.send("CONNECT", {"accept-version": "1.0,1.1,1.2", "host": "any", "login": LOGIN, "passcode": PASSCODE})
    connected = client.expect("CONNECTED", {"version": "1.2"})
    assert connected["server"]


def test_case_02_no_server_header_where_the_acceptor_says_so(dial):
    assert "server" not in dial(acceptor="bounds").connect().headers


def test_case_03_no_common_version(dial):
    client = dial()
    client.send("CONNECT", {"accept-version": "1.3", "host": "any", "login": LOGIN, "passcode": PASSCODE})
    answer = error(client, "Stomp versions not supported")
    assert answer["version"] == "1.0,1.1,1.2"
    assert answer.body == b"Supported protocol versions are v1.0 v1.1 v1.2"


def test_case_04_stomp_instead_of_connect(dial):
    client = dial()
    client.send("STOMP", {"accept-version": "1.2", "host": "any", "login": LOGIN, "passcode": PASSCODE})
    client.expect("CONNECTED", {"version": "1.2"})


def test_case_05_send_as_the_first_frame(dial, queue):
    client = dial()
    client.send("SEND", {"destination": queue}, b"early")
    error(client, "Connection has not been established")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_case_06_request_id_comes_back(dial, version):
    assert dial(version).connect({"request-id": "1"})["response-id"] == "1"


def test_case_07_a_wrong_password(dial):
    client = dial(source="127.0.0.5")  # failures of an address make it wait
    client.send("CONNECT", {"accept-version": "1.2", "host": "any", "login": LOGIN, "passcode": "wrong"})
    error(client, "Security Error occurred", f"User name [{LOGIN}] or password is invalid")


def test_case_08_disconnect_with_a_receipt_then_nothing_more(join, queue):
    client = join()
    client.send("DISCONNECT", {"receipt": "bye"})
    client.expect("RECEIPT", {"receipt-id": "bye"})
    client.ended()
    with pytest.raises((ClosedByBroker, OSError)):
        client.publish(queue, b"late")
    reader = join()
    reader.subscribe(queue)
    reader.nothing()
