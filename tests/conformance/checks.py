"""What every ERROR frame must look like, and the lists of versions a rule speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from broker.core.errors import Code
from tests.harness import Client, Frame
from tests.harness.stomp import unescape

every_version = pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"], ids=["v10", "v11", "v12"])
since_11 = pytest.mark.parametrize("version", ["1.1", "1.2"], ids=["v11", "v12"])

INTERNALS = re.compile(rb'Traceback|File "|\.py\b|/home/|/usr/|/tmp/|site-packages|0x[0-9a-f]{6,}|Error\(|Exception')


def error(client: Client, code: Code, receipt: str | None = None) -> Frame:
    """Reads the ERROR frame that `code` calls for (C63, C64) and the end of the connection behind it."""
    frame = client.expect("ERROR")
    assert frame.get("error-code") == str(code.number), f"expected {code.name}, got {frame}"
    shown = frame["message"] if client.version == "1.0" else unescape(frame["message"])
    assert shown.startswith(code.text), shown
    if shown != code.text:
        # The particulars in one line: clients show their users this header and no more.
        told = shown.removeprefix(f"{code.text}: ").removesuffix("…")
        assert " ".join(frame.body.decode().split()).startswith(told), (shown, frame.body)
    assert frame.get("receipt-id") == receipt
    assert frame["content-type"] == "text/plain"
    assert int(frame["content-length"]) == len(frame.body)
    for part in (frame.body, repr(frame.pairs).encode()):
        assert not INTERNALS.search(part), part
    client.ended()
    return frame


def bodies(frames: Iterable[Frame]) -> list[bytes]:
    return [frame.body for frame in frames]
