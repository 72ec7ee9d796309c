"""The client beside the attack: it sends and receives all the time and must not lose, double or reorder anything.

Rule: a finding is only reported by check(); the thread itself never raises.
"""

from __future__ import annotations

import threading
import time

from tests.harness import Client


class Innocent:
    """Numbered durable messages with receipts through one queue, acknowledged one by one, until check()."""

    def __init__(self, port: int, destination: str, login: dict[str, object] | None = None) -> None:
        self._client = Client(port)
        self._client.connect(login or {})
        self._client.subscribe(destination, ack="client-individual")
        self._destination = destination
        self._stop = threading.Event()
        self._got: list[int] = []
        self._receipts: list[int] = []
        self._sent = 0
        self._slowest = 0.0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._round()
                self._stop.wait(0.01)
        except BaseException as failure:  # told by check()
            self._failure = failure

    def _round(self) -> None:
        """One message out, its receipt and itself back, one ACK."""
        start = time.monotonic()
        headers = {"destination": self._destination, "persistent": "true", "receipt": self._sent}
        self._client.send("SEND", headers, b"%d" % self._sent)
        self._sent += 1
        for _ in range(2):
            frame = self._client.read()
            if frame.command == "RECEIPT":
                self._receipts.append(int(frame["receipt-id"]))
            else:
                assert frame.command == "MESSAGE" and "redelivered" not in frame.headers, frame
                self._got.append(int(frame.body))
                self._client.ack(frame)
        self._slowest = max(self._slowest, time.monotonic() - start)

    def check(self, slowest: float = 5.0) -> None:
        """Ends it; everything it sent must have come, once and in order, each round within `slowest` seconds."""
        self._stop.set()
        self._thread.join(30)
        try:
            self._verdict(slowest)
        finally:
            self._client.close()

    def _verdict(self, slowest: float) -> None:
        assert not self._thread.is_alive(), "the innocent client hangs"
        assert self._failure is None, f"the innocent client failed: {self._failure!r}"
        assert self._got == self._receipts == list(range(self._sent))
        assert self._sent > 0
        assert self._slowest < slowest, f"a round trip took {self._slowest:.2f} s"
        self._client.nothing()
        self._client.ask("DISCONNECT")
