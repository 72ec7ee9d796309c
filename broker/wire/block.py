"""One header block, read in full: command, headers, content-length, and the lines a MESSAGE relays.

Rule: the single place that knows the grammar of header blocks; the short cuts (shortcuts/)
may only repeat what this file has said about an equal block. Must not know bodies or buffers.
"""

# Example, STOMP 1.2, a block whose lines end with LF:
#
#     SEND
#     destination:/queue/a
#     receipt:7
#     color:dark\cred
#     color:blue
#
# usual_send gives up: there is a name twice. So it is read as any frame is: check_limits finds nothing too long.
# _command says SEND, _check_turn that a SEND may come now and needs `destination`. _general reads line by line:
#     headers  destination=/queue/a, receipt=7, color=dark:red     decoded (C06); the second color is nothing (C17)
#     lines    destination:/queue/a, color:dark\cred               what each MESSAGE relays; receipt is RESERVED
#     flags    ESCAPED, so that a MESSAGE for a 1.0 or 1.1 subscriber is written anew (writer.rewrite_lines)
#     receipt  b"7", as written: RECEIPT sends it back without decoding and encoding it
#     length   -1: no content-length, so the first NUL ends the body (C14)

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.config.settings import WireSettings
from broker.core.errors import Code, ProtocolViolation
from broker.core.message import ESCAPED

from .escapes import unescape
from .heads import ACTED_ON, MARKS, NOT_RELAYED, Said, said_of
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
    size = len(raw)
    return raw.count(b"\n") // LINES + size // BYTES if size > CHEAP else 0


# Possessive, so that no input makes it go back.
# A value must not hold a colon here, although STOMP allows it: `_plain` cuts names and values apart by one split at
# all colons of the block.
_PLAIN_LINES: Final = re.compile(rb"(?:[^:\n\r\\\0]++:[^:\n\r\\\0]*+\n)*+\n").fullmatch
# In a block without CR and NUL. A line without a colon makes one name with the next one: fewer than there are lines.
_NAMES: Final = re.compile(rb"\n([^:]++):.*+").findall
_PAIRS: Final = re.compile(rb"\n([^:]++):(.*+)").findall
DESTINATION: Final = b"destination"
LENGTH: Final = b"content-length"
RECEIPT: Final = b"receipt"
_DESTINATION_LINE: Final = b"\ndestination:"
_RARE: Final = (NOT_RELAYED | ACTED_ON | frozenset(MARKS)) - {DESTINATION, LENGTH, RECEIPT}
"""What a block may have beside these three and headers that are relayed and nothing else."""
Escapes = Callable[[bytes], re.Match[bytes] | None]
# From the left, as escapes.unescape takes them, so that two backslashes are one and what follows them is text.
# Possessive: a text of many escapes is gone through once.
ESCAPES: Final[Mapping[Version, Escapes]] = {
    Version.V11: re.compile(rb"[^\\]*+(?:\\[nc\\][^\\]*+)*+").fullmatch,
    Version.V12: re.compile(rb"[^\\]*+(?:\\[nrc\\][^\\]*+)*+").fullmatch,
}
"""Text with escapes that the version has."""


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
    check_limits(raw, settings, frame_limit, version)
    try:
        command_line, _, rest = raw.partition(b"\n")
        command = _command(command_line, version)
        needs = _check_turn(command, role, version, first, leniency)
        block = _plain(command, raw, version) or _general(command, rest, version)
        check_headers(command, needs, block.headers, version, leniency)
        # Before content-length is believed: a frame that is refused anyhow must not be waited for.
        if "content-length" in block.headers:
            block.length = _length(block.raw("content-length"), settings)
        # CONNECT and CONNECTED are read before a version is agreed on, but themselves say which one it will be:
        # whether they may have a body (C13) goes by that.
        rules = _agreed(command, block.headers) if command in HANDSHAKES else version
        block.bodyless = rules is Version.V12 and command not in WITH_BODY
        if block.bodyless and block.length > 0:
            raise ProtocolViolation(Code.BODY_NOT_ALLOWED, f"{command} has content-length:{block.length}; leave it out")
        return block
    except ProtocolViolation as violation:
        # Whatever is wrong with the block, the ERROR should name the receipt that the client waits for (C63). The
        # receipt line may stand behind the broken one, so it is looked for in the raw block.
        violation.receipt = find_receipt(raw, version)
        raise


def implies(raw: bytes) -> bool:
    """Is this block one of a client that has left CONNECT out."""
    command = raw.partition(b"\n")[0].removesuffix(b"\r").decode(errors="replace")
    return command in COMMANDS[Role.SERVER][Version.V10] and command not in HANDSHAKES


class SendBlock(NamedTuple):
    """A checked block of SEND, as a reader of many needs it.

    lines, flags, length, receipt   as in Block.    said   what a broker acts on.
    names     of all its headers, if it is a plain one (layouts.py); else None.    cost   see cost_of."""

    lines: bytes
    flags: int
    length: int
    receipt: bytes | None
    said: Said
    names: list[bytes] | None
    cost: int


