"""Every limit: its own error code, its own close reason, and its name in the text so that it can be raised."""

from __future__ import annotations

import time

import pytest

from broker.core.errors import Code
from tests.harness import Client, build, until
from tests.harness.stomp import ClosedByBroker

CONNECTIONS, PER_IP = 30, 20
SETTINGS = {
    "edge.max_connections": CONNECTIONS,
    "edge.max_connections_per_ip": PER_IP,
    "edge.max_subscriptions": 50,
    "edge.max_transactions": 5,
    "edge.max_transaction_frames": 20,
    "edge.max_transaction_bytes": 10_000,
    "edge.max_eol_per_s": 1000,
    "wire.max_frame_bytes": 2_000_000,
    "wire.max_frame_bytes_before_login": 4096,
}


def crowd(broker, count, source):
    """Logged in from one address, as many as asked for."""
    clients = [Client(broker.port, source=source) for _ in range(count)]
    for client in clients:
        client.connect()
    return clients


def test_connections_from_one_address(broker, counted, ends):
    clients = crowd(broker, PER_IP, "127.0.0.2")
    try:
        with Client(broker.port, source="127.0.0.2") as one_more:
            assert b"max_connections_per_ip" in ends(one_more, Code.CONNECTION_LIMIT).body
        with Client(broker.port, source="127.0.0.3") as neighbour:
            neighbour.connect()
        counted("connection_limit")
    finally:
        for client in clients:
            client.close()

    def let_in() -> bool:
        with Client(broker.port, source="127.0.0.2") as later:
            try:
                later.connect()
            except (AssertionError, ClosedByBroker):
                return False
        return True

    until(let_in, "the places are not free again")


def test_connections_of_the_whole_process(broker, counted, ends):
    clients = crowd(broker, PER_IP - 1, "127.0.0.4") + crowd(broker, CONNECTIONS - PER_IP, "127.0.0.5")
    try:
        with Client(broker.port, source="127.0.0.6") as one_more:
            assert b"max_connections" in ends(one_more, Code.CONNECTION_LIMIT).body
        counted("connection_limit")
        for client in clients:
            client.nothing()
    finally:
        for client in clients:
            client.close()
    until(lambda: broker.metrics()['stomp_connections{transport="tcp"}'] <= 5, "they are not gone")


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_frame_before_login(dial, counted, ends, announced):
    client = dial()
    extra = {"content-length": 5000} if announced else {}
    client.send("CONNECT", {"accept-version": "1.0,1.1", "host": "x"} | extra, b"x" * 5000)
    ends(client, Code.FRAME_TOO_LARGE)
    counted("frame_too_large")


def test_a_large_header_block_before_login(dial, counted):
    client = dial()
    client.send("CONNECT", [("accept-version", "1.2"), *((f"h{n}", "x" * 900) for n in range(20))])
    frame = client.expect("ERROR")
    assert frame["error-code"] == str(Code.FRAME_TOO_LARGE.number)
    client.ended()
    counted("frame_too_large")


@pytest.mark.parametrize("data", [b"A" * 33 + b"\n", b"A" * 33, b"A" * 100_000], ids=["line", "no-end", "endless"])
def test_a_command_of_33_bytes(join, counted, ends, data):
    client = join()
    client.raw(data)
    ends(client, Code.COMMAND_TOO_LONG)
    counted("header_too_large")


@pytest.mark.parametrize("end", [b"\n\n\0", b"", b"x" * 200_000], ids=["whole", "no-end", "endless"])
@pytest.mark.parametrize("part", [b"name:", b""], ids=["value", "name"])
def test_a_header_of_10_kib(join, counted, ends, end, part):
    client = join()
    client.raw(b"SEND\ndestination:/queue/a\n" + part + b"x" * 10_300 + end)
    ends(client, Code.HEADER_TOO_LONG)
    counted("header_too_large")


def test_headers_of_64_kib_together(join, counted, ends):
    client = join()
    client.send("SEND", [("destination", "/queue/a"), *((f"h{n}", "x" * 9000) for n in range(8))])
    ends(client, Code.HEADERS_TOO_LARGE)
    counted("header_too_large")


def test_the_101st_header(join, counted, ends):
    client = join()
    client.send("SEND", [("destination", "/queue/a"), *((f"h{n}", n) for n in range(100))])
    ends(client, Code.TOO_MANY_HEADERS)
    counted("header_too_large")


@pytest.mark.parametrize("line", [b"a:b\n", b"a:\n"])
def test_a_million_repeated_headers(broker, join, counted, line):
    before = broker.rss()
    client = join()
    client.raw(b"SEND\ndestination:/queue/a\n" + line * 1_000_000)
    assert client.expect("ERROR")["error-code"] in (str(Code.TOO_MANY_HEADERS.number), str(Code.HEADER_TOO_LONG.number))
    client.ended()
    counted("header_too_large")
    assert broker.rss() - before < 8_000_000


@pytest.mark.parametrize("length", ["2000001", "9" * 18, "1" + "0" * 30])
def test_a_content_length_beyond_the_limit(join, counted, ends, length):
    client = join()
    client.send("SEND", {"destination": "/queue/a", "content-length": length, "receipt": "r"}, b"x")
    ends(client, Code.FRAME_TOO_LARGE, "r")
    counted("frame_too_large")


def test_a_body_without_end(broker, join, counted):
    before = broker.rss()
    client = join()
    client.raw(b"SEND\ndestination:/queue/a\n\n" + b"x" * 2_100_000)
    assert client.expect("ERROR")["error-code"] == str(Code.FRAME_TOO_LARGE.number)
    client.ended()
    counted("frame_too_large")
    assert broker.rss() - before < 8_000_000


