"""Certificates that change under a running broker, and passcodes that nobody ever reads again."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from pathlib import Path

import pytest

from tests.harness import Broker, Client, until
from tests.harness.secrets import add_user, self_signed

PASSCODE = "c0rrect-h0rse-battery"
WRONG = "wr0ng-h0rse-battery"


def presented(broker: Broker) -> bytes:
    """The certificate (DER) a new client is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((broker.host, broker.tls_port), 5) as raw,
        context.wrap_socket(raw) as secure,
    ):
        return secure.getpeercert(binary_form=True) or b""


def der(certificate: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.read_text())


def test_certificate_is_reloaded_without_restart(tmp_path: Path):
    certificate, key = self_signed(tmp_path, "live")
    settings = {"edge.tls_cert_file": certificate, "edge.tls_key_file": key, "edge.tls_reload_s": 0.1}
    context = ssl.create_default_context(cafile=str(certificate))
    with Broker(tmp_path, settings, tls=True) as broker, Client(broker.tls_port, tls=context) as client:
        client.connect()
        client.subscribe("/queue/a")
        assert presented(broker) == der(certificate)
        for name in ("second", "third"):
            new_certificate, new_key = self_signed(tmp_path, name)
            # as cert-manager does: the pair is swapped file by file
            shutil.copy(new_key, tmp_path / "next.key")
            (tmp_path / "next.key").rename(key)
            shutil.copy(new_certificate, tmp_path / "next.pem")
            (tmp_path / "next.pem").rename(certificate)
            new = der(new_certificate)
            until(lambda new=new: presented(broker) == new, f"the {name} certificate is not shown")
        # a broken file keeps the last good pair, and says so
        last = der(certificate)
        certificate.write_text("not a certificate")
        until(lambda: "the old one stays in use" in broker.log(), broker.log)
        assert presented(broker) == last
        # who was connected has noticed nothing
        client.publish("/topic/a", b"x")
        client.publish("/queue/a", b"same connection")
        assert client.expect("MESSAGE").body == b"same connection"
        assert "Traceback" not in broker.log()


def test_passcodes_are_in_no_log_line_error_or_metric(tmp_path: Path):
    broker = Broker(tmp_path, {"edge.audit": "all"}, level="DEBUG")
    add_user(broker, "alice", PASSCODE)
    said = []
    with broker:
        for version in ("1.0", "1.1", "1.2"):
            with Client(broker.port, version) as client:
                client.connect({"login": "alice", "passcode": PASSCODE})
                client.publish("/queue/a", b"x")
        attempts = [
            f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\npasscode:{WRONG}\n\n\0",
            f"STOMP\naccept-version:9.9\nhost:h\nlogin:alice\npasscode:{PASSCODE}\n\n\0",
            f"CONNECT\naccept-version:1.2\nlogin:alice\npasscode:{PASSCODE}\nheart-beat:x\n\n\0",
            f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\npasscode:{PASSCODE}\nno colon here\n\n\0",
            f"CONNECT\naccept-version:1.2\nhost:h\npasscode:{PASSCODE}\\q\n\n\0",
            f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\nPasscode:{PASSCODE}\n\n\0",
            f"SEND\nlogin:alice\npasscode:{PASSCODE}\n\n\0",
            *(
                f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\n{name}:{PASSCODE}\n\n\0"
                for name in ("authorization", "Authorization", "passcodes", "pass-code", "password", "x-token")
            ),
            f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\nauthorization:Bearer {PASSCODE}\n\n\0",
            f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\npasscode:{PASSCODE}" + "x" * 70_000,
        ]
        for attempt in attempts:
            with Client(broker.port) as client:
                client.raw(attempt.encode())
                said.append(str(client.expect("ERROR")))
                client.ended()
        said.append(broker.http("/metrics")[1])
        assert broker.stop() == 0
    log = broker.log()
    assert "CONNECT" in log  # DEBUG does show frames
    for text in (log, *said):
        assert PASSCODE not in text and WRONG not in text, text
    for file in broker.data.rglob("*"):
        if file.is_file():
            assert PASSCODE.encode() not in file.read_bytes(), file


def test_the_audit_log_says_who_came_in_who_did_not_and_what_was_denied(tmp_path: Path):
    settings = {"edge.audit": "all", "edge.permissions.#.consume": "staff"}
    broker = Broker(tmp_path, settings)
    add_user(broker, "alice", PASSCODE)
    with broker:
        with Client(broker.port) as client:
            client.connect({"login": "alice", "passcode": PASSCODE, "client-id": "alice.x"})
            client.send("SEND", {"destination": "/queue/a"}, b"a secret body")
            client.expect("ERROR")
        # The last one has mistaken the login for the passcode.
        for login, passcode in (("alice", WRONG), (PASSCODE, "alice")):
            with Client(broker.port) as client:
                client.send("CONNECT", {"accept-version": "1.2", "host": "h", "login": login, "passcode": passcode})
                client.expect("ERROR")
        assert broker.stop() == 0
    lines = [json.loads(line[line.index("{") :]) for line in broker.log().splitlines() if "stampede.audit" in line]
    told = [(line["who"], line["action"], line["target"], line["outcome"]) for line in lines]
    assert told == [
        ("alice", "login", "", "done"),
        ("alice", "send", "a", "not-allowed"),
        ("alice", "disconnect", "", "refused"),
        ("alice", "login", "", "login-failed"),
        ("", "login", "", "login-failed"),
    ]
    assert all(line["from"].startswith("127.0.0.1:") and line["connection"] for line in lines)
    assert lines[0]["client_id"] in ("", "alice.x") and lines[1]["client_id"] == "alice.x"
    for secret in (PASSCODE, WRONG, "a secret body"):
        assert secret not in broker.log()


@pytest.mark.parametrize("processes", [0, 2], ids=["one process", "edge processes"])
def test_the_audit_log_has_a_file_of_its_own_that_logrotate_may_move(tmp_path: Path, processes: int) -> None:
    path = tmp_path / "audit.jsonl"
    settings = {"log.audit_file": path, "edge.processes": processes}
    broker = Broker(tmp_path / "broker", settings, level="WARNING")
    broker.folder.mkdir()
    add_user(broker, "alice", PASSCODE)

    def guess() -> None:
        with Client(broker.port) as client:
            client.send("CONNECT", {"accept-version": "1.2", "host": "h", "login": "alice", "passcode": WRONG})
            client.expect("ERROR")

    with broker:
        guess()
        until(lambda: path.exists() and path.read_text().count("\n") == 1, "it is not there")
        path.rename(tmp_path / "audit.jsonl.1")
        guess()
        until(lambda: path.exists() and path.read_text().count("\n") == 1, "no new one was begun")
        assert broker.stop() == 0
    for file in (path, tmp_path / "audit.jsonl.1"):
        (line,) = [json.loads(line) for line in file.read_text().splitlines()]
        assert (line["who"], line["action"], line["outcome"]) == ("alice", "login", "login-failed") and line["time"]
        assert WRONG not in file.read_text()
    assert "login-failed" not in broker.log()