Usual = tuple[bytes, int, int, bytes | None, Said, list[bytes] | None, int]
"""What a SendBlock has; to make that takes a tenth of the reading."""


def read_send(raw: bytes, version: Version, settings: WireSettings) -> SendBlock:
    """The same for a SEND of a client that is logged in, without detours."""
    # One pass less than read_block for the only frame that comes by the million. Its limits are those of
    # check_limits; a block that fails any test here is read again in full, which then names what is wrong.
    if (
        raw.startswith(b"SEND\n")
        and b"\0" not in raw
        and len(raw) <= settings.max_header_block_bytes
        and (len(raw) <= settings.max_header_bytes or max(map(len, raw.split(b"\n"))) <= settings.max_header_bytes)
    ):
        send = usual_send(raw, ESCAPES.get(version), settings.max_headers)
        if send is not None and send[2] <= settings.max_frame_bytes:
            return SendBlock(*send)
    block = read_block(raw, Role.SERVER, version, settings, settings.max_frame_bytes, False)
    said = said_of({name.encode(): block.raw(name) for name in block.headers})
    return SendBlock(block.lines, block.flags, block.length, block.receipt, said, None, cost_of(raw))


def usual_send(raw: bytes, escapes: Escapes | None, most: int) -> Usual | None:
    """Of a block without NUL, from SEND LF on. None: it has CR, wrong escapes or a name twice, or breaks another rule.
    escapes: of the version, None in 1.0. most: headers that it may have."""
    count = raw.count(b"\n") - 2
    if b"\r" in raw or count > most:
        return None
    # Names alone, found by one search: what is only relayed is not cut apart. What the search does not find (a line
    # without colon or name) makes less of it than the block has lines; so does a name twice, of which the first must
    # count (C17).
    names = _NAMES(raw)
    known = set(names)
    if len(known) != count or DESTINATION not in known:
        return None
    if not (plain := raw.isascii()):
        try:
            raw.decode()
        except UnicodeDecodeError:
            return None
    # Escapes are relayed as they are written, so they are only looked at, not decoded.
    if escaped := b"\\" in raw:
        if escapes is None or escapes(raw) is None:
            return None
        plain = False
    if escapes is None and (b" " in raw or b"\t" in raw):
        return None  # 1.0 may trim values (C11)
    lines, length, receipt, flags = raw, -1, None, 0
    if LENGTH in known:
        digits, lines = _cut_out(lines, LENGTH)
        if not digits.isdigit() or len(digits) > MAX_DIGITS:
            return None
        length = int(digits)
    if RECEIPT in known:
        receipt, lines = _cut_out(lines, RECEIPT)
        escaped = b"\\" in lines
    if _RARE.isdisjoint(known):
        at = raw.index(_DESTINATION_LINE) + len(_DESTINATION_LINE)
        said: Said = ((DESTINATION, raw[at : raw.index(b"\n", at)]),)
    else:
        said, lines, flags = _rare(raw, lines, known)
        escaped = b"\\" in lines
    if raw.count(b":") != count:
        # Colons that a sender left bare in a value are escaped (C09).
        lines = b"SEND%b\n\n" % b"".join([b"\n%b:%b" % (n, v.replace(b":", b"\\c")) for n, v in _PAIRS(lines)])
        escaped, plain = b"\\" in lines, False
    size = len(raw)
    cost = (count + 2) // LINES + size // BYTES if size > CHEAP else 0  # cost_of(), with what is counted already
    return lines[5:-1], flags | ESCAPED if escaped else flags, length, receipt, said, names if plain else None, cost


def _rare(raw: bytes, lines: bytes, known: set[bytes]) -> tuple[Said, bytes, int]:
    """What a block of these names says to a broker, which of these lines of it are relayed, and the flags of MARKS."""
    for name in NOT_RELAYED.intersection(known) - {LENGTH, RECEIPT}:
        _, lines = _cut_out(lines, name)
    flags = 0
    for mark in MARKS.keys() & known:
        flags |= MARKS[mark]
    return said_of(dict(_PAIRS(raw))), lines, flags


def _cut_out(lines: bytes, name: bytes) -> tuple[bytes, bytes]:
    """The value of a header that is there once, and the block without it."""
    # Each line stands behind a line end and has its name up to the first colon, so what is found is that line and never
    # a part of a value.
    at = lines.index(b"\n%b:" % name)
    end = lines.index(b"\n", at + 1)
    return lines[at + len(name) + 2 : end], lines[:at] + lines[end:]


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
        # ALREADY_CONNECTED is for a second CONNECT; an ERROR may come at any time from a server, also as the first
        # frame (C21).
        raise ProtocolViolation(Code.ALREADY_CONNECTED, f"a second {command}; open another connection instead")
    return check_command(role, command, version, leniency)


def _agreed(command: str, headers: dict[str, str]) -> Version | None:
    """The version that a CONNECT, STOMP or CONNECTED frame leads to."""
    return negotiate(headers.get("version" if command == "CONNECTED" else "accept-version"))


