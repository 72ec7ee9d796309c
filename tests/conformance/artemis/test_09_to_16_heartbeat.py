"""Cases 9 to 16: heart-beats and the time to live of a connection.

What takes seconds by its nature (a time to live is at least one second) is kept to as few as the case allows.
"""

from __future__ import annotations

import threading
import time

import pytest

from tests.harness.stomp import ClosedByBroker

from .checks import error


def silent_for(client, least, most):
    """The ERROR of a client that says nothing comes after `least` seconds, and before `most`."""
    start = time.monotonic()
    answer = error(client, "Did not receive data", timeout=most)
    assert least <= time.monotonic() - start <= most
    return answer


def test_case_09_no_heart_beats_on_defaults(dial):
    assert dial().connect({"heart-beat": "0,0"})["heart-beat"] == "0,30000"


def test_case_10_the_least_heart_beats_and_a_client_that_does_not_keep_them(dial):
    client = dial()
    assert client.connect({"heart-beat": "1,1"})["heart-beat"] == "500,500"
    silent_for(client, 0.9, 3)


def test_case_11_five_server_pings_while_the_client_pings(dial):
    client = dial()
    assert client.connect({"heart-beat": "500,1000"})["heart-beat"] == "1000,500"
    end = time.monotonic() + 6
    while time.monotonic() < end:
        client.raw(b"\n")
        with pytest.raises(TimeoutError):
            client.read(timeout=0.4)
    assert client.eols >= 5
    client.ask("DISCONNECT")


@pytest.mark.parametrize(("asked", "answered"), [("1,0", "0,2500"), ("20000,0", "0,5000"), ("3000,0", "0,3000")])
def test_case_12_least_and_most_time_to_live(dial, asked, answered):
    assert dial(acceptor="bounds").connect({"heart-beat": asked})["heart-beat"] == answered


def test_case_13_the_modifier_makes_the_time_to_live(dial):
    client = dial(acceptor="modifier")
    assert client.connect({"heart-beat": "5000,0"})["heart-beat"] == "0,5000"
    silent_for(client, 7.3, 10)


def test_case_14_a_silent_client_of_stomp_10_is_told_and_closed(join):
    client = join("1.0", acceptor="brief")
    silent_for(client, 0.9, 3)


def test_case_14_a_client_that_sends_stays(join, queue):
    client = join("1.0", acceptor="brief")
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        client.publish(queue, b"alive")
        time.sleep(0.1)
    client.ask("DISCONNECT")


def test_case_15_what_a_crashed_client_had_is_gone_with_its_time_to_live(site, join, name, topic, queue):
    """The socket stays open without a word, as after a pulled cable."""
    crashed, other = join("1.0", acceptor="brief"), join()
    crashed.subscribe(topic, id="t")
    crashed.subscribe(queue, id="q", ack="client")
    other.publish(queue, b"held")
    assert crashed.read().body == b"held"
    assert set(site.queues(name)) == {"(subscribers)", name}
    other.subscribe(queue)
    back = other.read()
    assert (back.body, back["redelivered"]) == (b"held", "true")
    other.ask("UNSUBSCRIBE", {"id": "1"})
    site.wait_queues(name, {})
    with pytest.raises(ClosedByBroker):
        while True:
            crashed.read()


@pytest.mark.parametrize("value", ["1000", "a,b", "1,2,3", "-1,0", "1000, 1000"])
def test_case_16_a_malformed_heart_beat(dial, value):
    client = dial()
    client.send("CONNECT", {"accept-version": "1.2", "host": "any", "heart-beat": value})
    error(client, "heart-beat")


def test_a_client_that_waits_for_the_broker_is_not_silent(join, queue):
    """Whatever the time to live: a byte counts, whichever frame it belongs to."""
    client = join("1.0", acceptor="brief")
    done = threading.Event()
    frame = b"SEND\ndestination:%b\nreceipt:r\n\nslow\0" % queue.encode()
    for cut in range(0, len(frame), 12):
        client.raw(frame[cut : cut + 12])
        done.wait(0.6)
    client.expect("RECEIPT", {"receipt-id": "r"})
