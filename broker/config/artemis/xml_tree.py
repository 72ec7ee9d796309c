"""An XML file as a tree that knows its lines.

Rule: nothing but elements, attributes and text is taken: a file that declares entities is refused, so that it can
neither grow without bound nor name other files. Must not know what the elements mean.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from xml.parsers import expat

from broker.core.errors import ConfigError

MAX_BYTES = 16 << 20
MAX_DEPTH = 64


class Element:
    """One element. `name` has no namespace; `text` is what stands directly in it, without blanks at its ends."""

    __slots__ = ("attributes", "children", "line", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str], line: int, text: str = "") -> None:
        self.name = name
        self.attributes = attributes
        self.line = line
        self.children: list[Element] = []
        self.text = text

    def __iter__(self) -> Iterator[Element]:
        return iter(self.children)

    def reword(self, change: Callable[[str], str]) -> None:
        """Text and attributes become what `change` makes of them; children stay as they are."""
        self.text = change(self.text)
        self.attributes = {name: change(value) for name, value in self.attributes.items()}

    def drop(self, names: Container[str]) -> None:
        """Its children of these names are gone."""
        self.children = [child for child in self.children if child.name not in names]

    def become(self, text: str) -> None:
        """It has no children any more, but a text that says the same."""
        self.children, self.text = [], text

    def without(self, name: str) -> Element:
        """The same, of whose children none has that name."""
        made = Element(self.name, self.attributes, self.line, self.text)
        made.children = [child for child in self.children if child.name != name]
        return made

    def child(self, name: str) -> Element | None:
        """The first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def said(self, name: str) -> str:
        """Text of the first child of that name; "" without one."""
        child = self.child(name)
        return "" if child is None else child.text


def parse(data: bytes) -> Element:
    """The root element. Raises ConfigError with line and column."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"The file has {len(data)} bytes; at most {MAX_BYTES} are read.")
    builder = _Builder()
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "syntax error")
        raise ConfigError(f"Line {error.lineno}, column {error.offset + 1} is not XML: {reason}.") from None
    except (UnicodeError, LookupError, ValueError):
        raise ConfigError("The file is not XML in an encoding that can be read; save it as UTF-8.") from None
    assert builder.root is not None, "expat refuses a file without an element"
    return builder.root


class _Builder:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self.parser = parser = expat.ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity
        parser.ExternalEntityRefHandler = self._entity

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise ConfigError(f"Line {self.parser.CurrentLineNumber}: elements are nested too deep.")
        plain = {key.rpartition("}")[2]: value for key, value in attributes.items()}
        element = Element(name.rpartition("}")[2], plain, self.parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        element = self._open.pop()
        element.text = element.text.strip()

    def _text(self, text: str) -> None:
        self._open[-1].text += text

    def _entity(self, *_: object) -> int:
        raise ConfigError(
            f"Line {self.parser.CurrentLineNumber}: entities are not read; write out what they stand for."
        )
