"""Inner walls: circles of imports, state that others write, names that mean two things, decisions by a text.

Rule: every number here may only shrink. Where it is 0 (or a list is empty) the rule holds; the others say how far the
code is from it.
"""

from __future__ import annotations

import ast
import collections
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

BROKER = Path(__file__).resolve().parents[2] / "broker"
TREES = {
    path.relative_to(BROKER.parent).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): ast.parse(
        path.read_text(), str(path)
    )
    for path in sorted(BROKER.rglob("*.py"))
    if "_pb2" not in path.name
}
ROOMS = sorted({name.split(".")[1] for name in TREES if "." in name})

WRITTEN = {
    "a tally for metrics, added to where every message passes: a call each would be a sixtieth of all it takes": {
        "edge.requests.inbound": {"frames_in": 2},
        "edge.session.outbound": {"bytes_out": 1, "deliveries": 1, "receipts": 1},
        "engine.dispatch.dispatch": {"acked": 2, "delivered": 1, "redelivered": 1},
        "engine.dispatch.round_robin": {"delivered": 1, "redelivered": 1},
        "engine.dispatch.settle": {"acked": 1},
        "engine.routing.returns": {"acked": 1},
        "engine.publishing.publish": {"accepted": 3},
        "owner.commit.group_commit": {"commits": 1},
        "owner.shard.shard": {"turns": 1},
    },
    "the quick half of Steps.took() in line, as its head says": {
        "edge.session.session": {"quick": 1, "total": 1},
        "owner.shard.shard": {"quick": 1, "total": 1},
    },
    "the place in the bytes of a read, which both readers of one parser move for each frame or group": {
        "wire.shortcuts.bulk": {"pos": 4, "plain_acks": 1},
        "wire.connection": {"pos": 6, "crlf": 1},
    },
    "a slot's numbers of the turn under way, set once a turn by what runs the turn": {
        "engine.dispatch.dispatch": {"stop": 1, "room": 1},
        "engine.end_of_turn": {"handed": 1, "touched": 1},
        "engine.engine": {"entered": 1, "fresh": 1},
        "engine.state.commit_release": {"entered": 1},
    },
    "the account of the process follows a queue by the difference, each time it is weighed": {
        "engine.queue.queue": {"queues": 1},
    },
    "what a run or a command is given on its way, once: its numbers, what every subscriber has rendered of it": {
        "edge.subscriptions.subscription": {"parts": 2},
        "engine.state.slot": {"ids": 1, "time": 1},
        "link.edge_side.cluster_port": {"seq": 1},
    },
    "what is remembered with a header block or a read, so that the next one like it is not looked up": {
        "edge.requests.inbound": {"last": 1},
    },
    "a protobuf message, or another library's object, that this module makes": {
        "admin.log.log_rows": {"reason": 1},
        "app.copies.tars": {"size": 1},
        "link.edge_side.owner_link": {"batch": 1, "taken": 1},
        "link.owner_side.edge_peer": {"batch": 1, "pressure": 1, "taken": 1},
        "owner.replication.peer": {"seq": 1},
    },
}
"""Why → module → how often it writes which attributes of another module's objects."""
BY_TEXT: dict[str, int] = {"rpc/streams.py": 1}
"""File → decisions by the beginning of a text that says why something ended. In rpc: farewells of releases before 0.2,
which had no other sign; it goes with 0.3."""


def imported(name: str, tree: ast.Module) -> Iterator[str]:
    """The product's modules that this one imports."""
    package = name.split(".") if (BROKER.parent / name.replace(".", "/")).is_dir() else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            for alias in node.names:
                yield f"{module}.{alias.name}" if f"{module}.{alias.name}" in TREES else module


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What can be reached from itself, together. Small graphs: by removing ends until nothing is one."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        left = list(graph[start])
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                left += graph[at]
        reach[start] = seen
    found, done = [], set()
    for name in graph:
        if name not in done and name in reach[name]:
            circle = [other for other in graph if other in reach[name] and name in reach[other]]
            done.update(circle)
            found.append(circle)
    return found


GRAPH = {name: {i for i in imported(name, tree) if i in TREES and i != name} for name, tree in TREES.items()}


def test_it_sees_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize("room", ROOMS)
def test_modules_of_a_room_do_not_import_in_circles(room):
    inside = {name for name in GRAPH if name.startswith(f"broker.{room}.") or name == f"broker.{room}"}
    found = circles({name: GRAPH[name] & inside for name in inside})
    assert not found, f"declare a Protocol where it is used, or move the value down: {found}"


NODES = {name: list(ast.walk(tree)) for name, tree in TREES.items()}


