"""docs/tour.md says which files a SEND goes through, in order: a real broker's calls go through them, in that order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.harness import calls

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tour.md").read_text()
SECTION = PAGE.partition("## 1. The path of a SEND")[2].partition("\n## 2.")[0]
PATH = re.findall(r"^([\w/]+\.py) ", SECTION.partition("```")[2].partition("```")[0], re.MULTILINE)
SENDS = 3


class FilesInOrder(calls.Calls):
    """Files of the broker in the order in which calls enter them, while `on`."""

    made: FilesInOrder

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []
        FilesInOrder.made = self

    def see(self, frame: FrameType, event: str, what: Any) -> None:
        if self.on and event == "call":
            self.files.append(frame.f_code.co_filename.rpartition("/broker/")[2])


def one_send(port: int) -> Iterator[None]:
    """Durable, with a receipt, to a queue that is consumed: whatever a SEND may have to go through."""
    consumer, producer = calls.Client(port), calls.Client(port)
    consumer.subscribe("/queue/tour")
    for n in range(SENDS):
        if n == SENDS - 1:
            yield
        producer.ask(b"SEND\ndestination:/queue/tour\npersistent:true\nreceipt:%d\n\nhello\0" % n, b"RECEIPT")
        consumer.expect(b"MESSAGE")
    yield
    for client in (consumer, producer):
        client.close()


def test_a_send_goes_the_way_of_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "Calls", FilesInOrder)
    calls.count(one_send, tmp_path)
    entered = iter(FilesInOrder.made.files)
    assert len(PATH) > 10
    missed = next((file for file in PATH if file not in entered), "")  # `in` goes on where the one before was found
    assert not missed, f"behind {PATH[: PATH.index(missed)]} no call has entered {missed}"


def test_the_files_of_both_paths_are_there() -> None:
    cluster = PAGE.partition("## 9. The path of a SEND through a cluster")[2].partition("\n## 10.")[0]
    named = PATH + re.findall(r"^([\w/]+\.py) ", cluster.partition("```")[2].partition("```")[0], re.MULTILINE)
    assert [file for file in named if not (ROOT / "broker" / file).is_file()] == []
