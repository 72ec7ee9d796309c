"""The rules of STOMP 1.0, 1.1 and 1.2 that the wire decides alone, one test per rule; the numbers are those of
the project's rule list. Every case is fed whole, octet by octet, at random cuts and with trailing octets."""

from __future__ import annotations

import pytest

from broker.core.errors import Code
from broker.wire.connection import Role
from broker.wire.events import Violation
from broker.wire.versions import SUPPORTED, negotiate
from broker.wire.writer import connected_frame, encode_frame, error_frame, receipts

from .cutting import ALL, V10, V11, V12, cut_everywhere, one, sent, stranger, violation

NEWER = [V11, V12]


def header(raw, version, name=b"h"):
    """What a SUBSCRIBE header written as `raw` means."""
    return one(b"SUBSCRIBE\nid:1\ndestination:d\n%b:%b\n\n\0" % (name, raw), sent(version))[1][name.decode()]


def relayed(lines, version):
    """The lines a MESSAGE relays of a SEND with these lines."""
    message = one(b"SEND\n%b\n\0" % lines, sent(version))[1]
    return message.removesuffix(b"content-length:0\n\n\0")


@pytest.mark.parametrize("version", ALL)
def test_C01_frames_and_line_ends_between_them(version):
    frames = cut_everywhere(b"\n\nBEGIN\ntransaction:1\n\n\0\n\n\nCOMMIT\ntransaction:1\n\n\0\n", sent(version))
    assert [f[0] for f in frames] == ["BEGIN", "COMMIT", "RECEIPTS"]


def test_C01_eols_are_counted():
    connection = sent(V12)()
    connection.receive(b"\n\n\nBEGIN\ntransaction:1\n\n\0\n\r\n" + b"SEND\ndestination:a\ncontent-length:0\n\n\0\n" * 5)
    assert connection.eols == 10


def test_C02_v10_cr_belongs_to_the_value():
    assert header(b"x\r", V10) == "x\r"


def test_C02_v11_cr_belongs_to_the_value():
    assert header(b"x\r", V11) == "x\r"
    assert relayed(b"destination:d\nh:x\r\n", V11) == b"destination:d\nh:x\\r\n"


@pytest.mark.parametrize("version", [V10, V11])
def test_C02_a_line_of_cr_is_not_the_empty_line(version):
    assert violation(b"BEGIN\ntransaction:1\n\r\n\n\0", sent(version)) == "MALFORMED_FRAME"


def test_C03_v12_cr_lf_everywhere():
    frame = one(b"SUBSCRIBE\r\nid:1\r\ndestination:d\r\nreceipt:7\r\n\r\n\0\r\n", sent(V12))
    assert frame == ("SUBSCRIBE", {"id": "1", "destination": "d", "receipt": "7"}, b"", b"7")


@pytest.mark.parametrize("block", [b"BEGIN\r\ntransaction:1\n\r\n", b"BEGIN\ntransaction:1\r\n\n"])
def test_C03_v12_mixed_line_ends(block):
    assert one(block + b"\0", sent(V12))[1] == {"transaction": "1"}


def test_C03_v12_cr_inside_a_value_is_refused():
    assert violation(b"BEGIN\ntransaction:a\rb\n\n\0", sent(V12)) == "MALFORMED_FRAME"


@pytest.mark.parametrize("version", ALL)
def test_C04_case_matters(version):
    assert violation(b"begin\ntransaction:1\n\n\0", sent(version)) == "UNKNOWN_COMMAND"
    assert violation(b"BEGIN\nTransaction:1\n\n\0", sent(version)) == "MISSING_HEADER"


@pytest.mark.parametrize("version", ALL)
def test_C05_utf8(version):
    assert header("größe".encode(), version) == "größe"
    assert header(b"x", version, "größe".encode()) == "x"
    assert violation(b"BEGIN\ntransaction:\xff\n\n\0", sent(version)) == "NOT_UTF8"
    assert violation(b"\xff\ntransaction:1\n\n\0", sent(version)) == "NOT_UTF8"


@pytest.mark.parametrize("version", NEWER)
def test_C06_escapes_are_decoded(version):
    assert header(rb"a\nb\cc\\d", version) == "a\nb:c\\d"
    assert header(rb"\\n", version) == "\\n"
    assert header(b"v", version, rb"a") == "v"


