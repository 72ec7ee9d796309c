"""A small language of steps, and what a broker did when they were played.

  == NAME                            a script begins; `# …` is a comment
  a open VERSION [HEADER:VALUE …]    a connection named a, and its CONNECT
  a > COMMAND [HEADER:VALUE …] [| BODY]   a frame; `{ack}`, `{message-id}`, `{reply-to}` are the last that a MESSAGE had
  a < N                              what comes: N frames are expected, and then a little time is given to more
  a close                            the socket ends without a DISCONNECT

Rule: what is written down is what both brokers could say alike: values that each makes up are `*`, an ERROR is its
`message`, and RECEIPTs stand before the MESSAGEs that came in the same step, these by their subscription: nobody
promises their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.harness import Client, Frame, unescape
from tests.harness.stomp import ClosedByBroker

PATIENCE_S = 10.0
"""For a frame that a script expects. A broker that never sends it costs this once."""
QUIET_S = 0.4
"""For a frame that it does not expect."""
MADE_UP = ("message-id", "ack", "session", "server", "timestamp", "reply-to", "heart-beat", "scheduledJobId",
           "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY")  # fmt: skip
"""Headers whose values are the broker's own: `*`."""
UNSAID = ("content-length", "content-type", "expires", "priority", "timestamp")
"""Headers that a broker may add to any frame."""
OWN = re.compile(r"^(/queue/amq\.gen-|/reply-queue/|/remote-temp-queue/).*")
"""Destinations whose ends are random: `*`."""
SHOWN_OF_ERROR = ("message", "receipt-id")
_LAST = re.compile(r"\{(ack|message-id|reply-to|scheduledJobId)\}")


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    steps: tuple[str, ...]


def read(path: Path) -> list[Script]:
    """The scripts of a file, in its order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        text = line.strip()
        if text.startswith("== "):
            steps = found[text[3:]] = []
        elif text and not text.startswith("#"):
            steps.append(text)
    return [Script(name, tuple(steps)) for name, steps in found.items()]


def play(script: Script, port: int) -> list[str]:
    """Asks the broker at this port to play it. Returns what was seen, a line each."""
    with ExitStack() as stack:
        return list(_Player(port, stack).lines(script))


class _Player:
    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port = port
        self._stack = stack
        self._clients: dict[str, Client] = {}
        self._last: dict[str, dict[str, str]] = {}
        """Client → header of a MESSAGE → its last value."""

    def lines(self, script: Script) -> Iterator[str]:
        for step in script.steps:
            who, verb, rest = (step + " ").split(" ", 2)
            if verb == "open":
                yield from self._open(who, rest.split())
            elif verb == ">":
                self._send(who, rest)
            elif verb == "<":
                yield from (f"{who} {line}" for line in self._seen(who, int(rest)))
            elif verb == "close":
                self._clients[who].close()
            else:
                raise ValueError(f"{script.name}: no such step: {step}")

    def _open(self, who: str, words: list[str]) -> Iterator[str]:
        version, *headers = words
        client = self._clients[who] = self._stack.enter_context(Client(self._port, version))
        pairs = dict([_pair(word) for word in headers])
        first = {"accept-version": version, "host": "/", "login": "guest", "passcode": "guest"}
        client.send("CONNECT", {name: value for name, value in {**first, **pairs}.items() if value != "-"})
        yield from (f"{who} {line}" for line in self._seen(who, 1))

    def _send(self, who: str, rest: str) -> None:
        head, _, body = rest.partition(" | ")
        last = self._last.get(who)
        if last is not None:
            head = _LAST.sub(lambda found: last.get(found[1], ""), head)
        command, *headers = head.split()
        self._clients[who].send(command, [_pair(word) for word in headers], body.strip().encode())

    def _seen(self, who: str, expected: int) -> list[str]:
        """What comes now."""
        client = self._clients[who]
        end: list[str] = []
        said: list[str] = []
        came: list[tuple[str, str]] = []
        while True:
            try:
                frame = client.read(PATIENCE_S if len(said) + len(came) + len(end) < expected else QUIET_S)
            except TimeoutError:
                break
            except ClosedByBroker:
                end.append("closed")
                break
            if frame.command == "MESSAGE":
                self._last.setdefault(who, {}).update(frame.headers)
                came.append((frame.get("subscription") or "", shown(frame)))
            else:
                (end if frame.command == "ERROR" else said).append(shown(frame))
        came.sort(key=lambda of: of[0])
        return sorted(said) + [line for _, line in came] + end or ["nothing"]


def _pair(word: str) -> tuple[str, str]:
    """`~` in a value stands for a blank."""
    name, _, value = word.partition(":")
    return name, value.replace("~", " ")


def shown(frame: Frame) -> str:
    """A frame as a line that two brokers may have in common."""
    headers: Mapping[str, str] = dict(frame.headers)
    if frame.command == "ERROR":
        headers = {name: value for name, value in headers.items() if name in SHOWN_OF_ERROR}
    elif frame.command == "CONNECTED":
        headers = {"version": headers.get("version", "-")}
    if "destination" in headers:
        headers = {**headers, "destination": OWN.sub(r"\1*", headers["destination"])}
    words = [
        f"{name}:{'*' if name in MADE_UP else unescape(value)}"
        for name, value in sorted(headers.items())
        if name not in UNSAID
    ]
    text = frame.body.decode(errors="replace") if frame.command == "MESSAGE" else ""
    return " ".join([frame.command, *words]) + (f" | {text}" if text else "")
