"""One header block, read in full: command, headers, content-length, and the lines a MESSAGE relays.

Rule: the single place that knows the grammar of header blocks; the fast paths (bulk.py, memo.py, shape.py)
may only repeat what this file has said about an equal block. Must not know bodies or buffers.
"""

from __future__ import annotations

import re
from typing import Final

from broker.config.settings import WireSettings
from broker.core.errors import Code, ProtocolViolation
from broker.core.message import ESCAPED, GROUPED, UNIQUE

from .escapes import unescape
from .rules import COMMANDS, HANDSHAKE, RESERVED, STRICT, WITH_BODY, Leniency, Role, check_command, check_headers
from .versions import Version, negotiate

MAX_DIGITS: Final = 18
"""Of a content-length: more is beyond every limit, and int() of endless digits costs time."""
HANDSHAKES: Final = HANDSHAKE[Role.SERVER] | HANDSHAKE[Role.CLIENT] - {"ERROR"}
"""Frames whose headers are never unescaped (C10), and whose sender may end lines with CR LF."""


CHEAP: Final = 256
"""Bytes of a header block that costs no more than a frame does anyhow."""
LINES, BYTES = 8, 2048
"""So many lines of a longer one, or bytes, cost as much as a frame without them: 97 short lines with an escape each
take 0.25 ms, 60 KB of few lines 0.5."""


def cost_of(raw: bytes) -> int:
    """What it takes to read this block, beyond what every frame takes; that is 1."""
    return raw.count(b"\n") // LINES + len(raw) // BYTES


MARKS: Final = {"JMSXGroupID": GROUPED, "_AMQ_DUPL_ID": UNIQUE}
"""Headers of SEND whose presence shows in the flags, so that nobody has to look for them in vain."""

# Possessive, so that no input makes it go back.
_PLAIN_LINES: Final = re.compile(rb"(?:[^:\n\r\\\0]++:[^:\n\r\\\0]*+\n)*+\n").fullmatch
_RESERVED_KEYS: Final = {name: b"\n%b:" % name.encode() for name in RESERVED}


class Block:
    """A checked header block.

    headers   decoded; first of repeated names wins (C17). All of them.
    lines     relayed lines, each ended by LF, in STOMP 1.2 escapes; only for SEND, else b"".
    flags     ESCAPED if `lines` has a backslash; those of MARKS.
    receipt   raw value of the receipt header, or None.
    length    content-length, or -1 when absent.
    bodyless  the command may not have a body in this version (C13).
    """

    __slots__ = ("bodyless", "command", "flags", "headers", "length", "lines", "raw_values", "receipt")

    def __init__(
        self,
        command: str,
        headers: dict[str, str],
        raw_values: dict[str, bytes] | None,
        lines: bytes,
        flags: int,
        receipt: bytes | None,
    ) -> None:
        self.command = command
        self.headers = headers
        self.raw_values = raw_values
        self.lines = lines
        self.flags = flags
        self.receipt = receipt
        self.length = -1
        self.bodyless = False

    def raw(self, name: str) -> bytes:
        """The value as the sender wrote it. In a plain block that is the decoded value."""
        return self.headers[name].encode() if self.raw_values is None else self.raw_values[name]


def read_block(
    raw: bytes,
    role: Role,
    version: Version,
    settings: WireSettings,
    frame_limit: int,
    first: bool,
    leniency: Leniency = STRICT,
) -> Block:
    """Reads a complete block: command line to empty line, both included. `first`: it opens the connection.

    Raises ProtocolViolation, with the receipt if the block has a usable one."""
    check_limits(raw, settings, frame_limit)
    try:
        command_line, _, rest = raw.partition(b"\n")
        command = _command(command_line, version)
        needs = _check_turn(command, role, version, first, leniency)
        block = _plain(command, raw, version) or _general(command, rest, version)
        check_headers(command, needs, block.headers, version, leniency)
        if "content-length" in block.headers:
            block.length = _length(block.raw("content-length"), settings)
        rules = _agreed(command, block.headers) if command in HANDSHAKES else version
        block.bodyless = rules is Version.V12 and command not in WITH_BODY
        if block.bodyless and block.length > 0:
            raise ProtocolViolation(Code.BODY_NOT_ALLOWED, f"{command} has content-length:{block.length}; leave it out")
        return block
    except ProtocolViolation as violation:
        violation.receipt = find_receipt(raw, version)
        raise


def implies(raw: bytes) -> bool:
    """Is this block one of a client that has left CONNECT out."""
    command = raw.partition(b"\n")[0].removesuffix(b"\r").decode(errors="replace")
    return command in COMMANDS[Role.SERVER][Version.V10] and command not in HANDSHAKES


def read_send(raw: bytes, version: Version, settings: WireSettings) -> Block:
    """The same for a SEND of a client that is logged in, without detours."""
    if (
        raw.startswith(b"SEND\n")
        and len(raw) <= settings.max_header_bytes
        and len(raw) <= settings.max_header_block_bytes
        and raw.count(b"\n") <= settings.max_headers + 2
    ):
        block = _plain("SEND", raw, version)
        if block is not None and "destination" in block.headers:
            digits = block.headers.get("content-length")
            if digits is None:
                return block
            if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS:
                block.length = int(digits)
                if block.length <= settings.max_frame_bytes:
                    return block
    return read_block(raw, Role.SERVER, version, settings, settings.max_frame_bytes, False)


