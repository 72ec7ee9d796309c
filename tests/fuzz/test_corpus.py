"""Nasty inputs that are known, and seeded mutations of them: see frames.try_input for what must hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .frames import try_input

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.bin"))
WORDS = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b":",
    b"\\",
    b"\\c",
    b"\n\n",
    b"\n\r\n",
    b"SEND\n",
    b"ACK\nid:",
    b"content-length:3\n",
]
WORDS += [b"receipt:1\n", b"destination:a\n", b"\xff", b"\xc3\xa9", b"0", b"9999", b"-1", b"transaction:t\n", b"\0\n"]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus(path):
    try_input(path.read_bytes())


def mutated(rng, seeds):
    """One to eight changes to a mixture of seeds."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randrange(1, 9)):
        at = rng.randrange(len(data) + 1)
        to = min(at + rng.choice((1, 2, 10, 60)), len(data))
        match rng.randrange(6):
            case 0:
                data[at:at] = rng.choice(WORDS)
            case 1:
                del data[at:to]
            case 2 if at < len(data):
                data[at] = rng.randrange(256)
            case 3:
                data[at:at] = data[at:to] * rng.choice((1, 2, 20))
            case 4:
                data += rng.choice(seeds)
            case _:
                data[at:to] = rng.choice(WORDS)
    return bytes(data[:6000])


@pytest.mark.parametrize("seed", range(4))
def test_mutations(seed):
    rng = random.Random(seed)
    seeds = [path.read_bytes()[:1500] for path in CORPUS]
    for _ in range(350):
        try_input(mutated(rng, seeds))