def test_C07_v12_cr_escape():
    assert header(rb"a\rb", V12) == "a\rb"


@pytest.mark.parametrize(
    ("version", "raw"), [(V11, rb"\r"), (V11, rb"\t"), (V12, rb"\t"), (V12, b"x\\"), (V12, rb"\C")]
)
def test_C08_undefined_escapes_are_fatal(version, raw):
    assert violation(b"BEGIN\ntransaction:%b\n\n\0" % raw, sent(version)) == "BAD_ESCAPE"
    assert violation(b"SEND\ndestination:d\n%b:1\n\n\0" % raw, sent(version)) == "BAD_ESCAPE"
    assert violation(b"SEND\ndestination:d\nreceipt:%b\n\n\0" % raw, sent(version)) == "BAD_ESCAPE"


def test_C09_encoding_per_version():
    pairs = [("a:b", "c\\d\ne\rf")]
    assert encode_frame("X", pairs, b"", V12) == b"X\na\\cb:c\\\\d\\ne\\rf\n\n\0"
    assert encode_frame("X", pairs, b"", V11) == b"X\na\\cb:c\\\\d\\ne\rf\n\n\0"
    assert encode_frame("X", pairs, b"", V10) == b"X\na:b:c\\d e\rf\n\n\0"


@pytest.mark.parametrize("version", NEWER)
def test_C09_bare_colons_are_escaped_when_relayed(version):
    assert header(b"a:b", version) == "a:b"
    assert relayed(b"destination:a:b\n", version) == b"destination:a\\cb\n"


def test_C10_connect_is_not_unescaped():
    frame = one(b"CONNECT\naccept-version:1.2\npasscode:a\\nb\\q:c\n\n\0", stranger)
    assert frame[1]["passcode"] == "a\\nb\\q:c"


def test_C10_connected_is_neither_escaped_nor_unescaped():
    frame = connected_frame([("version", "1.2"), ("session", "a:b\\c")])
    assert frame == b"CONNECTED\nversion:1.2\nsession:a:b\\c\n\n\0"
    assert one(frame, lambda: stranger(Role.CLIENT))[1]["session"] == "a:b\\c"


def test_C11_v10_knows_no_escapes():
    assert header(b"a\\nb\\", V10) == "a\\nb\\"
    assert relayed(b"destination:d\nh:a\\nb\n", V10) == b"destination:d\nh:a\\\\nb\n"


def test_C11_v10_trims():
    assert header(b" \tx y ", V10) == "x y"
    assert relayed(b"destination: d\n", V10) == b"destination:d\n"
    assert one(b"CONNECT\nlogin: me\n\n\0", stranger)[1]["login"] == "me"


@pytest.mark.parametrize("version", NEWER)
def test_C12_nothing_is_trimmed(version):
    assert header(b"  x ", version) == "  x "
    assert relayed(b"destination: d \n", version) == b"destination: d \n"
    connect = b"CONNECT\naccept-version:%b\npasscode: x \n\n\0" % version.value.encode()
    assert one(connect, stranger)[1]["passcode"] == " x "


@pytest.mark.parametrize("command", [b"BEGIN\ntransaction:1\n", b"SUBSCRIBE\nid:1\ndestination:d\n", b"DISCONNECT\n"])
def test_C13_v12_only_send_has_a_body(command):
    assert violation(command + b"\nbody\0", sent(V12)) == "BODY_NOT_ALLOWED"
    assert violation(command + b"content-length:4\n\nbody\0", sent(V12)) == "BODY_NOT_ALLOWED"
    assert one(command + b"content-length:0\n\n\0", sent(V12))[2] == b""


def test_C13_v12_connect_has_none_either():
    assert violation(b"CONNECT\naccept-version:1.2\n\nx\0", stranger) == "BODY_NOT_ALLOWED"
    assert one(b"CONNECT\naccept-version:1.1\n\nx\0", stranger)[2] == b"x"


@pytest.mark.parametrize("version", [V10, V11])
def test_C13_older_versions_allow_bodies(version):
    assert one(b"BEGIN\ntransaction:1\n\nbody\0", sent(version))[2] == b"body"


