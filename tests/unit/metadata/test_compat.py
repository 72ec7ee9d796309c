"""The etcd3 package over our messages: it works, says nothing, and agrees with our client and our .proto files."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from broker.config.settings import EtcdSettings
from broker.metadata.compat import etcd3
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.etcdpb import kv_pb2, rpc_pb2
from tests.harness.broker import ROOT


async def test_both_clients_see_the_same(etcd):
    ours = EtcdMetadata(EtcdSettings(endpoints=etcd.address))
    with etcd3().client(host=etcd.host, port=etcd.port, timeout=5) as theirs:
        revision = await ours.put("/compat/a", b"1")
        value, meta = theirs.get("/compat/a")
        assert (value, meta.key, meta.mod_revision) == (b"1", b"/compat/a", revision)
        theirs.put("/compat/b", b"2", lease=theirs.lease(30))
        found, _ = await ours.range("/compat/")
        assert [(kv.key, kv.value, kv.lease > 0) for kv in found] == [
            ("/compat/a", b"1", False),
            ("/compat/b", b"2", True),
        ]
        done, _ = theirs.transaction(
            compare=[theirs.transactions.mod("/compat/a") == revision],
            success=[theirs.transactions.delete("/compat/a")],
            failure=[],
        )
        assert done
        assert await ours.get("/compat/a") is None
        assert theirs.status().version
        assert [member.name for member in theirs.members]
        assert theirs.delete_prefix("/compat/").deleted == 1
    await ours.close()


def test_loading_it_warns_of_nothing():
    source = "from broker.metadata.compat import etcd3; print(etcd3().__version__)"
    line = [sys.executable, "-W", "error", "-c", source]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), done.stderr) == ("0.12.0", "")


def published(name: str) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor inside the package's own, unloadable code."""
    folder = Path(importlib.util.find_spec("etcd3").origin).parent / "etcdrpc"
    for node in ast.walk(ast.parse((folder / f"{name}_pb2.py").read_text())):
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb":
            call = node.value
            text = ast.literal_eval(call.args[0] if isinstance(call, ast.Call) else call)
            return descriptor_pb2.FileDescriptorProto.FromString(
                text if isinstance(text, bytes) else text.encode("latin-1")
            )
    raise AssertionError(f"no descriptor in {name}")


LATER_BYTES = {("AuthRoleRevokePermissionRequest", "key"), ("AuthRoleRevokePermissionRequest", "range_end")}
"""Texts in the package's messages, bytes since etcd 3.4: the same on the wire, and a key need not be text."""


def flat(message: descriptor_pb2.DescriptorProto) -> set[tuple[object, ...]]:
    later = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
    fields = {
        (f.name, f.number, f.label, later if (message.name, f.name) in LATER_BYTES else f.type, f.type_name)
        for f in message.field
    }
    return fields | {(enum.name, value.name, value.number) for enum in message.enum_type for value in enum.value}


@pytest.mark.parametrize(("name", "ours"), [("kv", kv_pb2), ("rpc", rpc_pb2)])
def test_our_messages_are_those_of_etcd(name, ours):
    theirs, mine = published(name), descriptor_pb2.FileDescriptorProto()
    ours.DESCRIPTOR.CopyToProto(mine)
    assert mine.package == theirs.package
    known = {message.name: flat(message) for message in theirs.message_type}
    for message in mine.message_type:
        assert flat(message) <= known[message.name], message.name
