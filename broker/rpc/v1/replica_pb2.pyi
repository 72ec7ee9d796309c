from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToFollower(_message.Message):
    __slots__ = ("hello", "leads", "append", "seed", "chunk", "ping", "resign", "check", "counted")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    RESIGN_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    leads: Leads
    append: Append
    seed: Seed
    chunk: BlobChunk
    ping: int
    resign: Resign
    check: Check
    counted: Counted
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., leads: _Optional[_Union[Leads, _Mapping]] = ..., append: _Optional[_Union[Append, _Mapping]] = ..., seed: _Optional[_Union[Seed, _Mapping]] = ..., chunk: _Optional[_Union[BlobChunk, _Mapping]] = ..., ping: _Optional[int] = ..., resign: _Optional[_Union[Resign, _Mapping]] = ..., check: _Optional[_Union[Check, _Mapping]] = ..., counted: _Optional[_Union[Counted, _Mapping]] = ...) -> None: ...

class Counted(_message.Message):
    __slots__ = ("slots", "lsns")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LSNS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedScalarFieldContainer[int]
    lsns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slots: _Optional[_Iterable[int]] = ..., lsns: _Optional[_Iterable[int]] = ...) -> None: ...

class ToLeader(_message.Message):
    __slots__ = ("acked", "pong", "haves", "stale", "broken", "taken", "checked")
    ACKED_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    HAVES_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    acked: int
    pong: int
    haves: Haves
    stale: SlotEpoch
    broken: Broken
    taken: BlobTaken
    checked: Checked
    def __init__(self, acked: _Optional[int] = ..., pong: _Optional[int] = ..., haves: _Optional[_Union[Haves, _Mapping]] = ..., stale: _Optional[_Union[SlotEpoch, _Mapping]] = ..., broken: _Optional[_Union[Broken, _Mapping]] = ..., taken: _Optional[_Union[BlobTaken, _Mapping]] = ..., checked: _Optional[_Union[Checked, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster", "version", "boot", "to", "checksum", "promise_ms")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    PROMISE_MS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    version: int
    boot: str
    to: str
    checksum: int
    promise_ms: int
    def __init__(self, cluster: _Optional[str] = ..., version: _Optional[int] = ..., boot: _Optional[str] = ..., to: _Optional[str] = ..., checksum: _Optional[int] = ..., promise_ms: _Optional[int] = ..., **kwargs) -> None: ...

class SlotEpoch(_message.Message):
    __slots__ = ("slot", "epoch")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    slot: int
    epoch: int
    def __init__(self, slot: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Leads(_message.Message):
    __slots__ = ("leads",)
    LEADS_FIELD_NUMBER: _ClassVar[int]
    leads: _containers.RepeatedCompositeFieldContainer[SlotEpoch]
    def __init__(self, leads: _Optional[_Iterable[_Union[SlotEpoch, _Mapping]]] = ...) -> None: ...

class Haves(_message.Message):
    __slots__ = ("haves",)
    HAVES_FIELD_NUMBER: _ClassVar[int]
    haves: _containers.RepeatedCompositeFieldContainer[Have]
    def __init__(self, haves: _Optional[_Iterable[_Union[Have, _Mapping]]] = ...) -> None: ...

class Have(_message.Message):
    __slots__ = ("slot", "epoch", "lsn", "epochs", "firsts")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    epoch: int
    lsn: int
    epochs: _containers.RepeatedScalarFieldContainer[int]
    firsts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slot: _Optional[int] = ..., epoch: _Optional[int] = ..., lsn: _Optional[int] = ..., epochs: _Optional[_Iterable[int]] = ..., firsts: _Optional[_Iterable[int]] = ...) -> None: ...

class Append(_message.Message):
    __slots__ = ("seq", "slots", "items")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    slots: _containers.RepeatedScalarFieldContainer[int]
    items: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, seq: _Optional[int] = ..., slots: _Optional[_Iterable[int]] = ..., items: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Seed(_message.Message):
    __slots__ = ("seq", "slot", "first", "items", "last", "epochs", "firsts", "lsn")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    seq: int
    slot: int
    first: bool
    items: _containers.RepeatedScalarFieldContainer[bytes]
    last: bool
    epochs: _containers.RepeatedScalarFieldContainer[int]
    firsts: _containers.RepeatedScalarFieldContainer[int]
    lsn: int
    def __init__(self, seq: _Optional[int] = ..., slot: _Optional[int] = ..., first: bool = ..., items: _Optional[_Iterable[bytes]] = ..., last: bool = ..., epochs: _Optional[_Iterable[int]] = ..., firsts: _Optional[_Iterable[int]] = ..., lsn: _Optional[int] = ...) -> None: ...

class BlobChunk(_message.Message):
    __slots__ = ("id", "data", "first", "length", "slot")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    id: int
    data: bytes
    first: bool
    length: int
    slot: int
    def __init__(self, id: _Optional[int] = ..., data: _Optional[bytes] = ..., first: bool = ..., length: _Optional[int] = ..., slot: _Optional[int] = ...) -> None: ...

class BlobTaken(_message.Message):
    __slots__ = ("id", "bytes", "whole")
    ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    id: int
    bytes: int
    whole: bool
    def __init__(self, id: _Optional[int] = ..., bytes: _Optional[int] = ..., whole: bool = ...) -> None: ...

class Broken(_message.Message):
    __slots__ = ("slot", "why", "code")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    slot: int
    why: str
    code: int
    def __init__(self, slot: _Optional[int] = ..., why: _Optional[str] = ..., code: _Optional[int] = ...) -> None: ...

class Resign(_message.Message):
    __slots__ = ("slot", "epoch")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    slot: int
    epoch: int
    def __init__(self, slot: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Check(_message.Message):
    __slots__ = ("number", "slot", "epoch", "lsn")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    number: int
    slot: int
    epoch: int
    lsn: int
    def __init__(self, number: _Optional[int] = ..., slot: _Optional[int] = ..., epoch: _Optional[int] = ..., lsn: _Optional[int] = ...) -> None: ...

class Checked(_message.Message):
    __slots__ = ("number", "why", "queues")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    number: int
    why: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueDigest]
    def __init__(self, number: _Optional[int] = ..., why: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueDigest, _Mapping]]] = ...) -> None: ...

class QueueDigest(_message.Message):
    __slots__ = ("queue", "name", "messages", "ids", "content", "kept", "kept_ids")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    KEPT_IDS_FIELD_NUMBER: _ClassVar[int]
    queue: int
    name: str
    messages: int
    ids: int
    content: int
    kept: int
    kept_ids: int
    def __init__(self, queue: _Optional[int] = ..., name: _Optional[str] = ..., messages: _Optional[int] = ..., ids: _Optional[int] = ..., content: _Optional[int] = ..., kept: _Optional[int] = ..., kept_ids: _Optional[int] = ...) -> None: ...
