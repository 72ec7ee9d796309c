from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Pressure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNCHANGED: _ClassVar[Pressure]
    CONGESTED: _ClassVar[Pressure]
    RELIEVED: _ClassVar[Pressure]
UNCHANGED: Pressure
CONGESTED: Pressure
RELIEVED: Pressure

class Hello(_message.Message):
    __slots__ = ("cluster", "version", "edge", "boot", "token")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    version: int
    edge: str
    boot: str
    token: int
    def __init__(self, cluster: _Optional[str] = ..., version: _Optional[int] = ..., edge: _Optional[str] = ..., boot: _Optional[str] = ..., token: _Optional[int] = ...) -> None: ...

class Up(_message.Message):
    __slots__ = ("batch", "taken", "commands", "hello", "gone", "bodies", "ping", "asks", "told")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    batch: int
    taken: int
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    hello: Hello
    gone: _containers.RepeatedScalarFieldContainer[int]
    bodies: _containers.RepeatedCompositeFieldContainer[Body]
    ping: bool
    asks: _containers.RepeatedCompositeFieldContainer[Ask]
    told: _containers.RepeatedCompositeFieldContainer[Told]
    def __init__(self, batch: _Optional[int] = ..., taken: _Optional[int] = ..., commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., gone: _Optional[_Iterable[int]] = ..., bodies: _Optional[_Iterable[_Union[Body, _Mapping]]] = ..., ping: bool = ..., asks: _Optional[_Iterable[_Union[Ask, _Mapping]]] = ..., told: _Optional[_Iterable[_Union[Told, _Mapping]]] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("batch", "taken", "runs", "effects", "bodies", "pressure", "refusal", "ping", "told", "asks")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    batch: int
    taken: int
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    effects: _containers.RepeatedCompositeFieldContainer[Effect]
    bodies: _containers.RepeatedCompositeFieldContainer[Body]
    pressure: Pressure
    refusal: Refusal
    ping: bool
    told: _containers.RepeatedCompositeFieldContainer[Told]
    asks: _containers.RepeatedCompositeFieldContainer[Ask]
    def __init__(self, batch: _Optional[int] = ..., taken: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., effects: _Optional[_Iterable[_Union[Effect, _Mapping]]] = ..., bodies: _Optional[_Iterable[_Union[Body, _Mapping]]] = ..., pressure: _Optional[_Union[Pressure, str]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., ping: bool = ..., told: _Optional[_Iterable[_Union[Told, _Mapping]]] = ..., asks: _Optional[_Iterable[_Union[Ask, _Mapping]]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("code", "detail")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    code: int
    detail: str
    def __init__(self, code: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class Blob(_message.Message):
    __slots__ = ("id", "length")
    ID_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    id: int
    length: int
    def __init__(self, id: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("lines", "records", "flags", "priority", "expires", "time", "attempts", "first", "ids", "blob", "due")
    LINES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    lines: bytes
    records: _containers.RepeatedScalarFieldContainer[bytes]
    flags: int
    priority: int
    expires: int
    time: int
    attempts: int
    first: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    blob: Blob
    due: int
    def __init__(self, lines: _Optional[bytes] = ..., records: _Optional[_Iterable[bytes]] = ..., flags: _Optional[int] = ..., priority: _Optional[int] = ..., expires: _Optional[int] = ..., time: _Optional[int] = ..., attempts: _Optional[int] = ..., first: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., blob: _Optional[_Union[Blob, _Mapping]] = ..., due: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("slot", "epoch", "told", "opening")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    slot: int
    epoch: int
    told: bool
    opening: int
    def __init__(self, slot: _Optional[int] = ..., epoch: _Optional[int] = ..., told: bool = ..., opening: _Optional[int] = ...) -> None: ...

class Publish(_message.Message):
    __slots__ = ("slot", "session", "seq", "address", "routing", "run", "queue", "create", "dedup", "ttl", "delay", "maker")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    DEDUP_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    address: str
    routing: int
    run: Run
    queue: str
    create: bool
    dedup: bool
    ttl: int
    delay: int
    maker: str
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., address: _Optional[str] = ..., routing: _Optional[int] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., queue: _Optional[str] = ..., create: bool = ..., dedup: bool = ..., ttl: _Optional[int] = ..., delay: _Optional[int] = ..., maker: _Optional[str] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("held", "taken", "tried", "attempts", "firm")
    HELD_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    FIRM_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[Span]
    taken: _containers.RepeatedCompositeFieldContainer[Span]
    tried: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    firm: _containers.RepeatedCompositeFieldContainer[Span]
    def __init__(self, held: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., taken: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., tried: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., firm: _Optional[_Iterable[_Union[Span, _Mapping]]] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("slot", "session", "seq", "consumer", "address", "routing", "ack", "queue", "durable", "selector", "credit_messages", "credit_bytes", "room", "overhead", "browse", "priority", "create", "confirm", "resume", "no_local", "bodies", "maker")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    CREDIT_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    BROWSE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    NO_LOCAL_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    consumer: int
    address: str
    routing: int
    ack: int
    queue: str
    durable: bool
    selector: str
    credit_messages: int
    credit_bytes: int
    room: int
    overhead: int
    browse: bool
    priority: int
    create: bool
    confirm: bool
    resume: Resume
    no_local: bool
    bodies: bool
    maker: str
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., consumer: _Optional[int] = ..., address: _Optional[str] = ..., routing: _Optional[int] = ..., ack: _Optional[int] = ..., queue: _Optional[str] = ..., durable: bool = ..., selector: _Optional[str] = ..., credit_messages: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., room: _Optional[int] = ..., overhead: _Optional[int] = ..., browse: bool = ..., priority: _Optional[int] = ..., create: bool = ..., confirm: bool = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., no_local: bool = ..., bodies: bool = ..., maker: _Optional[str] = ...) -> None: ...

class Unsubscribe(_message.Message):
    __slots__ = ("slot", "session", "seq", "consumer", "address", "delete_queue")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DELETE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    consumer: int
    address: str
    delete_queue: str
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., consumer: _Optional[int] = ..., address: _Optional[str] = ..., delete_queue: _Optional[str] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("slot", "session", "seq", "consumer", "ids", "outcome", "delay")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    consumer: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    outcome: int
    delay: int
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., consumer: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., outcome: _Optional[int] = ..., delay: _Optional[int] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("slot", "session", "seq", "consumer", "ids")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    consumer: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., consumer: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Barrier(_message.Message):
    __slots__ = ("slot", "session", "seq")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("slot", "consumer", "nbytes")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    slot: int
    consumer: int
    nbytes: int
    def __init__(self, slot: _Optional[int] = ..., consumer: _Optional[int] = ..., nbytes: _Optional[int] = ...) -> None: ...

class Disconnect(_message.Message):
    __slots__ = ("slot", "session", "calm")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CALM_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    calm: bool
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., calm: bool = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("publish", "settle", "edge")
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    publish: Publish
    settle: Settle
    edge: int
    def __init__(self, publish: _Optional[_Union[Publish, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., edge: _Optional[int] = ...) -> None: ...

class Transact(_message.Message):
    __slots__ = ("slot", "session", "seq", "parts", "turn", "number")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    turn: int
    number: int
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., turn: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("slot", "session", "seq", "tx", "coordinator", "parts", "epoch")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TX_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    tx: str
    coordinator: int
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    epoch: int
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., tx: _Optional[str] = ..., coordinator: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., epoch: _Optional[int] = ...) -> None: ...

class Decide(_message.Message):
    __slots__ = ("slot", "session", "seq", "tx", "commit", "calm")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CALM_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    tx: str
    commit: bool
    calm: bool
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., tx: _Optional[str] = ..., commit: bool = ..., calm: bool = ...) -> None: ...

class Inquire(_message.Message):
    __slots__ = ("slot", "session", "seq", "tx")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TX_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    tx: str
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., tx: _Optional[str] = ...) -> None: ...

class Manage(_message.Message):
    __slots__ = ("slot", "session", "seq", "act", "address", "queue", "routing", "selector", "force")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ACT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    slot: int
    session: int
    seq: int
    act: str
    address: str
    queue: str
    routing: int
    selector: str
    force: bool
    def __init__(self, slot: _Optional[int] = ..., session: _Optional[int] = ..., seq: _Optional[int] = ..., act: _Optional[str] = ..., address: _Optional[str] = ..., queue: _Optional[str] = ..., routing: _Optional[int] = ..., selector: _Optional[str] = ..., force: bool = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("id", "question", "edges", "edge")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    id: int
    question: bytes
    edges: bool
    edge: str
    def __init__(self, id: _Optional[int] = ..., question: _Optional[bytes] = ..., edges: bool = ..., edge: _Optional[str] = ...) -> None: ...

class Told(_message.Message):
    __slots__ = ("id", "answer", "failed")
    ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    id: int
    answer: bytes
    failed: str
    def __init__(self, id: _Optional[int] = ..., answer: _Optional[bytes] = ..., failed: _Optional[str] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("publish", "settle", "grant", "subscribe", "unsubscribe", "hold", "barrier", "disconnect", "transact", "prepare", "decide", "inquire", "open", "manage")
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    TRANSACT_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    DECIDE_FIELD_NUMBER: _ClassVar[int]
    INQUIRE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    MANAGE_FIELD_NUMBER: _ClassVar[int]
    publish: Publish
    settle: Settle
    grant: Grant
    subscribe: Subscribe
    unsubscribe: Unsubscribe
    hold: Hold
    barrier: Barrier
    disconnect: Disconnect
    transact: Transact
    prepare: Prepare
    decide: Decide
    inquire: Inquire
    open: Open
    manage: Manage
    def __init__(self, publish: _Optional[_Union[Publish, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., unsubscribe: _Optional[_Union[Unsubscribe, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., barrier: _Optional[_Union[Barrier, _Mapping]] = ..., disconnect: _Optional[_Union[Disconnect, _Mapping]] = ..., transact: _Optional[_Union[Transact, _Mapping]] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., decide: _Optional[_Union[Decide, _Mapping]] = ..., inquire: _Optional[_Union[Inquire, _Mapping]] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., manage: _Optional[_Union[Manage, _Mapping]] = ...) -> None: ...

class Deliveries(_message.Message):
    __slots__ = ("consumer", "run", "cost")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    consumer: _containers.RepeatedScalarFieldContainer[int]
    run: _containers.RepeatedScalarFieldContainer[int]
    cost: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, consumer: _Optional[_Iterable[int]] = ..., run: _Optional[_Iterable[int]] = ..., cost: _Optional[_Iterable[int]] = ...) -> None: ...

class Dones(_message.Message):
    __slots__ = ("session", "seq")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    session: _containers.RepeatedScalarFieldContainer[int]
    seq: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[_Iterable[int]] = ..., seq: _Optional[_Iterable[int]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("session", "seq", "code", "detail")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    session: int
    seq: int
    code: int
    detail: str
    def __init__(self, session: _Optional[int] = ..., seq: _Optional[int] = ..., code: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class ConsumerClosed(_message.Message):
    __slots__ = ("consumer", "reason", "detail")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    consumer: int
    reason: str
    detail: str
    def __init__(self, consumer: _Optional[int] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class AddressBlocked(_message.Message):
    __slots__ = ("session", "slot", "address", "full", "passing")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    PASSING_FIELD_NUMBER: _ClassVar[int]
    session: int
    slot: int
    address: str
    full: bool
    passing: bool
    def __init__(self, session: _Optional[int] = ..., slot: _Optional[int] = ..., address: _Optional[str] = ..., full: bool = ..., passing: bool = ...) -> None: ...

class SlotState(_message.Message):
    __slots__ = ("slot", "epoch", "state", "opening")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SlotState.State]
        OPENED: _ClassVar[SlotState.State]
        MOVED: _ClassVar[SlotState.State]
        SERVING: _ClassVar[SlotState.State]
    UNKNOWN: SlotState.State
    OPENED: SlotState.State
    MOVED: SlotState.State
    SERVING: SlotState.State
    SLOT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    slot: int
    epoch: int
    state: SlotState.State
    opening: int
    def __init__(self, slot: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[_Union[SlotState.State, str]] = ..., opening: _Optional[int] = ...) -> None: ...

class Effect(_message.Message):
    __slots__ = ("deliveries", "dones", "refused", "closed", "browse_end", "slot", "address_blocked")
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    DONES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    BROWSE_END_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_BLOCKED_FIELD_NUMBER: _ClassVar[int]
    deliveries: Deliveries
    dones: Dones
    refused: Refused
    closed: ConsumerClosed
    browse_end: int
    slot: SlotState
    address_blocked: AddressBlocked
    def __init__(self, deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., dones: _Optional[_Union[Dones, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., closed: _Optional[_Union[ConsumerClosed, _Mapping]] = ..., browse_end: _Optional[int] = ..., slot: _Optional[_Union[SlotState, _Mapping]] = ..., address_blocked: _Optional[_Union[AddressBlocked, _Mapping]] = ...) -> None: ...

class Body(_message.Message):
    __slots__ = ("id", "write", "data", "finish", "close", "read", "want", "written", "stored", "failed", "end", "slot", "consumer", "message", "offset", "code", "fault")
    class Fault(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSAID: _ClassVar[Body.Fault]
        DISK: _ClassVar[Body.Fault]
        MOVED: _ClassVar[Body.Fault]
        ROTTEN: _ClassVar[Body.Fault]
        NOT_HELD: _ClassVar[Body.Fault]
    UNSAID: Body.Fault
    DISK: Body.Fault
    MOVED: Body.Fault
    ROTTEN: Body.Fault
    NOT_HELD: Body.Fault
    ID_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    id: int
    write: int
    data: bytes
    finish: bool
    close: bool
    read: Blob
    want: int
    written: int
    stored: Blob
    failed: str
    end: bool
    slot: int
    consumer: int
    message: int
    offset: int
    code: int
    fault: Body.Fault
    def __init__(self, id: _Optional[int] = ..., write: _Optional[int] = ..., data: _Optional[bytes] = ..., finish: bool = ..., close: bool = ..., read: _Optional[_Union[Blob, _Mapping]] = ..., want: _Optional[int] = ..., written: _Optional[int] = ..., stored: _Optional[_Union[Blob, _Mapping]] = ..., failed: _Optional[str] = ..., end: bool = ..., slot: _Optional[int] = ..., consumer: _Optional[int] = ..., message: _Optional[int] = ..., offset: _Optional[int] = ..., code: _Optional[int] = ..., fault: _Optional[_Union[Body.Fault, str]] = ...) -> None: ...
