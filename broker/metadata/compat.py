"""The PyPI package etcd3, loaded over our own messages: a synchronous client for the command line.

etcd3 0.12.0 carries code generated in 2020 that no current protobuf loads. It asks for nothing of it but the module
`etcd3.etcdrpc`, so that one is put in place first, made of metadata/etcdpb. Two sets of etcd's messages in one process
would collide in protobuf's registry; this way there is one.

Rule: only what people start by hand uses this. It has one endpoint, no retries, and its watches do not resume.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any

from .etcdpb import kv_pb2, rpc_pb2

SERVICES = {
    "KV": ("Range", "Put", "DeleteRange", "Txn", "Compact:Compaction"),
    "Lease": ("LeaseGrant", "LeaseRevoke", "LeaseTimeToLive"),
    "Cluster": ("MemberList",),
    "Maintenance": ("Status",),
    "Auth": ("Authenticate",),
}
"""Service → its calls with one answer; `call:messages` where the messages are not named after the call."""
STREAMS = {"Watch": ("Watch",), "Lease": ("LeaseKeepAlive",)}
NAME = "etcd3.etcdrpc"


def etcd3() -> Any:
    """The module `etcd3`. Raises ImportError when the package is not installed."""
    if NAME not in sys.modules:
        sys.modules[NAME] = _messages()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # written for Python 2 and 3.4
        return importlib.import_module("etcd3")


def _messages() -> ModuleType:
    """What etcd3 takes for its generated code: messages, and a stub per service."""
    module = ModuleType(NAME, "etcd's messages of broker.metadata.etcdpb.")
    for generated in (kv_pb2, rpc_pb2):
        for name in generated.DESCRIPTOR.message_types_by_name:
            setattr(module, name, getattr(generated, name))
    for service in {*SERVICES, *STREAMS}:
        setattr(module, f"{service}Stub", _stub(service))
    return module


def _stub(service: str) -> type:
    """The class gRPC's generator would have made."""

    class Stub:
        def __init__(self, channel: Any) -> None:
            for entry in SERVICES.get(service, ()):
                call, _, messages = entry.partition(":")
                setattr(self, call, channel.unary_unary(*_call(service, call, messages or call)))
            for call in STREAMS.get(service, ()):
                setattr(self, call, channel.stream_stream(*_call(service, call, call)))

    return Stub


def _call(service: str, call: str, messages: str) -> tuple[str, Any, Any]:
    """(path, serializer, deserializer)."""
    request, answer = getattr(rpc_pb2, f"{messages}Request"), getattr(rpc_pb2, f"{messages}Response")
    return f"/etcdserverpb.{service}/{call}", request.SerializeToString, answer.FromString
