"""A stomp.py producer and consumer survive kill -9 and restart without losing a receipted message.

The same checker as for the raw workload; here the clients are threads of a library we did not write, used as its
documentation says: on_disconnected → connect again.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import stomp
import stomp.exception
from stomp.utils import Frame

from tests.harness import Broker

from .checker import check, unanswered
from .history import History, Kind

QUEUE = "/queue/stomppy"
KEY = "stomppy/p"


class Life:
    """Number of the broker's life, and whether the run is over."""

    def __init__(self) -> None:
        self.number = 1
        self.producing = True
        self.over = False


class Peer(stomp.ConnectionListener):
    """One connection of one life; `run` returns when it has ended."""

    def __init__(self, port: int, life: Life, history: History) -> None:
        self.life = life
        self.number = life.number
        self.history = history
        self.gone = threading.Event()
        self.connection = stomp.Connection12([("127.0.0.1", port)], reconnect_attempts_max=1)
        self.connection.set_listener("peer", self)

    def on_disconnected(self) -> None:
        self.gone.set()

    def open(self) -> bool:
        """Connected, and certainly to the broker of this life."""
        try:
            self.connection.connect(wait=True)
        except (stomp.exception.ConnectFailedException, OSError):
            return False
        return self.number == self.life.number

    def close(self) -> None:
        self.connection.transport.disconnect_socket()


class Producer(Peer):
    """Sends the next number when the receipt of the last but nineteen is here."""

    def __init__(self, port: int, life: Life, history: History, numbers: itertools.count[int]) -> None:
        super().__init__(port, life, history)
        self.numbers = numbers
        self.window = threading.Semaphore(20)

    def on_receipt(self, frame: Frame) -> None:
        self.history.add(Kind.RECEIPTED, frame.headers["receipt-id"], self.number)
        self.window.release()

    def work(self) -> None:
        while self.life.producing and not self.gone.is_set():
            if not self.window.acquire(timeout=0.1):
                continue
            key = f"{KEY}/{next(self.numbers)}"
            self.history.add(Kind.SENT, key, self.number)
            self.connection.send(QUEUE, key, headers={"persistent": "true", "receipt": key})
        while not self.life.over and not self.gone.wait(0.05):
            pass


class Consumer(Peer):
    """Acknowledges each message; the receipt of the ACK bears the message's key."""

    def on_message(self, frame: Frame) -> None:
        redelivered = frame.headers.get("redelivered") == "true"
        self.history.add(Kind.DELIVERED, frame.body, self.number, redelivered=redelivered, who=f"c@{self.number}")
        self.history.add(Kind.ACK_SENT, frame.body, self.number)
        try:
            self.connection.ack(frame.headers["ack"], receipt=frame.body)
        except (stomp.exception.NotConnectedException, OSError):
            pass  # it will come again

    def on_receipt(self, frame: Frame) -> None:
        if frame.headers["receipt-id"] != "subscribed":
            self.history.add(Kind.SETTLED, frame.headers["receipt-id"], self.number)

    def work(self) -> None:
        self.connection.subscribe(QUEUE, "1", "client-individual", headers={"receipt": "subscribed"})
        while not self.life.over and not self.gone.wait(0.05):
            pass


def reconnecting(life: Life, make: Callable[[], Peer]) -> None:
    while not life.over:
        peer = make()
        try:
            if peer.open():
                peer.work()
        except (stomp.exception.NotConnectedException, OSError):
            pass  # the connection went while it was being used
        finally:
            peer.close()
        time.sleep(0.05)


def test_a_stomppy_producer_and_consumer_survive_kill_9_without_losing_a_receipted_message(tmp_path: Path):
    broker = Broker(tmp_path)
    broker.start()
    life, history, numbers = Life(), History(), itertools.count()
    threads = [
        threading.Thread(target=reconnecting, args=(life, lambda: Producer(broker.port, life, history, numbers))),
        threading.Thread(target=reconnecting, args=(life, lambda: Consumer(broker.port, life, history))),
    ]
    try:
        for thread in threads:
            thread.start()
        for wait in (0.8, 0.5):
            time.sleep(wait)
            broker.kill()
            life.number += 1
            broker.start()
        time.sleep(0.8)
        life.producing = False
        end = time.monotonic() + 30
        while (check(history) or unanswered(history, life.number)) and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        life.over = True
        for thread in threads:
            thread.join(30)
        broker.kill()
    assert check(history) + unanswered(history, life.number) == []
    receipted = history.keys(Kind.RECEIPTED)
    assert {event.life for event in history.events if event.kind is Kind.RECEIPTED} == {1, 2, 3}
    assert len(receipted) > 100
