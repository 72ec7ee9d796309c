"""A naive STOMP reader for the differential tests: one frame after the other, line by line, no state, no speed.

It reads what a logged-in client of a server sends, within default limits and without large bodies, and gives
what cutting.flatten gives for the same octets. It shares no code with broker.wire.
"""

from __future__ import annotations

from broker.core.message import ESCAPED, GROUPED, TEXT
from broker.wire.heads import SIGNIFICANT

NEEDS = {
    "1.0": {"SUBSCRIBE": ["destination"], "UNSUBSCRIBE": [], "ACK": ["message-id"]},
    "1.1": {"SUBSCRIBE": ["destination", "id"], "UNSUBSCRIBE": ["id"], "ACK": ["message-id", "subscription"]},
    "1.2": {"SUBSCRIBE": ["destination", "id"], "UNSUBSCRIBE": ["id"], "ACK": ["id"]},
}
for version, table in NEEDS.items():
    if version > "1.0":
        table["NACK"] = table["ACK"]
    table |= {name: ["transaction"] for name in ("BEGIN", "COMMIT", "ABORT")} | {"SEND": ["destination"]}
    table |= {"DISCONNECT": [], "CONNECT": [], "STOMP": []}
RESERVED = ["message-id", "subscription", "ack", "redelivered", "delivery-count", "receipt", "receipt-id"]
RESERVED += ["transaction", "content-length", "error-code"]


class Bad(Exception):
    pass


class Cut(Exception):
    """The frame is not complete."""


def decode(raw, version):
    text, out, at = raw.decode(), "", 0
    known = {"1.0": {}, "1.1": {"n": "\n", "c": ":", "\\": "\\"}}.get(version)
    known = {"n": "\n", "c": ":", "\\": "\\", "r": "\r"} if known is None else known
    while at < len(text):
        if text[at] == "\\" and version != "1.0":
            if text[at + 1 : at + 2] not in known or at + 1 == len(text):
                raise Bad("BAD_ESCAPE")
            out += known[text[at + 1]]
            at += 2
        else:
            out += text[at]
            at += 1
    return out


def encode(text):
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace(":", "\\c").encode()


def header_lines(data, version):
    """Lines of the header block, and what is behind it."""
    lines, rest = [], data
    while True:
        line, lf, rest = rest.partition(b"\n")
        if b"\0" in line:
            raise Bad("MALFORMED_FRAME")
        if not lf:
            raise Cut
        if version == "1.2":
            line = line.removesuffix(b"\r")
        if not line and lines:
            return lines, rest
        lines.append(line)


def headers_of(lines, version):
    headers, raws = {}, {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or (version == "1.2" and b"\r" in line):
            raise Bad("MALFORMED_FRAME")
        if version == "1.0":
            value = value.strip(b" \t")
        try:
            key, text = decode(name, version), decode(value, version)
        except UnicodeDecodeError:
            raise Bad("NOT_UTF8") from None
        if key not in headers:
            headers[key], raws[key] = text, value
    return headers, raws


def check(command, headers, raws, version):
    for name in NEEDS[version][command]:
        if name not in headers:
            raise Bad("MISSING_HEADER")
    if command == "SUBSCRIBE" and headers.get("ack", "auto") not in ("auto", "client", "client-individual"):
        raise Bad("BAD_ACK_MODE")
    if command == "UNSUBSCRIBE" and not headers.keys() & {"id", "destination"}:
        raise Bad("MISSING_HEADER")
    length = raws.get("content-length")
    if length is not None and (not length or length.strip(b"0123456789")):
        raise Bad("BAD_CONTENT_LENGTH")
    if version == "1.2" and command != "SEND" and int(length or 0):
        raise Bad("BODY_NOT_ALLOWED")
    return None if length is None else int(length)


def body_of(rest, length, command, version):
    if length is None:
        if version == "1.2" and command != "SEND" and rest[:1] not in (b"", b"\0"):
            raise Bad("BODY_NOT_ALLOWED")
        if b"\0" not in rest:
            raise Cut
        body, _, rest = rest.partition(b"\0")
        return body, rest
    if len(rest) <= length:
        raise Cut
    if rest[length : length + 1] != b"\0":
        raise Bad("MISSING_NUL")
    return rest[:length], rest[length + 1 :]


def frame(data, version, flat, receipts):
    lines, rest = header_lines(data, version)
    try:
        command = lines[0].decode()
    except UnicodeDecodeError:
        raise Bad("NOT_UTF8") from None
    if command in ("CONNECT", "STOMP"):
        raise Bad("ALREADY_CONNECTED")
    if command not in NEEDS[version]:
        raise Bad("UNKNOWN_COMMAND")
    headers, raws = headers_of(lines[1:], version)
    length = check(command, headers, raws, version)
    body, rest = body_of(rest, length, command, version)
    receipt = raws.get("receipt")
    plain = {"1.2": [{"id"}], "1.1": [{"message-id", "subscription"}]}.get(version)
    plain = plain or [{"message-id"}, {"message-id", "subscription"}]
    if command == "SEND":
        relayed = b"".join(encode(n) + b":" + encode(v) + b"\n" for n, v in headers.items() if n not in RESERVED)
        flags = (ESCAPED if b"\\" in relayed else 0) | (TEXT if length is None else 0)
        flags |= GROUPED if "JMSXGroupID" in headers else 0
        seen = {name: value for name, value in headers.items() if name in SIGNIFICANT}
        flat.append(("SEND", relayed + b"content-length:%d\n\n%b\0" % (len(body), body), flags, seen))
        receipts += [] if receipt is None else [receipt]
    elif command == "ACK" and not body and headers.keys() - {"receipt"} in plain:
        flat.append(("ACK", raws.get("id", raws.get("message-id")), raws.get("subscription")))
        receipts += [] if receipt is None else [receipt]
    else:
        flat.append((command, headers, body, receipt))
    return rest, command == "DISCONNECT"


def reference(data, version):
    """What cutting.flatten gives, with "VIOLATION" tuples cut down to the code."""
    flat, receipts, over = [], [], False
    while True:
        while data.startswith((b"\n", b"\r\n")):
            data = data.removeprefix(b"\r").removeprefix(b"\n")
        if not data or data == b"\r":
            break
        try:
            if over:
                raise Bad("AFTER_DISCONNECT")
            data, over = frame(data, version.value, flat, receipts)
        except Cut:
            break
        except Bad as bad:
            flat.append(("VIOLATION", str(bad)))
            break
    return [*flat, ("RECEIPTS", receipts)]
