"""What the head of a file says that it must not know, it does not import.

Rule: `KNOWING` says what a word in such a line means. A part of a line without one of these words, or about a meaning
("what the values mean"), is nothing that an import could show. Type imports count.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.test_house import BROKER, TREES, imported

KNOWING: dict[str, tuple[str, ...]] = {
    "clocks": ("broker.seams.clock", "time"),
    "channels": ("broker.link.edge_side.slot_channel",),
    "commands": ("broker.core.commands",),
    "consumers": ("broker.engine.consumers.consumer",),
    "dialects": ("broker.edge.destinations.dialects",),
    "engines": ("broker.engine.engine",),
    "etcd": ("broker.metadata.etcd", "broker.metadata.etcdpb", "etcd3"),
    "files": ("broker.seams.files", "os", "pathlib", "io"),
    "frames": ("broker.wire.connection", "broker.wire.events", "broker.wire.writer"),
    "gRPC": ("grpc",),
    "HTTP": ("aiohttp", "http", "urllib"),
    "links": ("broker.link.edge_side.owner_link", "broker.link.owner_side.link_server"),
    "live index": ("broker.journal.log.live_index",),
    "loops": ("asyncio",),
    "lxml": ("lxml",),
    "messages": ("broker.core.message",),
    "network": ("broker.rpc", "grpc", "aiohttp", "socket"),
    "OpenTelemetry": ("opentelemetry",),
    "owners": ("broker.owner",),
    "queues": ("broker.engine.queue.queue",),
    "records": ("broker.core.records",),
    "routes": ("broker.edge.destinations.send_route",),
    "selectors": ("broker.selector",),
    "sessions": ("broker.edge.session.session",),
    "sockets": ("socket", "broker.edge.transport.tcp", "broker.edge.transport.websockets.websocket"),
    "STOMP": ("broker.wire",),
    "store": ("broker.metadata",),
    "streams": ("broker.seams.stream", "broker.rpc.streams", "grpc"),
    "terminals": ("click",),
    "threads": ("threading", "concurrent"),
    "versions": ("broker.wire.versions",),
}
"""Word → modules (with what is below them) that who knows it imports."""
LINE = re.compile(r"[Mm]ust not know ([^.;:(]*)")
PARTS = re.compile(r",? nor |,? or |, ")
MEANING = ("what ", "how ", "who ", "whose ", "why ", "where ", "which ", "when ")


def claims(tree: ast.Module) -> set[str]:
    """Words of KNOWING that the head says are not known here."""
    text = " ".join((ast.get_docstring(tree) or "").split())
    parts = [part for line in LINE.findall(text) for part in PARTS.split(line) if not part.startswith(MEANING)]
    return {word for word in KNOWING if any(re.search(rf"\b{word}\b(?!')", part) for part in parts)}


def knows(name: str, tree: ast.Module, word: str) -> set[str]:
    """Modules that it imports all the same."""
    return {
        module for module in imported(name, tree)
        for known in KNOWING[word] if module == known or module.startswith(f"{known}.")
    }  # fmt: skip


CLAIMS = [(name, word) for name, tree in TREES.items() for word in sorted(claims(tree))]


@pytest.mark.parametrize(("name", "word"), CLAIMS, ids=lambda value: value)
def test_what_a_file_must_not_know_it_does_not_import(name, word):
    assert not knows(name, TREES[name], word), "let the line say what is so, or the import go"


def test_many_lines_can_be_checked():
    assert len(CLAIMS) >= 140


def test_it_reads_heads_and_sees_imports():
    head = '"""A thing.\n\nRule: one. Must not know queues\' contents, sockets or\nsessions (those: engines).\n"""\n'
    tree = ast.parse(head + "import socket\nfrom broker.edge.session import session\n")
    assert claims(tree) == {"sockets", "sessions"}
    assert knows("broker.x", tree, "sockets") == {"socket"}
    assert knows("broker.x", tree, "sessions") == {"broker.edge.session.session"}


def test_what_is_named_is_there():
    for modules in KNOWING.values():
        for module in modules:
            if module.startswith("broker."):
                path = BROKER.parent / module.replace(".", "/")
                assert path.is_dir() or Path(f"{path}.py").is_file(), module
