"""An XML file as a tree that knows its lines: elements, attributes and text, and nothing that grows by itself."""

from __future__ import annotations

import pytest

from broker.config.artemis import xml_tree
from broker.config.artemis.xml_tree import MAX_DEPTH, parse
from broker.core.errors import ConfigError

FILE = b"""<a xmlns="urn:x" xmlns:y="urn:y" y:k="v">
  <b> one <!-- not text --> two </b>
  <y:b>second</y:b><c/>
</a>"""


def test_names_have_no_name_space_and_lines_are_those_of_the_file():
    root = parse(FILE)
    assert (root.name, root.attributes, root.line) == ("a", {"k": "v"}, 1)
    assert [(child.name, child.text, child.line) for child in root] == [
        ("b", "one  two", 2), ("b", "second", 3), ("c", "", 3),
    ]  # fmt: skip
    assert root.said("b") == "one  two" and root.said("none") == "" and root.child("none") is None


def test_a_tree_can_be_told_otherwise():
    root = parse(FILE)
    assert [child.name for child in root.without("b")] == ["c"] and len(root.children) == 3
    assert root.without("b").attributes == root.attributes
    root.drop({"c"})
    assert [child.name for child in root] == ["b", "b"]
    (first, _) = root
    root.reword(str.upper)
    assert root.attributes == {"k": "V"} and first.text == "one  two"
    root.become("t")
    assert (root.text, root.children) == ("t", [])


def test_depth_has_a_limit_and_is_refused_just_above_it():
    def nested(depth: int) -> bytes:
        return b"<a>" * depth + b"</a>" * depth

    parse(nested(MAX_DEPTH))
    with pytest.raises(ConfigError, match=r"^Line 1: elements are nested too deep"):
        parse(nested(MAX_DEPTH + 1))


def test_size_has_a_limit(monkeypatch):
    monkeypatch.setattr(xml_tree, "MAX_BYTES", 10)
    parse(b"<abcdefg/>")
    with pytest.raises(ConfigError, match="11 bytes; at most 10"):
        parse(b"<abcdefgh/>")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "Line 1, column 1 .*no element found"),
        (b"<a>\n <b></a>", "Line 2, column 7 .*mismatched tag"),
        (b'<!DOCTYPE x [\n<!ENTITY a "ha">]><x>&a;</x>', "Line 2: entities are not read"),
        (b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>', "entities"),
        (b'<?xml version="1.0" encoding="no-such"?><x/>', "UTF-8"),
        (b"<x>\xff</x>", "Line 1"),
    ],
)
def test_what_is_no_plain_xml_is_refused_with_its_place(data, why):
    with pytest.raises(ConfigError, match=why):
        parse(data)