@pytest.mark.parametrize("version", ALL)
def test_C14_content_length_counts_octets(version):
    assert one(b"SEND\ndestination:d\ncontent-length:5\n\na\0b\0\0\0", sent(version))[1].endswith(b"\n\na\0b\0\0\0")
    assert violation(b"SEND\ndestination:d\ncontent-length:2\n\nabc\0", sent(version)) == "MISSING_NUL"


@pytest.mark.parametrize("version", [V10, V11])
def test_C14_content_length_of_other_frames(version):
    assert one(b"BEGIN\ntransaction:1\ncontent-length:3\n\na\0b\0", sent(version))[2] == b"a\0b"


@pytest.mark.parametrize("bad", [b"-1", b"+1", b"1_0", b" 1", b"1 ", b"", b"0x1", b"1.0", "١".encode(), b"1e3"])
@pytest.mark.parametrize("version", NEWER)
def test_C14_content_length_is_digits_only(bad, version):
    assert violation(b"SEND\ndestination:d\ncontent-length:%b\n\nx\0" % bad, sent(version)) == "BAD_CONTENT_LENGTH"


def test_C14_first_content_length_counts():
    frame = one(b"SEND\ndestination:d\ncontent-length:1\ncontent-length:9\n\n\0\0", sent(V12))
    assert frame[1] == b"destination:d\ncontent-length:1\n\n\0\0"


@pytest.mark.parametrize("version", ALL)
def test_C15_every_record_has_a_content_length(version):
    assert one(b"SEND\ndestination:d\n\nab\0", sent(version))[1] == b"destination:d\ncontent-length:2\n\nab\0"
    assert one(b"SEND\ndestination:d\n\n\0", sent(version))[1] == b"destination:d\ncontent-length:0\n\n\0"
    assert encode_frame("SEND", [("destination", "d")], b"\0", version).endswith(b"content-length:1\n\n\0\0")


@pytest.mark.parametrize("version", ALL)
def test_C16_content_type_is_passed_on_and_not_invented(version):
    assert relayed(b"destination:d\ncontent-type:a/b\n", version) == b"destination:d\ncontent-type:a/b\n"
    assert b"content-type" not in relayed(b"destination:d\n", version)


@pytest.mark.parametrize("version", ALL)
def test_C17_first_of_repeated_headers(version):
    assert one(b"BEGIN\ntransaction:1\ntransaction:2\n\n\0", sent(version))[1] == {"transaction": "1"}
    assert relayed(b"destination:d\na:1\na:2\n", version) == b"destination:d\na:1\n"


def test_C22_stomp_is_connect():
    assert one(b"STOMP\naccept-version:1.2\nhost:h\n\n\0", stranger)[0] == "STOMP"


def test_C23_C24_highest_common_version():
    assert [negotiate(v) for v in (None, "1.0", "1.1,1.0", "1.0, 1.2 ,1.1")] == [V10, V10, V11, V12]
    assert negotiate("1.3,1.2") is V12
    assert negotiate("2.0") is None
    assert negotiate("") is None


def test_C25_mismatch_lists_our_versions():
    frame = error_frame(V10, Code.VERSION_MISMATCH, "x")
    assert b"\nversion:1.0,1.1,1.2\n" in frame
    given = error_frame(V10, Code.VERSION_MISMATCH, "x", None, [("version", "1.2")])
    assert given.count(b"version:") == 1
    assert [v.value for v in SUPPORTED] == ["1.0", "1.1", "1.2"]


@pytest.mark.parametrize(
    "bad", [b"1", b"a,b", b"-1,0", b"1,2,3", b"1, 2", b"", b"1.5,2", "١,٢".encode(), b"9" * 30 + b",1"]
)
def test_C29_heart_beat_syntax(bad):
    connect = b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:%b\n\n\0" % bad
    assert violation(connect, stranger) == "BAD_HEARTBEAT"


def test_C29_C30_good_heart_beats():
    assert one(b"CONNECT\naccept-version:1.2\nheart-beat:0,15000\n\n\0", stranger)[1]["heart-beat"] == "0,15000"
    assert "heart-beat" not in one(b"CONNECT\naccept-version:1.2\n\n\0", stranger)[1]