@pytest.mark.parametrize(("version", "command"), [("1.0", "SUBSCRIBE"), ("1.1", "BEGIN")])
def test_a_large_body_where_none_belongs(join, counted, ends, version, command):
    client = join(version)
    headers = {"id": "1", "destination": "/queue/a", "transaction": "t", "receipt": "r"}
    client.send(command, headers | {"content-length": 100_000}, b"x" * 100_000)
    ends(client, Code.FRAME_TOO_LARGE, "r")
    counted("frame_too_large")


def test_subscriptions_of_one_connection(join, queue, counted, ends):
    client = join()
    client.raw(b"".join(build("SUBSCRIBE", {"id": n, "destination": f"{queue}.{n}"}) for n in range(50)))
    client.nothing()
    client.send("SUBSCRIBE", {"id": "x", "destination": queue, "receipt": "r"})
    assert b"max_subscriptions" in ends(client, Code.SUBSCRIPTION_LIMIT, "r").body
    counted("subscription_limit")


def test_subscribing_and_unsubscribing_for_ever_leaks_nothing(broker, join, queue):
    client = join()

    def rounds(count):
        for start in range(0, count, 50):
            client.raw(
                b"".join(
                    build("SUBSCRIBE", {"id": n, "destination": f"{queue}.{n}"}) + build("UNSUBSCRIBE", {"id": n})
                    for n in range(start, start + 50)
                )
            )
            client.nothing()

    rounds(500)
    before = broker.rss()
    rounds(3000)
    assert broker.rss() - before < 4_000_000
    assert broker.metrics()["stomp_subscriptions"] == 1  # the innocent's


def test_open_transactions_of_one_connection(join, counted, ends):
    client = join()
    for number in range(5):
        client.ask("BEGIN", {"transaction": number})
    client.send("BEGIN", {"transaction": "x", "receipt": "r"})
    assert b"max_transactions" in ends(client, Code.TRANSACTION_LIMIT, "r").body
    counted("transaction_limit")


@pytest.mark.parametrize(("count", "size", "setting"), [(21, 1, b"frames"), (3, 4000, b"bytes")])
def test_size_of_a_transaction(join, queue, counted, ends, count, size, setting):
    client, reader = join(), join()
    client.ask("BEGIN", {"transaction": "t"})
    for _ in range(count - 1):
        client.send("SEND", {"destination": queue, "transaction": "t"}, b"x" * size)
    client.send("SEND", {"destination": queue, "transaction": "t", "receipt": "r"}, b"x" * size)
    assert b"max_transaction_" + setting in ends(client, Code.TRANSACTION_LIMIT, "r").body
    counted("transaction_limit")
    reader.subscribe(queue)
    reader.nothing()


def test_endless_empty_lines(join, counted, ends):
    client = join()
    client.raw(b"\n" * 50_000)
    ends(client, Code.HEARTBEAT_FLOOD)
    counted("heartbeat_flood")


def test_an_empty_line_after_every_frame_is_no_flood(join):
    client = join()
    client.raw((build("SEND", {"destination": "/topic/nobody"}) + b"\n") * 5000)
    client.nothing()


@pytest.mark.parametrize("size", [1025, 9000])
def test_a_destination_that_is_too_long(join, counted, ends, size):
    client = join()
    client.send("SEND", {"destination": "/queue/" + "x" * size, "receipt": "r"})
    ends(client, Code.BAD_DESTINATION, "r")
    counted("refused")


@pytest.mark.parametrize("odd", ["../../etc/passwd", "..", ".", "a/../b", "C\\c\\\\x", r"a\nb", "%00", "<"])
def test_odd_destinations_are_names_and_nothing_else(broker, join, name, odd):
    """They never meet the file system. (`*`, `#`: conformance/test_wildcards.py; `>` is refused by name.)"""
    client, reader = join(), join()
    reader.subscribe(f"/queue/{name}.x")
    files = {path for path in broker.folder.rglob("*") if "journal" not in path.parts}
    for destination in (f"/queue/{name}.{odd}", f"/queue/{odd}"):
        client.subscribe(destination, id=destination)
        client.publish(destination, b"x", persistent="true")
        assert client.read().body == b"x"
    reader.nothing()
    assert {path for path in broker.folder.rglob("*") if "journal" not in path.parts} == files


@pytest.mark.parametrize("selector", ["(" * 3000 + "a = 1" + ")" * 3000, "a = 1 AND" * 900])
def test_an_evil_selector(join, queue, counted, ends, selector):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": queue, "selector": selector, "receipt": "r"})
    ends(client, Code.BAD_SELECTOR, "r")
    counted("refused")


def test_a_pattern_that_would_backtrack_for_ever(join, queue):
    """Legal, and as quick as any: what waits for it goes past it."""
    client = join()
    pattern = "%a" * 2000 + "b"
    client.send("SUBSCRIBE", {"id": "1", "destination": queue, "selector": f"a LIKE '{pattern}'", "receipt": "r"})
    client.expect("RECEIPT", {"receipt-id": "r"})
    begin = time.monotonic()
    for n in range(20):
        client.send("SEND", {"destination": queue, "a": "a" * 9000, "receipt": f"s{n}"}, b"x")
        client.expect("RECEIPT", {"receipt-id": f"s{n}"})
    assert time.monotonic() - begin < 2
