"""`stampede docs`: what is made from the source, and that nothing else of a page is touched."""

from __future__ import annotations

import enum

import click
import pytest
from click.testing import CliRunner

from broker.app.commands import docs as subject
from broker.app.commands.docs import BEGIN, END, docs, folders_of, imports_of_rooms, reduced, renewed
from broker.core.states import StateTable


class Light(enum.Enum):
    RED = enum.auto()
    """Nobody
    goes."""
    GREEN = enum.auto()
    """All go."""


LIGHTS = StateTable(
    "A light.", Light, begins={Light.RED: "switched on"}, moves={Light.RED: {Light.GREEN: "time"}, Light.GREEN: {}},
    ends={Light.GREEN: "switched off"},
)  # fmt: skip


@pytest.fixture
def rooms(monkeypatch, tmp_path):
    """Lets rooms be files of these texts."""

    def build(files: dict[str, str]):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(subject, "ROOMS", str(tmp_path))

    return build


def test_only_what_stands_between_the_markers_is_replaced():
    page = f"# Mine\n{BEGIN}\nold\n{END}\nmine, too\n"
    assert renewed(page, "new") == f"# Mine\n{BEGIN}\n\nnew\n{END}\nmine, too\n"
    assert renewed(renewed(page, "new"), "new") == renewed(page, "new")


@pytest.mark.parametrize("page", ["# Mine\n", f"{BEGIN}\nold\n", f"old\n{END}\n"])
def test_a_page_without_markers_is_left_alone(page):
    with pytest.raises(click.ClickException, match="lacks the lines"):
        renewed(page, "new")


def test_who_imports_whom_is_read_from_the_source(rooms):
    rooms(
        {
            "edge/a.py": "from broker.link.port import Port\nimport broker.core\nfrom broker.edge.b import B\n",
            "edge/deep/b.py": "if TYPE_CHECKING:\n    from broker.wire import x\n",
            "link/port.py": "from broker.nowhere import x\n# from broker.core import y\n",
            "wire/x.py": "from broken.core import y\n", "core/y.py": "", "__pycache__/z.txt": "", "alone.py": "",
        }
    )  # fmt: skip
    assert imports_of_rooms() == {"edge": {"link", "core", "wire"}, "link": set(), "wire": set(), "core": set()}
    assert list(imports_of_rooms()) == ["core", "edge", "link", "wire"]


def test_an_arrow_that_follows_from_others_is_not_drawn():
    graph = {"app": {"edge", "wire", "core"}, "edge": {"wire"}, "wire": {"core"}, "core": set()}
    assert reduced(graph) == {"app": {"edge"}, "edge": {"wire"}, "wire": {"core"}, "core": set()}


def test_folders_stand_in_the_order_in_which_they_import(rooms):
    rooms(
        {
            "room/low/__init__.py": "", "room/low/a.py": "from broker.room.low.b import c\n",
            "room/middle/__init__.py": "", "room/middle/a.py": "from broker.room.low.a import c\n",
            "room/above/__init__.py": "", "room/above/a.py": "from ..middle.a import c\n",
            "room/no_package/a.py": "", "room/file.py": "",
        }
    )  # fmt: skip
    assert folders_of("room") == ["above", "middle", "low"]


def test_folders_in_a_circle_are_told_all_the_same(rooms):
    rooms({f"room/{a}/__init__.py": f"from ..{b} import x\n" for a, b in (("a", "z"), ("z", "a"), ("m", "z"))})
    assert folders_of("room") == ["m", "z", "a"]


def test_a_table_of_states_becomes_a_diagram_and_what_holds_in_each(monkeypatch):
    monkeypatch.setattr(subject, "STATES", (LIGHTS,))
    text = subject.states_markdown()
    assert text.splitlines()[:11] == [
        "## Light", "", "A light.", "", "```mermaid", "stateDiagram-v2", "    [*] --> RED: switched on",
        "    RED --> GREEN: time", "    GREEN --> [*]: switched off", "```", "",
    ]  # fmt: skip
    assert text.endswith("| RED | Nobody goes. |\n| GREEN | All go. |\n")


def test_the_command_renews_its_pages_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr(subject, "PAGES", {"a.md": lambda: "new"})
    (tmp_path / "a.md").write_text(f"Ä\n{BEGIN}\nold\n{END}\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("b")
    done = CliRunner().invoke(docs, [str(tmp_path)])
    assert done.exit_code == 0 and done.output == f"{tmp_path / 'a.md'}\n"
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == f"Ä\n{BEGIN}\n\nnew\n{END}\n"
    assert (tmp_path / "b.md").read_text() == "b"
    (tmp_path / "a.md").write_text("no markers")
    assert CliRunner().invoke(docs, [str(tmp_path)]).exit_code == 1
    assert (tmp_path / "a.md").read_text() == "no markers", "it was lost"
