"""stomp.py made easy to assert on: one object per connection, everything that comes lands in queues.

Rule: frames are what stomp.py made of them; nothing here talks to the socket.
"""

from __future__ import annotations

import itertools
import queue
import threading

import stomp
from stomp.utils import Frame

VERSIONS = {"1.0": stomp.StompConnection10, "1.1": stomp.StompConnection11, "1.2": stomp.StompConnection12}
WAIT = 30.0


class Box(stomp.ConnectionListener):
    """Everything that came."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Frame] = queue.Queue()
        self.connected: queue.Queue[Frame] = queue.Queue()
        self.gone = threading.Event()
        self.beats = 0
        self.beat_timeouts = 0

    def on_connected(self, frame: Frame) -> None:
        self.connected.put(frame)

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Frame) -> None:
        self.errors.put(frame)

    def on_disconnected(self) -> None:
        self.gone.set()

    def on_heartbeat(self) -> None:
        self.beats += 1

    def on_heartbeat_timeout(self) -> None:
        self.beat_timeouts += 1


class Client:
    """A connected stomp.py connection of one protocol version. Close it with `close()` or `with`."""

    def __init__(
        self,
        port: int,
        version: str = "1.2",
        *,
        login: str | None = None,
        passcode: str | None = None,
        ca: str | None = None,
        wait: bool = True,
        websocket: bool = False,
        client_id: str | None = None,
        **options: object,
    ) -> None:
        self.version = version
        self.box = Box()
        where = [("127.0.0.1", port)]
        make = stomp.WSStompConnection if websocket else VERSIONS[version]
        self.stomp = make(where, reconnect_attempts_max=1, **options)
        if ca is not None:
            self.stomp.set_ssl(for_hosts=where, ca_certs=ca)
        self.stomp.set_listener("box", self.box)
        self._numbers = itertools.count()
        headers = {} if client_id is None else {"client-id": client_id}
        self.stomp.connect(login, passcode, wait=wait, headers=headers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """DISCONNECT with a receipt, as stomp.py's documentation asks for."""
        if self.stomp.is_connected():
            self.stomp.disconnect(receipt="bye")
        self.stomp.transport.disconnect_socket()

    def drop(self) -> None:
        """The socket goes without a word."""
        self.stomp.transport.disconnect_socket()

    def send(self, destination: str, body: str | bytes, **headers: object) -> None:
        """Returns once the receipt is here."""
        receipt = f"send-{next(self._numbers)}"
        self.stomp.send(destination, body, headers={"receipt": receipt, **headers})
        self.receipt(receipt)

    def subscribe(self, destination: str, id: str = "1", ack: str = "auto", **headers: object) -> None:
        """Returns once the receipt is here."""
        receipt = f"subscribe-{next(self._numbers)}"
        self.stomp.subscribe(destination, id, ack, headers={"receipt": receipt, **headers})
        self.receipt(receipt)

    def receipt(self, expected: str) -> None:
        assert self.box.receipts.get(timeout=WAIT) == expected

    def message(self, within_s: float = WAIT) -> Frame:
        """The next one."""
        return self.box.messages.get(timeout=within_s)

    def nothing(self) -> None:
        """No message is due: a round trip through the owner brings none."""
        self.send("/topic/clients.nobody", "x")
        assert self.box.messages.empty(), self.box.messages.get()

    def ack(self, frame: Frame, **options: object) -> None:
        self._settle(self.stomp.ack, frame, options)

    def nack(self, frame: Frame, **options: object) -> None:
        self._settle(self.stomp.nack, frame, options)

    def _settle(self, call, frame: Frame, options: dict[str, object]) -> None:
        receipt = f"settle-{next(self._numbers)}"
        if self.version == "1.2":
            call(frame.headers["ack"], receipt=receipt, **options)
        elif self.version == "1.1":
            call(frame.headers["message-id"], frame.headers["subscription"], receipt=receipt, **options)
        else:
            call(frame.headers["message-id"], receipt=receipt, **options)
        self.receipt(receipt)