def _plain(command: str, raw: bytes, version: Version) -> Block | None:
    """The usual block: no escapes, no CR, one colon per line, no name twice. None: it is not one."""
    start = len(command) + 1
    if command == "SEND":  # it was not usual_send()
        return None
    if _PLAIN_LINES(raw, start) is None:
        return None
    # 1.0 may trim values (C11): a blank anywhere sends the block to the reader that does.
    if version is Version.V10 and (b" " in raw or b"\t" in raw):
        return None
    try:
        # Of a block without headers the end is in front of the start: compiled (ADR 22), that is no slice.
        cells = iter(raw[start : max(len(raw) - 2, start)].decode().replace("\n", ":").split(":"))
    except UnicodeDecodeError:
        return None
    headers = dict(zip(cells, cells))  # noqa: B905 - pairs the cells of one iterator
    # A block of n headers has n + 2 line ends. Fewer names than that: one came twice, and the first must count (C17),
    # not the last one as in a dict.
    if len(headers) != raw.count(b"\n") - 2:
        return None
    receipt = headers["receipt"].encode() if "receipt" in headers else None
    return Block(command, headers, None, b"", 0, receipt)


def _general(command: str, rest: bytes, version: Version) -> Block:
    """Every other block, line by line."""
    handshake = command in HANDSHAKES
    headers: dict[str, str] = {}
    raw_values: dict[str, bytes] = {}
    lines: list[bytes] = []
    for line in rest.split(b"\n"):
        # CR alone ends the headers only where CR LF is a line end (C03); in 1.0 and 1.1 it would be a header line
        # without colon (C02).
        if not line or (line == b"\r" and (handshake or version is Version.V12)):
            break
        raw_name, raw_value = _cut(line, version, handshake)
        try:
            name, value = raw_name.decode(), raw_value.decode()
        except UnicodeDecodeError:
            raise ProtocolViolation(
                Code.NOT_UTF8, f"header line {_shown(line, handshake)} is not UTF-8; headers are UTF-8 text"
            ) from None
        # C10: what a CONNECT says of `passcode` is not unescaped, so a passcode may hold backslashes.
        if not handshake:
            name, value = unescape(name, version), unescape(value, version)
        if name in headers:
            continue
        headers[name] = value
        raw_values[name] = raw_value
        # From the raw text, not from the decoded one: encoding it again would cost a pass over each header and give
        # the same.
        if command == "SEND" and name not in RESERVED:
            lines.append(b"%b:%b\n" % (_canonical(raw_name, version), _canonical(raw_value, version)))
    # Only now it is known that this is 1.0, whose clients may pad values (C11): STOMP 1.1 and 1.2 forbid to trim
    # (C12).
    if handshake and _agreed(command, headers) is Version.V10:
        headers = {name: value.strip(" \t") for name, value in headers.items()}
    relayed = b"".join(lines)
    flags = ESCAPED if b"\\" in relayed else 0
    for mark, flag in MARKS.items():
        if mark.decode() in headers:
            flags |= flag
    return Block(command, headers, raw_values, relayed, flags, raw_values.get("receipt"))


def _cut(line: bytes, version: Version, handshake: bool) -> tuple[bytes, bytes]:
    """Name and value of a header line, as written."""
    if (handshake or version is Version.V12) and line.endswith(b"\r"):
        line = line[:-1]
    # 1.2 has no bare CR in a line (it is written as \r, C07): letting it through would give subscribers with 1.2 a
    # line end in the middle of a header, and with it a header that the sender wrote into a value.
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
    # In 1.0 a backslash is a character like others (C11); for readers that know escapes it is written as two.
    if version is Version.V10:
        raw = raw.replace(b"\\", b"\\\\")
    return raw.replace(b"\r", b"\\r").replace(b":", b"\\c")


def _length(value: bytes, settings: WireSettings) -> int:
    """Digits only: no sign, no blanks, no underscores, no digits of other scripts."""
    # isdigit of bytes is about ASCII only. int() takes "+5", " 5" and "5_0", and two readers who disagree about where
    # a body ends are how frames are smuggled.
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
    # Only the first one counts (C17). The find cannot hit the command line, which has no line end in front.
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


def check_limits(raw: bytes, settings: WireSettings, frame_limit: int, version: Version) -> None:
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
    # Slow from here on, but a block comes here once: either it is refused, or it has a NUL, or exactly the last
    # header allowed.
    at, code, detail = _first_excess(raw if nul < 0 else raw[:nul], settings)
    block = settings.max_header_block_bytes
    most = min(block, frame_limit)
    # Which limit was passed first, octet by octet: `at` of a line, `most` of the whole block, `nul` where neither.
    # Only so the answer is the same however the octets were cut into reads.
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
        # A receipt in front of the excess, by the rules of the version: its blanks belong to it from 1.1 on (C12), a CR
        # at its end does not in 1.2 (C03).
        raise ProtocolViolation(code, detail, find_receipt(raw[:at], version))


def _first_excess(raw: bytes, settings: WireSettings) -> tuple[int, Code | None, str]:
    """(offset, code, detail) of the first line that is one too many or too long."""
    start = 0
    for number, line in enumerate(raw.split(b"\n")):
        limit = settings.max_header_bytes if number else settings.max_command_bytes
        # Empty lines are not counted: the one that ends the headers is not a header.
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
