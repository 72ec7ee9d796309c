"""XPATH 'expression' over bodies that are XML, with lxml where it is installed.

Rule: a body is foreign: no DTD, no entities, no network, no files; and what it may cost is known before anything is
evaluated, since lxml cannot be stopped (xpath_shape.py says which expressions that holds for). Must not know messages.

An expression is compiled as the test of a stylesheet's template for the document node: that gives XPath's own rules
of what is true, and makes `root/a` relative to the document, as in Artemis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.core.errors import Code, RefusedError

from .values import MAX_COST, TooCostlyError
from .xpath_shape import shape_of

MAX_BODY: Final = 128 * 1024
"""Bytes: reading it takes a millisecond."""
MAX_NODES: Final = 2048
"""Elements and attributes of a body. Why: libxml2 sorts sets of nodes by walking; that is slow in the thousands."""

_XSL: Final = "http://www.w3.org/1999/XSL/Transform"
_SHEET: Final = (
    f'<x:stylesheet version="1.0" xmlns:x="{_XSL}"><x:output method="text"/>'
    '<x:template match="/"><x:if test="true()">1</x:if></x:template></x:stylesheet>'
)


def matcher(expression: str) -> Callable[[bytes], bool]:
    """Is the expression true of a body; one that is not XML, or has a DOCTYPE, is not. What it gives raises
    TooCostlyError.

    Raises RefusedError(BAD_SELECTOR)."""
    shown = expression[:100]
    shape = shape_of(expression)
    try:
        from lxml import etree  # 4 MB: only those who need it
    except ImportError:  # the extra `xpath` is not installed
        raise RefusedError(
            Code.BAD_SELECTOR,
            f"XPATH '{shown}': this broker has no lxml; install stampede-broker[xpath], or use headers",
        ) from None
    test = _compiled(etree, expression, shown)
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)

    def matches(body: bytes) -> bool:
        if b"<!DOCTYPE" in body:
            return False
        if len(body) > MAX_BODY or body.count(b"<") > MAX_NODES:
            raise TooCostlyError(f"a body of {len(body)} bytes or its tags (XPATH reads {MAX_BODY}, {MAX_NODES} nodes)")
        try:
            root = etree.fromstring(body, parser)
            if root.getroottree().docinfo.doctype:  # in an encoding of which the first look knows nothing
                return False
            nodes, characters = _size(root, len(body))
            if nodes > MAX_NODES:
                raise TooCostlyError(f"a body of more than {MAX_NODES} elements and attributes")
            if 20 * nodes * shape.tokens + characters * (shape.tokens + shape.texts) > MAX_COST:
                raise TooCostlyError(f"a body of {len(body)} bytes with {nodes} elements and attributes")
            return str(test(root)) == "1"
        except (etree.LxmlError, ValueError):
            return False

    return matches


def _size(root: Any, nbytes: int) -> tuple[int, int]:
    """(nodes, characters of the texts of all nodes together: that of an element holds those of all elements in it)

    Values of attributes count as the whole body of `nbytes`, which is longer: lxml looks each of them up by walking
    (75 ms for 5,000 of one element)."""
    depth, nodes, characters = {root: 1}, 0, 0
    attributes = 0
    for node in root.iter():
        level = depth.get(node) or depth[node.getparent()] + 1
        depth[node] = level
        nodes += 1
        characters += level * len(node.text or "") + (level - 1) * len(node.tail or "")
        if isinstance(node.tag, str):
            attributes += len(node.attrib)
        if nodes + attributes > MAX_NODES:
            break
    return nodes + attributes, characters + (nbytes if attributes else 0)


def _compiled(etree: Any, expression: str, shown: str) -> Any:
    sheet = etree.fromstring(_SHEET)
    sheet.find(f".//{{{_XSL}}}if").set("test", expression)
    try:
        return etree.XSLT(sheet, access_control=etree.XSLTAccessControl.DENY_ALL)
    except (etree.LxmlError, ValueError) as error:
        raise RefusedError(Code.BAD_SELECTOR, f"XPATH '{shown}' is no XPath expression: {error}") from None
