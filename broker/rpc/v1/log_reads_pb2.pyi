from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("addresses", "view", "cuts", "followers")
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWERS_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    view: str
    cuts: int
    followers: bool
    def __init__(self, addresses: _Optional[_Iterable[str]] = ..., view: _Optional[str] = ..., cuts: _Optional[int] = ..., followers: bool = ...) -> None: ...

class Description(_message.Message):
    __slots__ = ("slots", "broker_id", "now_ms", "endpoints", "cuts", "endpoint", "deliveries", "unknown")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    broker_id: str
    now_ms: int
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    cuts: _containers.RepeatedCompositeFieldContainer[Cut]
    endpoint: str
    deliveries: bool
    unknown: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., broker_id: _Optional[str] = ..., now_ms: _Optional[int] = ..., endpoints: _Optional[_Iterable[str]] = ..., cuts: _Optional[_Iterable[_Union[Cut, _Mapping]]] = ..., endpoint: _Optional[str] = ..., deliveries: bool = ..., unknown: _Optional[_Iterable[str]] = ...) -> None: ...

class Cut(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class SlotRange(_message.Message):
    __slots__ = ("slot", "endpoint", "earliest", "end", "epoch", "lineage", "follower", "leader")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    slot: int
    endpoint: str
    earliest: int
    end: int
    epoch: int
    lineage: _containers.RepeatedCompositeFieldContainer[Lineage]
    follower: bool
    leader: str
    def __init__(self, slot: _Optional[int] = ..., endpoint: _Optional[str] = ..., earliest: _Optional[int] = ..., end: _Optional[int] = ..., epoch: _Optional[int] = ..., lineage: _Optional[_Iterable[_Union[Lineage, _Mapping]]] = ..., follower: bool = ..., leader: _Optional[str] = ...) -> None: ...

class Lineage(_message.Message):
    __slots__ = ("epoch", "start")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    start: int
    def __init__(self, epoch: _Optional[int] = ..., start: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("slot", "until", "epoch", "addresses", "view", "since_ms", "before_ms", "include_body", "max_bytes", "until_epoch")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BODY_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    slot: int
    until: int
    epoch: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    view: str
    since_ms: int
    before_ms: int
    include_body: bool
    max_bytes: int
    until_epoch: int
    def __init__(self, slot: _Optional[int] = ..., until: _Optional[int] = ..., epoch: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., view: _Optional[str] = ..., since_ms: _Optional[int] = ..., before_ms: _Optional[int] = ..., include_body: bool = ..., max_bytes: _Optional[int] = ..., until_epoch: _Optional[int] = ..., **kwargs) -> None: ...

class ReadBatch(_message.Message):
    __slots__ = ("rows", "next", "done", "epoch")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    next: int
    done: bool
    epoch: int
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., next: _Optional[int] = ..., done: bool = ..., epoch: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("offset", "epoch", "ts_ms", "event", "address", "queue", "message_id", "headers", "body", "size", "priority", "expires_ms", "group_id", "consumer", "attempt", "reason", "body_ref", "index")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TS_MS_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BODY_REF_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    offset: int
    epoch: int
    ts_ms: int
    event: str
    address: str
    queue: str
    message_id: str
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    body: bytes
    size: int
    priority: int
    expires_ms: int
    group_id: str
    consumer: str
    attempt: int
    reason: str
    body_ref: str
    index: int
    def __init__(self, offset: _Optional[int] = ..., epoch: _Optional[int] = ..., ts_ms: _Optional[int] = ..., event: _Optional[str] = ..., address: _Optional[str] = ..., queue: _Optional[str] = ..., message_id: _Optional[str] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., body: _Optional[bytes] = ..., size: _Optional[int] = ..., priority: _Optional[int] = ..., expires_ms: _Optional[int] = ..., group_id: _Optional[str] = ..., consumer: _Optional[str] = ..., attempt: _Optional[int] = ..., reason: _Optional[str] = ..., body_ref: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("parts", "addresses", "view", "since_ms", "before_ms", "max_bytes")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[ScanPart]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    view: str
    since_ms: int
    before_ms: int
    max_bytes: int
    def __init__(self, parts: _Optional[_Iterable[_Union[ScanPart, _Mapping]]] = ..., addresses: _Optional[_Iterable[str]] = ..., view: _Optional[str] = ..., since_ms: _Optional[int] = ..., before_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ScanPart(_message.Message):
    __slots__ = ("slot", "until", "epoch", "until_epoch")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNTIL_EPOCH_FIELD_NUMBER: _ClassVar[int]
    slot: int
    until: int
    epoch: int
    until_epoch: int
    def __init__(self, slot: _Optional[int] = ..., until: _Optional[int] = ..., epoch: _Optional[int] = ..., until_epoch: _Optional[int] = ..., **kwargs) -> None: ...

class ScanBatch(_message.Message):
    __slots__ = ("records", "next", "queues", "done")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    records: bytes
    next: _containers.RepeatedCompositeFieldContainer[ScanPart]
    queues: _containers.RepeatedCompositeFieldContainer[QueueName]
    done: bool
    def __init__(self, records: _Optional[bytes] = ..., next: _Optional[_Iterable[_Union[ScanPart, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[QueueName, _Mapping]]] = ..., done: bool = ...) -> None: ...

class QueueName(_message.Message):
    __slots__ = ("slot", "id", "name", "address")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    id: int
    name: str
    address: str
    def __init__(self, slot: _Optional[int] = ..., id: _Optional[int] = ..., name: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class ReadBodyRequest(_message.Message):
    __slots__ = ("slot", "offset", "body_ref")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BODY_REF_FIELD_NUMBER: _ClassVar[int]
    slot: int
    offset: int
    body_ref: str
    def __init__(self, slot: _Optional[int] = ..., offset: _Optional[int] = ..., body_ref: _Optional[str] = ...) -> None: ...

class BodyChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class WatermarkRequest(_message.Message):
    __slots__ = ("name", "offsets", "forget")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    name: str
    offsets: _containers.ScalarMap[int, int]
    forget: bool
    def __init__(self, name: _Optional[str] = ..., offsets: _Optional[_Mapping[int, int]] = ..., forget: bool = ...) -> None: ...

class WatermarkAnswer(_message.Message):
    __slots__ = ("kept_bytes", "limit_bytes")
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    kept_bytes: int
    limit_bytes: int
    def __init__(self, kept_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("ts_ms", "slots")
    TS_MS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    ts_ms: int
    slots: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ts_ms: _Optional[int] = ..., slots: _Optional[_Iterable[int]] = ...) -> None: ...

class LookupAnswer(_message.Message):
    __slots__ = ("offsets",)
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.ScalarMap[int, int]
    def __init__(self, offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "text", "earliest", "endpoint")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    code: int
    text: str
    earliest: int
    endpoint: str
    def __init__(self, code: _Optional[int] = ..., text: _Optional[str] = ..., earliest: _Optional[int] = ..., endpoint: _Optional[str] = ...) -> None: ...
