"""One long conversation, cut at random: the answers are those of the uncut one, to the byte. And what the other tests
mean by "joined"."""

from __future__ import annotations

import random
import socket
import time

import pytest

from tests.harness import Client, build, stomp

from .checks import every_version

BODY = bytes(range(256)) * 5


def conversation(version: str, name: str) -> tuple[bytes, int]:
    """(what the client says, how many frames come back): everything that answers the same way each time."""
    queue = f"/queue/{name}"
    frames = [build("SUBSCRIBE", {"id": "s", "destination": queue, "receipt": "sub"})]
    answers = 1
    for number in range(40):
        pairs: list[tuple[str, object]] = [("destination", queue), ("n", number % 4)]
        if number % 3 == 0:
            pairs.append(("receipt", f"r{number}"))
            answers += 1
        if number % 5 == 0:
            frames.append(build("SEND", [*pairs, ("content-length", len(BODY))], BODY))
        elif number % 5 == 1:
            frames.append(build("SEND", [*pairs, ("föö", "b r" if version == "1.0" else r"b\cr")], b"text"))
        elif number % 5 == 2 and version == "1.2":
            frames.append(build("SEND", pairs, b"crlf").replace(b"\n", b"\r\n"))
        else:
            frames.append(build("SEND", pairs, b"plain"))
        answers += 1
        if number % 7 == 0:
            frames.append(b"\n" * (number % 3))
        if number % 8 == 0:
            frames += [build(c, {"transaction": number, "receipt": c}) for c in ("BEGIN", "COMMIT")]
            answers += 2
    return b"".join(frames), answers


def replies(broker, version: str, name: str, rng: random.Random | None) -> list[tuple[object, ...]]:
    """Receipts and messages, each in order; message ids as order numbers."""
    data, count = conversation(version, name)
    with Client(broker.port, version) as client:
        client.connect()
        position = 0
        while position < len(data):
            step = len(data) if rng is None else rng.choice([1, 2, 3, 7, 50, 500, 3000])
            client.raw(data[position : position + step])
            position += step
            if rng is not None and rng.random() < 0.02:
                time.sleep(0.001)
        frames = [client.read() for _ in range(count)]
        client.nothing()
        client.ask("DISCONNECT")  # or what the next client sends may still go to this one
    receipts = [(f["receipt-id"],) for f in frames if f.command == "RECEIPT"]
    skipped = {"message-id"}
    messages = [(tuple(p for p in f.pairs if p[0] not in skipped), f.body) for f in frames if f.command == "MESSAGE"]
    return [*receipts, *messages]


@every_version
@pytest.mark.parametrize("seed", range(8))
def test_any_cut_gives_the_same_answers(broker, name, version, seed):
    assert replies(broker, version, name, random.Random(seed)) == replies(broker, version, name, None)


def test_what_is_joined_leaves_as_one_write_in_front_of_a_read_or_of_what_another_client_says(monkeypatch):
    monkeypatch.setattr(stomp, "JOINED_S", 60)
    frames, writes = [build("SEND", {"n": n}) for n in range(4)], []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with Client(port, cut="joined") as one, Client(port, cut="joined") as two, Client(port) as whole:
            monkeypatch.setattr(Client, "write", lambda client, *pieces: writes.append((client, *pieces)))
            one.raw(frames[0])
            one.raw(frames[1])
            assert writes == []
            two.raw(frames[2])
            assert writes == [(one, frames[0] + frames[1])]
            whole.raw(frames[3])
            assert writes[1:] == [(two, frames[2]), (whole, frames[3])]
            one.raw(frames[0])
            with pytest.raises(TimeoutError):
                two.read(0.01)
            assert writes[3:] == [(one, frames[0])]