def _command(line: bytes, version: Version) -> str:
    """The command. A CR belongs to the line end in 1.2, and in the frames that say what version it is."""
    try:
        command = line.decode()
    except UnicodeDecodeError:
        raise ProtocolViolation(Code.NOT_UTF8, "the command line is not UTF-8") from None
    bare = command.removesuffix("\r")
    return bare if version is Version.V12 or bare in HANDSHAKES else command


def _check_turn(command: str, role: Role, version: Version, first: bool, leniency: Leniency) -> tuple[str, ...]:
    """The headers `command` needs. Raises ProtocolViolation when it is unknown, or not its turn."""
    opening = HANDSHAKE[role]
    if first and command not in opening:
        if command in COMMANDS[role][Version.V12]:
            raise ProtocolViolation(
                Code.NOT_CONNECTED, f"{command} came before {' or '.join(sorted(opening))}; connect first"
            )
    elif not first and command in opening and command != "ERROR":
        raise ProtocolViolation(Code.ALREADY_CONNECTED, f"a second {command}; open another connection instead")
    return check_command(role, command, version, leniency)


def _agreed(command: str, headers: dict[str, str]) -> Version | None:
    """The version that a CONNECT, STOMP or CONNECTED frame leads to."""
    return negotiate(headers.get("version" if command == "CONNECTED" else "accept-version"))


def _plain(command: str, raw: bytes, version: Version) -> Block | None:
    """The usual block: no escapes, no CR, one colon per line, no name twice. None: it is not one."""
    start = len(command) + 1
    if _PLAIN_LINES(raw, start) is None:
        return None
    if version is Version.V10 and (b" " in raw or b"\t" in raw):
        return None
    try:
        cells = iter(raw[start:-2].decode().replace("\n", ":").split(":"))
    except UnicodeDecodeError:
        return None
    headers = dict(zip(cells, cells))  # noqa: B905 - pairs the cells of one iterator
    if len(headers) != raw.count(b"\n") - 2:
        return None
    receipt = headers["receipt"].encode() if "receipt" in headers else None
    if command != "SEND":
        return Block(command, headers, None, b"", 0, receipt)
    lines = raw
    for name in RESERVED.intersection(headers):
        at = lines.index(_RESERVED_KEYS[name])
        lines = lines[:at] + lines[lines.index(b"\n", at + 1) :]
    return Block(command, headers, None, lines[start:-1], _marks(headers), receipt)


def _marks(headers: dict[str, str]) -> int:
    return sum([flag for name, flag in MARKS.items() if name in headers])


def _general(command: str, rest: bytes, version: Version) -> Block:
    """Every other block, line by line."""
    handshake = command in HANDSHAKES
    headers: dict[str, str] = {}
    raw_values: dict[str, bytes] = {}
    lines: list[bytes] = []
    for line in rest.split(b"\n"):
        if not line or (line == b"\r" and (handshake or version is Version.V12)):
            break
        raw_name, raw_value = _cut(line, version, handshake)
        try:
            name, value = raw_name.decode(), raw_value.decode()
        except UnicodeDecodeError:
            raise ProtocolViolation(
                Code.NOT_UTF8, f"header line {_shown(line, handshake)} is not UTF-8; headers are UTF-8 text"
            ) from None
        if not handshake:
            name, value = unescape(name, version), unescape(value, version)
        if name in headers:
            continue
        headers[name] = value
        raw_values[name] = raw_value
        if command == "SEND" and name not in RESERVED:
            lines.append(b"%b:%b\n" % (_canonical(raw_name, version), _canonical(raw_value, version)))
    if handshake and _agreed(command, headers) is Version.V10:
        headers = {name: value.strip(" \t") for name, value in headers.items()}
    relayed = b"".join(lines)
    flags = (ESCAPED if b"\\" in relayed else 0) | _marks(headers)
    return Block(command, headers, raw_values, relayed, flags, raw_values.get("receipt"))


def _cut(line: bytes, version: Version, handshake: bool) -> tuple[bytes, bytes]:
    """Name and value of a header line, as written."""
    if (handshake or version is Version.V12) and line.endswith(b"\r"):
        line = line[:-1]
    if version is Version.V12 and not handshake and b"\r" in line:
        raise ProtocolViolation(
            Code.MALFORMED_FRAME, f"carriage return inside header line {ascii(line[:60])[1:]}; write it as \\r"
        )
    name, colon, value = line.partition(b":")
    if not colon:
        raise ProtocolViolation(
            Code.MALFORMED_FRAME,
            f"header line {_shown(line, handshake)} has no colon; write name:value, and an empty line after the last",
        )
    if not name:
        raise ProtocolViolation(
            Code.MALFORMED_FRAME, f"header line {_shown(line, handshake)} has no name before its colon"
        )
    if version is Version.V10 and not handshake:
        value = value.strip(b" \t")
    return name, value


