"""Frames of a WebSocket client, cut anywhere: the payload is the same, and so is what is wrong with them."""

from __future__ import annotations

import random
import struct
import zlib
from itertools import pairwise

import pytest
from websockets.exceptions import ProtocolError

from broker.edge.transport.websockets.ws_frames import Frames, TooLarge

WINDOW = 15


def packed(payload: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-WINDOW)
    return (packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


masks = random.Random(1)


def client(opcode: int, payload: bytes, fin: bool = True, rsv1: bool = False) -> bytes:
    """A masked frame."""
    mask, length = masks.randbytes(4), len(payload)
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    if length < 126:
        head = struct.pack("!BB", first, 128 | length)
    elif length < 65536:
        head = struct.pack("!BBH", first, 254, length)
    else:
        head = struct.pack("!BBQ", first, 255, length)
    return head + mask + bytes(byte ^ mask[at & 3] for at, byte in enumerate(payload))


def read(stream: bytes, cuts: list[int], limit: int = 0) -> tuple[bytes, list[bytes], str, int]:
    """Payload, control frames, what was wrong, kind of the first message."""
    controls: list[bytes] = []

    def control(frame: bytes) -> bool:
        controls.append(frame)
        return frame[0] & 15 != 8

    frames, out = Frames(limit, control, WINDOW), []
    wrong = ""
    edges = [0, *cuts, len(stream)]
    for start, stop in pairwise(edges):
        try:
            frames.feed(stream[start:stop], out)
        except (ProtocolError, TooLarge) as why:
            wrong = f"{type(why).__name__} {why}"
            break
    return b"".join(out), controls, wrong, frames.spoken


def stream_of(rng: random.Random) -> tuple[bytes, bytes, int]:
    stream, payload, pings, fragments = b"", b"", 0, 0
    for _ in range(rng.randint(1, 6)):
        body = rng.randbytes(rng.choice([0, 1, 3, 125, 126, 700, 65_535, 66_000]))
        if rng.random() < 0.4:
            sent, rsv1 = packed(body), True
        else:
            sent, rsv1 = body, False
        opcode = rng.choice([1, 2])
        for fragments in range(rng.randint(0, 3)):
            at = rng.randint(0, len(sent))
            stream += client(0 if fragments else opcode, sent[:at], False, rsv1 and not fragments)
            sent = sent[at:]
            if rng.random() < 0.5:
                stream += client(9, b"ping")
                pings += 1
            opcode, rsv1 = 0, False
        stream += client(opcode, sent, True, rsv1)
        payload += body
    return stream, payload, pings


@pytest.mark.parametrize("seed", range(60))
def test_any_cut_gives_the_same_payload(seed: int) -> None:
    rng = random.Random(seed)
    stream, payload, pings = stream_of(rng)
    cuts = sorted(rng.sample(range(len(stream)), min(rng.choice([0, 1, 5, 40]), len(stream) - 1)))
    got, controls, wrong, spoken = read(stream, cuts)
    assert (got == payload, len(controls), wrong) == (True, pings, "")
    assert spoken == stream[0] & 15


@pytest.mark.parametrize("kind", [1, 2])
def test_byte_by_byte(kind: int) -> None:
    stream = (
        client(kind, b"SEND\n", False)
        + client(9, b"?")
        + client(0, b"x" * 300)
        + client(3 - kind, packed(b"y" * 999), rsv1=True)
    )
    got, controls, wrong, spoken = read(stream, list(range(1, len(stream))))
    assert (got, len(controls), wrong, spoken) == (b"SEND\n" + b"x" * 300 + b"y" * 999, 1, "", kind)


@pytest.mark.parametrize(
    ("stream", "wrong"),
    [
        (b"\x81\x01x", "incorrect masking"),
        (b"\x83\x81\0\0\0\0x", "invalid opcode"),
        (client(0, b"x"), "unexpected continuation frame"),
        (client(1, b"x", False) + client(1, b"y"), "expected a continuation frame"),
        (b"\x09\x81\0\0\0\0x", "fragmented control frame"),
        (b"\x89\xfe\0\x7e\0\0\0\0", "control frame too long"),
        (b"\xa1\x81\0\0\0\0x", "reserved bits"),
        (client(1, b"x", False) + b"\xc0\x81\0\0\0\0x", "reserved bits"),
        (client(1, b"\xff" * 20, rsv1=True), "decompression failed"),
        (struct.pack("!BBQ", 0x82, 0xFF, 1 << 63) + b"\0\0\0\0", "63 bits"),
    ],
)
def test_violations(stream: bytes, wrong: str) -> None:
    good = client(2, b"good")
    for cuts in ([], list(range(1, len(good + stream)))):
        got, _, said, _ = read(good + stream, cuts)
        assert got.startswith(b"good")
        assert said.startswith("ProtocolError") and wrong in said


def test_nothing_counts_behind_a_close() -> None:
    got, controls, wrong, _ = read(client(1, b"a") + client(8, b"") + client(1, b"b") + b"\x03\x00", [])
    assert (got, len(controls), wrong) == (b"a", 1, "")


def test_what_is_over_the_limit_is_skipped_by_who_reads_on() -> None:
    stream = client(1, b"a" * 10) + client(1, b"b" * 11) + client(9, b"")
    pings: list[bytes] = []
    for cut in range(1, len(stream)):
        pings.clear()
        frames, out, refused = Frames(10, lambda frame: not pings.append(frame)), [], 0
        for piece in (stream[:cut], stream[cut:]):
            try:
                frames.feed(piece, out)
            except TooLarge:
                refused += 1
                assert b"".join(out) == b"a" * 10
        frames.feed(b"", out)
        assert (refused, len(pings)) == (1, 1)