@pytest.mark.parametrize("version", ALL)
def test_C34_unknown_frames(version):
    assert violation(b"HELLO\n\n\0", sent(version)) == "UNKNOWN_COMMAND"
    assert violation(b"MESSAGE\ndestination:d\n\n\0", sent(version)) == "UNKNOWN_COMMAND"


def test_C34_v10_has_no_nack():
    assert violation(b"NACK\nmessage-id:1\n\n\0", sent(V10)) == "UNKNOWN_COMMAND"


REQUIRED = [
    ("C35", ALL, b"SEND\n", b"destination:d\n"),
    ("C39", ALL, b"SUBSCRIBE\nid:1\n", b"destination:d\n"),
    ("C39", NEWER, b"SUBSCRIBE\ndestination:d\n", b"id:1\n"),
    ("C46", NEWER, b"UNSUBSCRIBE\ndestination:d\n", b"id:1\n"),
    ("C47", [V10], b"UNSUBSCRIBE\n", b"id:1\n"),
    ("C47", [V10], b"UNSUBSCRIBE\n", b"destination:d\n"),
    ("C48", [V10], b"ACK\n", b"message-id:1\n"),
    ("C49", [V11], b"ACK\nmessage-id:1\n", b"subscription:s\n"),
    ("C49", [V11], b"ACK\nsubscription:s\n", b"message-id:1\n"),
    ("C49", [V11], b"NACK\nmessage-id:1\n", b"subscription:s\n"),
    ("C50", [V12], b"ACK\nmessage-id:1\nsubscription:s\n", b"id:1\n"),
    ("C50", [V12], b"NACK\nmessage-id:1\nsubscription:s\n", b"id:1\n"),
    ("C53", ALL, b"BEGIN\n", b"transaction:t\n"),
    ("C53", ALL, b"COMMIT\n", b"transaction:t\n"),
    ("C53", ALL, b"ABORT\n", b"transaction:t\n"),
]


@pytest.mark.parametrize(
    ("version", "block", "line"),
    [pytest.param(v, b, n, id=f"{r}-{v}-{b.split()[0].decode()}") for r, vs, b, n in REQUIRED for v in vs],
)
def test_required_headers(version, block, line):
    assert violation(block + b"\n\0", sent(version)) == "MISSING_HEADER"
    assert one(block + line + b"\n\0", sent(version))[0] == block.split()[0].decode()
    # The complaint names the header and carries the receipt (C63).
    [event] = sent(version)().receive(block + b"receipt:r1\n\n\0")
    assert event.receipt == b"r1"
    assert version.value in event.detail or "or a" in event.detail


def test_C40_v10_subscribe_without_id():
    assert one(b"SUBSCRIBE\ndestination:d\n\n\0", sent(V10))[1] == {"destination": "d"}


@pytest.mark.parametrize("version", ALL)
def test_C41_C42_ack_modes(version):
    block = b"SUBSCRIBE\nid:1\ndestination:d\n"
    assert "ack" not in one(block + b"\n\0", sent(version))[1]
    for mode in (b"auto", b"client", b"client-individual"):
        assert one(block + b"ack:%b\n\n\0" % mode, sent(version))[1]["ack"] == mode.decode()
    for mode in (b"Client", b"dups_ok", b""):
        assert violation(block + b"ack:%b\n\n\0" % mode, sent(version)) == "BAD_ACK_MODE"


def test_C51_ack_in_a_transaction_is_a_frame_of_its_own():
    frames = cut_everywhere(b"ACK\nid:1\n\n\0ACK\nid:2\ntransaction:t\n\n\0ACK\nid:3\nreceipt:r\n\n\0", sent(V12))
    assert frames[0] == ("ACK", b"1", None)
    assert frames[1] == ("ACK", {"id": "2", "transaction": "t"}, b"", None)
    assert frames[2:] == [("ACK", b"3", None), ("RECEIPTS", [b"r"])]


def test_C59_destination_stays_as_written():
    [event] = sent(V12)().receive("SEND\ndestination:/queue/ä\\cb\n\n\0".encode())
    assert event.head.headers["destination"] == "/queue/ä:b"
    assert event.head.lines + event.records[0] == "destination:/queue/ä\\cb\ncontent-length:0\n\n\0".encode()


