"""Which broker's file it is, told by what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.artemis.import_text import as_toml
from broker.config.foreign.foreign_files import read
from broker.core.errors import ConfigError

FOLDER = Path(__file__).parent / "foreign_files"


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.stem)
def test_what_comes_out_loads_and_holds_no_passcode(file: Path):
    text = as_toml(read(file.read_bytes()), file.name)
    assert "to be mended" not in text
    assert "s3cr3t" not in text


@pytest.mark.parametrize("data", [b"<web-app/>", b"<beans><bean/></beans>", b'{"a": 1}', b"{", b""])
def test_what_is_no_brokers_file_is_refused_by_name(data: bytes):
    with pytest.raises(ConfigError):
        read(data)


def test_artemis_file_is_still_read():
    assert read(b"<configuration><core xmlns='urn:activemq:core'/></configuration>").values
