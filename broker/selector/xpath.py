"""XPATH 'expression' over bodies that are XML, with lxml where it is installed.

Rule: a body is foreign: no DTD, no entities, no network, no files. Must not know messages.

An expression is compiled as the test of a stylesheet's template for the document node: that gives XPath's own rules
of what is true, and makes `root/a` relative to the document, as in Artemis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.core.errors import Code, RefusedError

MAX_EXPRESSION: Final = 4096
"""Characters."""

_XSL: Final = "http://www.w3.org/1999/XSL/Transform"
_SHEET: Final = (
    f'<x:stylesheet version="1.0" xmlns:x="{_XSL}"><x:output method="text"/>'
    '<x:template match="/"><x:if test="true()">1</x:if></x:template></x:stylesheet>'
)


def matcher(expression: str) -> Callable[[bytes], bool]:
    """Is the expression true of a body; one that is not XML, or has a DOCTYPE, is not.

    Raises RefusedError(BAD_SELECTOR)."""
    shown = expression[:100]
    try:
        from lxml import etree  # 4 MB: only those who need it
    except ImportError:  # the extra `xpath` is not installed
        raise RefusedError(
            Code.BAD_SELECTOR,
            f"XPATH '{shown}': this broker has no lxml; install stampede-broker[xpath], or use headers",
        ) from None
    if len(expression) > MAX_EXPRESSION:
        raise RefusedError(Code.BAD_SELECTOR, f"XPATH '{shown}…' is longer than {MAX_EXPRESSION} characters")
    test = _compiled(etree, expression, shown)
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)

    def matches(body: bytes) -> bool:
        if b"<!DOCTYPE" in body:
            return False
        try:
            return str(test(etree.fromstring(body, parser))) == "1"
        except (etree.LxmlError, ValueError):
            return False

    return matches


def _compiled(etree: Any, expression: str, shown: str) -> Any:
    sheet = etree.fromstring(_SHEET)
    sheet.find(f".//{{{_XSL}}}if").set("test", expression)
    try:
        return etree.XSLT(sheet, access_control=etree.XSLTAccessControl.DENY_ALL)
    except (etree.LxmlError, ValueError) as error:
        raise RefusedError(Code.BAD_SELECTOR, f"XPATH '{shown}' is no XPath expression: {error}") from None
