"""Frames as bytes: what a server or client says.

Rule: pure functions; every header is escaped as the version wants it (C09), CONNECT and CONNECTED never
(C10). Plain answers of a server (receipts) are C-level joins of raw values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker.core.errors import Code

from .escapes import escape, unescape
from .versions import SUPPORTED, Version

__all__ = ["connected_frame", "encode_frame", "error_frame", "escape", "receipts", "rewrite_lines"]

UNESCAPED: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
"""C10. STOMP is read like CONNECT (C22): its reader does not know the version yet."""
_SPACES: Final = str.maketrans("\n:", "  ")
SHORT: Final = 400
"""Characters of a detail in the header `message`; the longest of ours with a name of 100 characters has about 300."""
VERSIONS: Final = ",".join(version.value for version in SUPPORTED)


def encode_frame(command: str, headers: Iterable[tuple[str, str]], body: bytes, version: Version) -> bytes:
    """One frame. A content-length is added when there is a body and the headers do not give one (C15)."""
    if command in UNESCAPED:
        # A colon stands for itself here, and a line end cannot be written at all.
        lines = [f"{escape(n, Version.V10)}:{escape(v, Version.V10)}\n" for n, v in headers]
    else:
        lines = [f"{escape(n, version)}:{escape(v, version)}\n" for n, v in headers]
    if body and not any(line.startswith("content-length:") for line in lines):
        lines.append(f"content-length:{len(body)}\n")
    return b"%b\n%b\n%b\0" % (command.encode(), "".join(lines).encode(), body)


def connected_frame(headers: Sequence[tuple[str, str]]) -> bytes:
    """CONNECTED; nothing in it is escaped."""
    lines = [f"{name}:{value}\n" for name, value in headers]
    text = "".join(lines)
    if text.count("\n") != len(lines):
        return encode_frame("CONNECTED", headers, b"", Version.V10)
    return b"CONNECTED\n%b\n\0" % text.encode()


def receipts(raw_ids: list[bytes]) -> bytes:
    """RECEIPT frames for raw (still escaped) receipt ids, in order; nothing for none."""
    # C60. The ids were read in this same version's escapes, so they go back as they came.
    if not raw_ids:
        return b""
    return b"RECEIPT\nreceipt-id:" + b"\n\n\0RECEIPT\nreceipt-id:".join(raw_ids) + b"\n\n\0"


def error_frame(
    version: Version,
    code: Code,
    detail: str,
    receipt: bytes | None = None,
    extra: Iterable[tuple[str, str]] = (),
    text: str | None = None,
) -> bytes:
    """ERROR (C63, C64). Most clients show their users the header `message` and nothing else: it says in one line what
    the body says. `receipt`: raw receipt id of the frame it is about, or None. text: in place of that line.

    A version mismatch lists the versions we speak (C25)."""
    headers = [
        ("message", text or _short(code, detail)),
        ("error-code", str(code.number)),
        ("content-type", "text/plain"),
        # Own headers before the extra ones: of repeated headers the first counts (C17).
        *extra,
    ]
    if code is Code.VERSION_MISMATCH and all(name != "version" for name, _ in headers):
        headers.append(("version", VERSIONS))
    lines = [f"{escape(name, version)}:{escape(value, version)}\n" for name, value in headers]
    # A detail may quote what a client sent, with half a surrogate in it.
    body = (detail or code.text).encode(errors="replace")
    asked = b"receipt-id:%b\n" % receipt if receipt is not None else b""
    return b"ERROR\n%b%bcontent-length:%d\n\n%b\0" % ("".join(lines).encode(), asked, len(body), body)


def _short(code: Code, detail: str) -> str:
    """One line for `message`: the text of the code, and what is wrong and what to do about it."""
    line = " ".join(detail.split())
    if not line or line == code.text:
        return code.text
    return f"{code.text}: {line if len(line) <= SHORT else line[: SHORT - 1] + '…'}"


def rewrite_lines(message: bytes, version: Version) -> bytes:
    """Relayed header lines (STOMP 1.2 escapes), alone or with empty line and body behind, for an older subscriber.

    1.1 gets a raw CR for `\\r`; 1.0 gets everything unescaped, with a space for what it cannot show."""
    if version is Version.V12:
        return message
    # Each subscriber gets the lines in the escapes of its own version (C09); the broker keeps them in those of 1.2,
    # the richest.
    end = message.find(b"\n\n")
    lines, rest = (message, b"") if end < 0 else (message[:end], message[end:])
    if b"\\" not in lines:
        return message
    if version is Version.V11:
        # Cut at escaped backslashes first: in `\\r` written as three bytes the r is an r.
        # Example: the value `\\r` of 1.2 is a backslash and an r, and stays; `\r` becomes the CR that 1.1 has no
        # escape for.
        return b"\\\\".join([part.replace(b"\\r", b"\r") for part in lines.split(b"\\\\")]) + rest
    return b"\n".join([_plain_line(line) if b"\\" in line else line for line in lines.split(b"\n")]) + rest


def without_length(message: bytes) -> bytes:
    """Relayed header lines, the empty line and what comes behind it, without the line content-length. It is the last
    one where there is one; a colon in a value is escaped, so the name can stand nowhere else."""
    end = message.find(b"\n\n")
    at = message.rfind(b"content-length:", 0, max(end, 0))
    return message if at < 0 else message[:at] + message[end + 1 :]


def _plain_line(line: bytes) -> bytes:
    """A header line as 1.0 shows it. A colon in a name would forge another name: it becomes a space."""
    # The lines are as a sender wrote them: `na\cme:x` would be read by a 1.0 client as `na` = `me:x`, a header that
    # nobody sent.
    name, colon, value = line.decode().partition(":")
    name = unescape(name, Version.V12).translate(_SPACES)
    return (name + colon + escape(unescape(value, Version.V12), Version.V10)).encode()
