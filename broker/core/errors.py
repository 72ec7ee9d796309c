"""The one catalogue of errors: `error-code` header, `message` header, help for people.

Tree: BrokerError → ProtocolViolation (the peer broke a rule), RefusedError (we cannot do it),
ConfigError (settings), JournalError → CorruptJournal (→ UnknownFormat), JournalFull, JournalDead, BadItem, StaleEpoch.

Rule: a code is never renumbered or reused. Texts tell the reader what to change; they never hold
passcodes, stack traces or paths of ours.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from .reasons import Reason


class Code(Enum):
    """(number, `message` header text, close reason). The name is stable and shown in docs/errors.md."""

    MALFORMED_FRAME = (1001, "Malformed frame", Reason.PROTOCOL_ERROR)
    UNKNOWN_COMMAND = (1002, "Unknown command", Reason.PROTOCOL_ERROR)
    BAD_ESCAPE = (1003, "Undefined escape sequence in a header", Reason.PROTOCOL_ERROR)
    BAD_CONTENT_LENGTH = (1004, "Invalid content-length", Reason.PROTOCOL_ERROR)
    MISSING_NUL = (1005, "Frame does not end with NUL where content-length says", Reason.PROTOCOL_ERROR)
    BODY_NOT_ALLOWED = (1006, "This command may not have a body", Reason.PROTOCOL_ERROR)
    NOT_UTF8 = (1007, "Headers are not UTF-8", Reason.PROTOCOL_ERROR)
    FRAME_TOO_LARGE = (1008, "Frame too large", Reason.FRAME_TOO_LARGE)
    TOO_MANY_HEADERS = (1009, "Too many headers", Reason.HEADER_TOO_LARGE)
    HEADER_TOO_LONG = (1010, "Header too long", Reason.HEADER_TOO_LARGE)
    COMMAND_TOO_LONG = (1011, "Command too long", Reason.HEADER_TOO_LARGE)
    TLS_ON_PLAIN_PORT = (1012, "This port speaks plain STOMP, not TLS", Reason.TLS_ON_PLAIN_PORT)
    HTTP_ON_STOMP_PORT = (1013, "This port speaks STOMP, not HTTP", Reason.HTTP_ON_STOMP_PORT)
    HEADERS_TOO_LARGE = (1014, "Headers too large together", Reason.HEADER_TOO_LARGE)
    NOT_CONNECTED = (1101, "Connection has not been established", Reason.PROTOCOL_ERROR)
    ALREADY_CONNECTED = (1102, "Already connected", Reason.PROTOCOL_ERROR)
    VERSION_MISMATCH = (1103, "Stomp versions not supported", Reason.PROTOCOL_ERROR)
    BAD_HEARTBEAT = (1104, "Invalid heart-beat", Reason.PROTOCOL_ERROR)
    AFTER_DISCONNECT = (1105, "Frame after DISCONNECT", Reason.PROTOCOL_ERROR)
    LOGIN_FAILED = (1201, "Login failed", Reason.LOGIN_FAILED)
    LOGIN_TIMEOUT = (1202, "No CONNECT in time", Reason.LOGIN_TIMEOUT)
    NOT_ALLOWED = (1203, "Not allowed", Reason.REFUSED)
    UNKNOWN_HOST = (1204, "Unknown virtual host", Reason.REFUSED)
    LOGIN_EXPIRED = (1205, "Login expired", Reason.LOGIN_EXPIRED)
    MISSING_HEADER = (1301, "Missing header", Reason.PROTOCOL_ERROR)
    BAD_HEADER = (1302, "Invalid header value", Reason.PROTOCOL_ERROR)
    BAD_DESTINATION = (1303, "Invalid destination", Reason.REFUSED)
    NO_SUCH_DESTINATION = (1304, "Destination does not exist", Reason.REFUSED)
    ROUTING_MISMATCH = (1305, "Routing type not supported by the address", Reason.REFUSED)
    DUPLICATE_SUBSCRIPTION = (1306, "There already is a subscription with this id", Reason.PROTOCOL_ERROR)
    NO_SUCH_SUBSCRIPTION = (1307, "No such subscription", Reason.PROTOCOL_ERROR)
    BAD_ACK_MODE = (1308, "Invalid ack mode", Reason.PROTOCOL_ERROR)
    NO_SUCH_DELIVERY = (1309, "No such message to acknowledge", Reason.REFUSED)
    BAD_SELECTOR = (1310, "Invalid selector", Reason.REFUSED)
    CLIENT_ID_REQUIRED = (1311, "A durable subscription needs a client-id on CONNECT", Reason.REFUSED)
    SUBSCRIPTION_IN_USE = (1312, "Durable subscription has other consumers", Reason.REFUSED)
    SUBSCRIPTION_CONFLICT = (1313, "Durable subscription exists with other settings", Reason.REFUSED)
    CLIENT_ID_IN_USE = (1314, "Another connection has this client-id", Reason.REFUSED)
    CONSUMER_LIMIT = (1315, "The queue has as many consumers as it may have", Reason.REFUSED)
    QUEUE_EXISTS = (1316, "There is a queue of this name already", Reason.REFUSED)
    UNKNOWN_DESTINATION = (1317, "Unknown kind of destination", Reason.REFUSED)
    NO_SUCH_TRANSACTION = (1401, "No such transaction", Reason.PROTOCOL_ERROR)
    DUPLICATE_TRANSACTION = (1402, "Transaction already begun", Reason.PROTOCOL_ERROR)
    TOO_FEW_IDS = (1403, "The address remembers too few duplicate ids", Reason.REFUSED)
    CONNECTION_LIMIT = (1501, "Too many connections", Reason.CONNECTION_LIMIT)
    SUBSCRIPTION_LIMIT = (1502, "Too many subscriptions", Reason.SUBSCRIPTION_LIMIT)
    TRANSACTION_LIMIT = (1503, "Transaction limit exceeded", Reason.TRANSACTION_LIMIT)
    SLOW_CONSUMER = (1504, "Client does not read its messages", Reason.SLOW_CONSUMER)
    FRAME_TIMEOUT = (1505, "Frame not finished in time", Reason.FRAME_TIMEOUT)
    HEARTBEAT_MISSED = (1506, "Did not receive data within the connection TTL", Reason.HEARTBEAT_MISSED)
    HEARTBEAT_FLOOD = (1507, "Too many empty lines", Reason.HEARTBEAT_FLOOD)
    MESSAGE_TOO_LARGE = (1508, "Message too large", Reason.REFUSED)
    QUEUE_LIMIT = (1509, "Too many queues", Reason.REFUSED)
    ADDRESS_FULL = (1511, "Address is full", Reason.REFUSED)
    RATE_LIMIT = (1510, "Sending faster than allowed", Reason.REFUSED)
    SELECTOR_COST = (1512, "Selector costs too much", Reason.SELECTOR_COST)
    QUOTA = (1513, "Quota exceeded", Reason.QUOTA)
    DISK_FULL = (1601, "No space left on the broker's disk", Reason.DISK_FULL)
    OWNER_STOPPED = (1602, "The owner of this destination has stopped", Reason.OWNER_STOPPED)
    QUEUE_DELETED = (1603, "The queue was deleted", Reason.QUEUE_DELETED)
    SHUTDOWN = (1604, "The broker is stopping", Reason.SHUTDOWN)
    OWNER_UNAVAILABLE = (1605, "No owner serves this destination now", Reason.OWNER_STOPPED)
    DIRECTORY_UNAVAILABLE = (1606, "The cluster's metadata cannot be asked now", Reason.REFUSED)
    OWNER_MOVED = (1607, "Another owner serves this destination", Reason.OWNER_STOPPED)
    SLOT_SHELVED = (1609, "This destination is out of service", Reason.OWNER_STOPPED)
    DISCONNECTED = (1611, "Disconnected by an operator", Reason.OPERATOR)
    MEMORY_FULL = (1610, "The broker's memory is full", Reason.MEMORY_FULL)
    INTERNAL = (1699, "Internal error", Reason.INTERNAL)

    BAD_COMPONENT_MESSAGE = (1701, "Not a message of this component protocol", Reason.PROTOCOL_ERROR)
    WRONG_CLUSTER = (1702, "A component of another cluster", Reason.REFUSED)
    WRONG_RELEASE = (1703, "A component with another protocol version", Reason.REFUSED)
    DUPLICATE_IDENTITY = (1704, "Another process has this component's name", Reason.REFUSED)
    STALE_EPOCH = (1705, "A newer leader exists", Reason.REFUSED)
    COMPONENT_MESSAGE_TOO_LARGE = (1706, "Component message too large", Reason.FRAME_TOO_LARGE)
    COMPONENT_FLOOD = (1707, "Too many streams or resets from one component", Reason.CONNECTION_LIMIT)
    OFFSET_EXPIRED = (1801, "This part of the log is gone", Reason.REFUSED)
    OFFSET_DIVERGED = (1802, "The log has another history at this offset", Reason.REFUSED)
    READ_ELSEWHERE = (1803, "This slot is read from another owner", Reason.OWNER_STOPPED)
    UNKNOWN_SLOT = (1804, "There is no such slot", Reason.REFUSED)
    READER_LIMIT = (1805, "Too many readers of the log", Reason.CONNECTION_LIMIT)
    BAD_READ = (1806, "Not a request to the read API", Reason.PROTOCOL_ERROR)
    REPLICA_BEHIND = (1807, "This replica cannot be read just now", Reason.OWNER_STOPPED)

    def __init__(self, number: int, text: str, reason: Reason) -> None:
        self.number = number
        self.text = text
        self.reason = reason


CODES: Final = {code.number: code for code in Code}
"""By number: as components tell each other."""


class BrokerError(Exception):
    """Root of everything this package raises on purpose."""


class ProtocolViolation(BrokerError):
    """The peer broke a rule of its protocol version. `receipt`: raw receipt id of the frame, if known. `about`: as in
    RefusedError."""

    def __init__(self, code: Code, detail: str = "", receipt: bytes | None = None, about: str = "") -> None:
        super().__init__(f"{code.text}: {detail}" if detail else code.text)
        self.code = code
        self.detail = detail
        self.receipt = receipt
        self.about = about


class RefusedError(BrokerError):
    """A well-formed request that cannot be carried out. `about`: the header that it is about, where clients of another
    broker know a text of its own for it; else empty."""

    def __init__(self, code: Code, detail: str = "", about: str = "") -> None:
        super().__init__(f"{code.text}: {detail}" if detail else code.text)
        self.code = code
        self.detail = detail
        self.about = about


class ConfigError(BrokerError):
    """A setting is unknown, of the wrong type, or contradicts another; the text names it and the fix."""


class JournalError(BrokerError):
    """Root of what the journal raises."""


class OffsetExpired(JournalError):
    """What is asked for has been freed; `earliest`: the first offset of the slot that is still there."""

    def __init__(self, slot: int, offset: int, earliest: int) -> None:
        super().__init__(f"slot {slot}: offset {offset} has been freed, the earliest is {earliest}")
        self.slot = slot
        self.earliest = earliest


class OffsetDiverged(JournalError):
    """The reader has read another history than this log holds: the text says where they part."""

    def __init__(self, slot: int, text: str) -> None:
        super().__init__(f"slot {slot}: {text}")
        self.slot = slot


class CorruptJournal(JournalError):
    """Bytes that were once synced do not check: refuse to start; `stampede journal verify|repair|salvage` helps."""


class UnknownFormat(CorruptJournal):
    """They do check, but this release, or what is installed beside it, cannot read them: nothing is to be repaired or
    salvaged, another release or a package is needed."""


class JournalFull(JournalError):
    """No space: sends are refused, settling goes on from the reserve."""


class JournalDead(JournalError):
    """A write or sync failed with EIO: the owner stops and never tries the same file again."""


class BadItem(JournalError):
    """What was sent as the next item of a slot's log does not check or does not follow: nothing of it was taken."""


class NewerRelease(BadItem):
    """A newer release has written something that this one does not know: nothing of it was taken."""

    def __init__(self, slot: int, kind: str) -> None:
        super().__init__(f"slot {slot}: a newer release has written {kind!r}, which this one does not know: upgrade it")


class StaleEpoch(JournalError):
    """This epoch of the slot, or a later one, has begun here already."""