def test_C36_all_headers_pass_but_reserved_ones():
    lines = b"destination:d\na:1\nmessage-id:1\nsubscription:1\nack:1\nredelivered:x\ndelivery-count:9\nreceipt:r\n"
    lines += b"receipt-id:1\ntransaction:t\nerror-code:1\npriority:4\n"
    assert relayed(lines, V12) == b"destination:d\na:1\npriority:4\n"


def test_C36_reserved_names_cannot_come_in_by_escapes_or_line_ends():
    assert relayed(b"destination:d\r\nack:1\r\nx:y\r\n", V12) == b"destination:d\nx:y\n"


def test_C60_receipts():
    assert receipts([b"a", b"b\\c"]) == b"RECEIPT\nreceipt-id:a\n\n\0RECEIPT\nreceipt-id:b\\c\n\n\0"
    assert receipts([]) == b""


def test_C63_C64_error_frame():
    frame = error_frame(V12, Code.BAD_DESTINATION, "use: /queue/x", b"r\\c1")
    assert frame == (
        b"ERROR\nmessage:Invalid destination\\c use\\c /queue/x\nerror-code:1303\ncontent-type:text/plain\n"
        b"receipt-id:r\\c1\ncontent-length:13\n\nuse: /queue/x\0"
    )


@pytest.mark.parametrize("version", ALL)
def test_the_message_header_says_in_one_line_what_is_wrong_and_what_to_do(version):
    frame = error_frame(version, Code.BAD_DESTINATION, "a line\n\tand  another")
    colon = b":" if version is V10 else b"\\c"
    assert frame.startswith(b"ERROR\nmessage:Invalid destination%b a line and another\n" % colon)
    assert error_frame(version, Code.INTERNAL, "").startswith(b"ERROR\nmessage:Internal error\n")
    assert len(error_frame(version, Code.BAD_DESTINATION, "x" * 10_000).partition(b"\n\n")[0]) < 600


@pytest.mark.parametrize("version", ALL)
def test_C65_any_frame_may_ask_for_a_receipt(version):
    assert one(b"BEGIN\ntransaction:1\nreceipt:r\n\n\0", sent(version))[3] == b"r"
    frames = cut_everywhere(b"SEND\ndestination:d\nreceipt:r\n\n\0" * 3, sent(version))
    assert frames[-1] == ("RECEIPTS", [b"r"] * 3)


def test_C65_receipts_stay_raw():
    assert cut_everywhere(b"SEND\ndestination:d\nreceipt:a\\cb\n\n\0", sent(V12))[-1] == ("RECEIPTS", [b"a\\cb"])


# ── order of frames ────────────────────────────────────────────────────────────────────────────────────


def test_connect_with_line_ends_of_either_kind():
    expected = {"accept-version": "1.2", "host": "h"}
    assert one(b"CONNECT\r\naccept-version:1.2\r\nhost:h\r\n\r\n\0", stranger)[1] == expected
    assert one(b"\r\n\nCONNECT\naccept-version:1.2\nhost:h\n\n\0", stranger)[1] == expected


@pytest.mark.parametrize(
    "frame",
    [
        b"BEGIN\nno colon\n\n\0",
        b"BEGIN\n:v\n\n\0",
        b"BEGIN\ntransaction:1\0",
        b"\0\n\n",
        b"SEND\ndestination:d\n\0x\n\n",
    ],
)
@pytest.mark.parametrize("version", ALL)
def test_malformed(frame, version):
    assert violation(frame, sent(version)) == "MALFORMED_FRAME"


@pytest.mark.parametrize(
    "line",
    [
        b"passcode hunter2",
        b"passcode=hunter2",
        b":hunter2",
        b"pascode:hunter2\xff",
        b"hunter2\xff",
        b"h" * 9000 + b"hunter2",
    ],
)
def test_what_may_be_a_passcode_is_not_in_the_complaint(line):
    events = stranger().receive(b"CONNECT\naccept-version:1.2\nlogin:ada\n" + line + b"\n\n\0")
    assert isinstance(events[-1], Violation)
    assert "hunter2" not in events[-1].detail and "hhh" not in events[-1].detail


# ── the client's side ──────────────────────────────────────────────────────────────────────────────────
