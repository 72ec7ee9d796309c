"""Sessions whose clock the test turns: a clock with the wheel that goes by it, and a wire that can stop reading.

Rule: nothing happens but in run().
"""

from __future__ import annotations

from typing import Any

from .bench import Wire


class Time:
    """A clock, and the wheel that goes by it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Any]] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def deadline(self, at: float, callback: Any) -> Any:
        self.due.append((at, callback))
        return self.due[-1]

    def cancel(self, entry: Any) -> None:
        if entry in self.due:
            self.due.remove(entry)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while ready := sorted((entry for entry in self.due if entry[0] <= end), key=lambda entry: entry[0]):
            self.due.remove(ready[0])
            self.now = max(self.now, ready[0][0])
            ready[0][1]()
        self.now = end


class Socket(Wire):
    def __init__(self, transport: str = "") -> None:
        super().__init__()
        if transport:
            self.transport_name = transport
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
