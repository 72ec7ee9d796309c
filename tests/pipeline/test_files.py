"""Files that appear whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_pipeline.store.files import move, remove, write_pieces


def test_a_file_is_whole_or_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "deep/a.json"
    write_pieces(str(path), [b"one", b"", b"x" * (3 << 20)])
    assert path.read_bytes() == b"one" + b"x" * (3 << 20)

    def broken() -> Iterator[bytes]:
        yield b"two"
        raise RuntimeError("the reader went away")

    with pytest.raises(RuntimeError):
        write_pieces(str(path), broken())
    assert path.read_bytes()[:3] == b"one" and [each.name for each in path.parent.iterdir()] == ["a.json"]
    move(str(path), str(tmp_path / "other/b.json"))
    remove(str(path))
    remove(str(tmp_path / "other/b.json"))
    assert not list((tmp_path / "other").iterdir())