def _shown(line: bytes, handshake: bool) -> str:
    """A header line as a complaint shows it. Of CONNECT at most a name that is no secret: what somebody wrote in place
    of `passcode:…` would stand in our log and in theirs."""
    if not handshake:
        return ascii(line[:60])[1:]
    name, colon, _ = line.partition(b":")
    return f"{ascii(name[:60])[1:]} of CONNECT" if colon and name else "of CONNECT (not shown: it may hold a passcode)"


def _canonical(raw: bytes, version: Version) -> bytes:
    """A name or value in STOMP 1.2 escapes. Colons a sender left bare in a value are escaped too (C09)."""
    if version is Version.V10:
        raw = raw.replace(b"\\", b"\\\\")
    return raw.replace(b"\r", b"\\r").replace(b":", b"\\c")


def _length(value: bytes, settings: WireSettings) -> int:
    """Digits only: no sign, no blanks, no underscores, no digits of other scripts."""
    if not value.isdigit():
        raise ProtocolViolation(
            Code.BAD_CONTENT_LENGTH,
            f"content-length:{value[:40].decode(errors='replace')} must be the bytes of the body, digits only",
        )
    if len(value) > MAX_DIGITS or int(value) > settings.max_frame_bytes:
        raise ProtocolViolation(
            Code.FRAME_TOO_LARGE,
            f"content-length:{value[:40].decode()} is over the {settings.max_frame_bytes} bytes a frame may have "
            "(max_frame_bytes)",
        )
    return int(value)


def find_receipt(raw: bytes, version: Version) -> bytes | None:
    """The raw receipt id of a block that may be broken, for its ERROR; None without a usable one."""
    start = raw.find(b"\nreceipt:")
    end = raw.find(b"\n", start + 1)
    if start < 0 or end < 0:
        return None
    value = raw[start + 9 : end]
    if version is Version.V10:
        value = value.strip(b" \t")
    elif version is Version.V12:
        value = value.removesuffix(b"\r")
    try:
        unescape(value.decode(), version)
    except (UnicodeDecodeError, ProtocolViolation):
        return None
    return None if b"\0" in value or (b"\r" in value and version is Version.V12) else value


# ── limits ─────────────────────────────────────────────────────────────────────────────────────────────
# A limit is passed at a certain octet. The checks find the first such octet, so that a block gives the same
# answer whether it came in one piece or octet by octet.


def check_limits(raw: bytes, settings: WireSettings, frame_limit: int) -> None:
    """`raw`: a header block from its first octet, complete or as far as it has come. `frame_limit`: bytes a frame
    may have now.

    Raises ProtocolViolation for the first limit passed, or for NUL before the empty line."""
    nul = raw.find(b"\0")
    if (
        nul < 0
        and len(raw) <= settings.max_header_bytes
        and len(raw) <= settings.max_header_block_bytes
        and len(raw) <= frame_limit
        and raw.count(b"\n") <= settings.max_headers + 1
        and raw.find(b"\n", 0, settings.max_command_bytes + 1) >= 0
    ):
        return
    at, code, detail = _first_excess(raw if nul < 0 else raw[:nul], settings)
    block = settings.max_header_block_bytes
    most = min(block, frame_limit)
    if most < len(raw) and most < at and (nul < 0 or most < nul):
        at = most
        if most == block:
            code = Code.HEADERS_TOO_LARGE
            detail = f"the headers of a frame may have {block} bytes together (max_header_block_bytes)"
        else:
            code = Code.FRAME_TOO_LARGE
            detail = f"a frame may have {frame_limit} bytes here"
    if code is None and nul >= 0:
        at, code = nul, Code.MALFORMED_FRAME
        detail = "NUL inside the headers; an empty line must end them"
    if code is not None:
        raise ProtocolViolation(code, detail, find_receipt(raw[:at], Version.V10))


def _first_excess(raw: bytes, settings: WireSettings) -> tuple[int, Code | None, str]:
    """(offset, code, detail) of the first line that is one too many or too long."""
    start = 0
    for number, line in enumerate(raw.split(b"\n")):
        limit = settings.max_header_bytes if number else settings.max_command_bytes
        if number > settings.max_headers and line not in (b"", b"\r"):
            return (
                start, Code.TOO_MANY_HEADERS,
                f"a frame may have {settings.max_headers} headers (max_headers)",
            )  # fmt: skip
        if len(line) > limit:
            if number == 0:
                return (
                    start + limit, Code.COMMAND_TOO_LONG,
                    f"'{line[:40].decode(errors='replace')}' is longer than {limit} bytes (max_command_bytes)",
                )  # fmt: skip
            name, colon, _ = line[:60].partition(b":")
            shown = f"'{name.decode(errors='replace')}' " if colon else ""
            return (
                start + limit, Code.HEADER_TOO_LONG,
                f"header {shown}is longer than {limit} bytes (max_header_bytes); put large data into the body",
            )  # fmt: skip
        start += len(line) + 1
    return len(raw) + 1, None, ""