def stores(name: str) -> Iterator[tuple[str, bool]]:
    """Attributes that a module writes, and whether on `self`."""
    for node in NODES[name]:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def own(name: str) -> set[str]:
    """Attributes that the classes of a module have."""
    declared = {
        part.target.id
        for node in NODES[name]
        if isinstance(node, ast.ClassDef)
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return declared | {attribute for attribute, mine in stores(name) if mine}


def written() -> collections.Counter[tuple[str, str]]:
    """(module, attribute) → writes on objects of other modules."""
    mine = {name: own(name) for name in TREES}
    anywhere = set().union(*mine.values())
    return collections.Counter(
        (name.removeprefix("broker."), attribute)
        for name in TREES
        for attribute, on_self in stores(name)
        if not on_self and attribute in anywhere and attribute not in mine[name]
    )


def test_state_is_written_where_it_is_declared():
    found = written()
    allowed = collections.Counter(
        {(module, attribute): n for modules in WRITTEN.values() for module, some in modules.items()
         for attribute, n in some.items()}
    )  # fmt: skip
    assert not found - allowed, "give the object a method that says what happens to it"
    assert not allowed - found, "it has shrunk: say so above"
    assert found.total() <= 58


def test_a_class_name_means_one_thing():
    """In the broker, and in the operator."""
    operator = [ast.parse(path.read_text(), str(path)) for path in (BROKER.parent / "operator").rglob("*.py")]
    for trees in (TREES.values(), operator):
        names = collections.Counter(
            node.name
            for tree in trees
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        assert {name for name, n in names.items() if n > 1} == set(), "one of them wants another name"


TAKES_OUT = re.compile(r"_?take_\w+$")
SET_PHRASES = {"take_backup", "_take_over", "taken_over", "took", "took_long"}
"""Their verb is the field's: to take a backup, to take over; and a step took so long."""


def taking(tree: ast.Module) -> Iterator[str]:
    """Functions that are called so and do something else than take out what they name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_?(take[sn]?|took)(_|$)", node.name):
            text = ast.get_docstring(node) or ""
            if node.name not in SET_PHRASES and not (
                TAKES_OUT.match(node.name) and text.startswith(("Takes out ", "Takes that out", "See "))
            ):
                yield node.name


def test_it_sees_what_takes_something_else():
    code = 'def take(x): pass\ndef take_x(self):\n    """Takes out the x."""\ndef _take_y(self):\n    """Reads."""\n'
    assert list(taking(ast.parse(code))) == ["take", "_take_y"]


def test_to_take_means_to_take_out():
    """Else: enqueue, accept, receive, acquire, claim, read, pop, drain, apply, handle …"""
    operator = {path.as_posix(): ast.parse(path.read_text()) for path in (BROKER.parent / "operator").rglob("*.py")}
    found = {name: list(taking(tree)) for name, tree in {**TREES, **operator}.items()}
    assert {name: some for name, some in found.items() if some} == {}


ASKS_A_TEXT = re.compile(
    r"\b(?:why|text|reason|detail)\.(?:startswith|endswith|find)\(|\" in (?:why|reason|detail|str\(\w+\)|error\.args)\b"
)


def test_nobody_decides_by_the_text_of_an_end():
    """What ended, and why, is an enum or a class; the text beside it is for people."""
    found = {}
    for room in ("owner", "link", "cluster", "engine", "journal", "rpc", "metadata", "admin", "bridge", "tracing"):
        for path in (BROKER / room).rglob("*.py"):
            if n := len(ASKS_A_TEXT.findall(path.read_text())):
                found[path.relative_to(BROKER).as_posix()] = n
    assert {file: n for file, n in found.items() if n > BY_TEXT.get(file, 0)} == {}
    assert {file: n for file, n in BY_TEXT.items() if n > found.get(file, 0)} == {}, "it has shrunk: say so above"


MAKES_A_GRPC_END = re.compile(r"\bgrpc\.aio\.(?:(?:in)?secure_channel|server)\(")


def test_grpc_s_channels_and_servers_are_made_in_one_place():
    """There their wake-ups are taken whole; a channel made elsewhere, if it is the first of its loop, undoes that."""
    makes = MAKES_A_GRPC_END.search
    assert makes("grpc.aio.server(options=[])") and makes("grpc.aio.secure_channel(") and not makes("grpc.aio.Channel")
    found = [path.relative_to(BROKER).as_posix() for path in BROKER.rglob("*.py") if makes(path.read_text())]
    assert found == ["seams/grpc_ends.py"]


def test_files_that_the_glossary_names_are_there():
    page = (BROKER.parent / "docs" / "glossary.md").read_text()
    rooms = {name: None for name in re.findall(r"`(\w+(?:/\w+)+\.py)`", page)}
    assert len(rooms) > 30
    assert [name for name in rooms if not (BROKER / name).is_file()] == []


NAMES_A_FILE = re.compile(r"(?<![\w*<{./-])((?:[a-z_]\w*/)*[a-z]\w*\.py)\b")
NOT_OURS = {"clerk.py", "stomp.py", "sitecustomize.py"}
"""A client library's, and what a reader of docs/tutorial.md saves as a file."""


def prose(path: Path) -> str:
    """What people read: comments and texts of a module, all of a page."""
    text = path.read_text()
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))


def test_it_sees_the_name_of_a_file():
    assert NAMES_A_FILE.findall("(edge/a.py), b_c.py. *_pb2.py {name}.py test_<it>.py") == ["edge/a.py", "b_c.py"]


def test_files_that_comments_and_docs_name_are_there():
    """After a renaming they would send the reader to what was called so before."""
    root = BROKER.parent
    known = [f"/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py") if ".venv" not in path.parts]
    ends = {"/".join(name.split("/")[at:]) for name in known for at in range(1, name.count("/") + 1)}
    pages = [*(root / "docs").rglob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]
    modules = [path for tree in ("broker", "operator", "pipeline") for path in (root / tree).rglob("*.py")]
    found = {
        path.relative_to(root).as_posix(): missing
        for path in [*pages, *modules]
        if "_pb2" not in path.name and (missing := set(NAMES_A_FILE.findall(prose(path))) - ends - NOT_OURS)
    }
    assert found == {}
