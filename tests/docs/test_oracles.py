"""What `make oracles` holds against real brokers, without them: each difference has its script, and its reason is on
the page of the dialect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.oracles import __main__ as oracles
from tests.oracles import peers, script, selectors, sequences
from tests.oracles.differences import DIFFERENCES, RULES, differing

ROOT = Path(__file__).resolve().parents[2]
SECTION = "## Played against the broker itself"
PAGES = {"artemis": "compatibility.md"}


def scripts(broker: str) -> list[script.Script]:
    return script.read(ROOT / "tests" / "oracles" / f"{broker}.script")


def rows(broker: str) -> list[tuple[str, str]]:
    section = (
        (ROOT / "docs" / PAGES.get(broker, f"compatibility-{broker}.md"))
        .read_text()
        .partition(SECTION)[2]
        .partition("\n## ")[0]
    )
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [(name.strip(), why.strip()) for name, why in (line.strip("|").split("|") for line in lines)]


@pytest.mark.parametrize("broker", list(DIFFERENCES))
def test_the_page_has_every_difference(broker):
    known = [("every script", rule.reason) for rule in RULES[broker]]
    known += [(name, each.reason) for name, each in DIFFERENCES[broker].items()]
    assert rows(broker) == known


@pytest.mark.parametrize("broker", list(DIFFERENCES))
def test_a_difference_is_one_of_a_script(broker):
    names = [each.name for each in scripts(broker)]
    assert len(names) == len(set(names))
    assert [name for name in DIFFERENCES[broker] if name not in names] == []
    assert all(each.lines and each.reason for each in DIFFERENCES[broker].values())


def test_rules_hide_what_they_say_only():
    theirs = ["a ERROR message:not_found", "a MESSAGE receipt:r x:y | z"]
    ours = ["a ERROR message:not_found receipt-id:r", "a closed", "a MESSAGE x:y | z"]
    assert differing("rabbitmq", theirs, ours) == ()
    assert differing("rabbitmq", theirs, [*ours, "a closed"]) == ("+ a closed",)
    assert differing("rabbitmq", theirs[:1], ["a ERROR message:gone"]) == (
        "- a ERROR message:not_found",
        "+ a ERROR message:gone",
    )


def test_the_page_says_where_selectors_choose_otherwise():
    for broker, reasons in selectors.REASONS.items():
        text = " ".join((ROOT / "docs" / PAGES.get(broker, f"compatibility-{broker}.md")).read_text().split())
        assert [reason for reason in reasons if reason not in text] == []


def test_a_selector_is_excused_for_what_is_said_and_for_nothing_else():
    full, lacks_t, fraction = 0, 7, 3
    assert selectors.explained("artemis", "t = s", [lacks_t], [])
    assert not selectors.explained("artemis", "s = 'red'", [lacks_t], [])
    assert not selectors.explained("artemis", "t = s", [full, lacks_t], [])
    assert not selectors.explained("artemis", "t LIKE 'r%'", [lacks_t], [])
    assert not selectors.explained("artemis", "t = s", [-1], [])
    assert selectors.explained("activemq", "n > 1", [], [fraction])
    assert not selectors.explained("artemis", "n > 1", [], [fraction])


def test_what_is_random_is_drawn_again_from_its_seed():
    assert selectors.drawn(3, 50, True) == selectors.drawn(3, 50, True) != selectors.drawn(4, 50, True)
    scripts = sequences.drawn(3, 20)
    assert scripts == sequences.drawn(3, 20) and len({each.name for each in scripts}) == 20
    assert all(each.steps[-1].startswith("b < ") for each in scripts)


def test_one_that_is_not_installed_is_skipped_and_one_that_does_not_come_up_is_a_failure(monkeypatch, capsys):
    @contextmanager
    def absent(folder: Path) -> Iterator[int]:
        raise peers.Absent("no such broker here")
        yield 0

    @contextmanager
    def broken(folder: Path) -> Iterator[int]:
        with peers._running([sys.executable, "-c", "raise SystemExit('no disk')"], folder, 1, {}):
            yield 1

    monkeypatch.setattr(oracles, "PEERS", {"rabbitmq": absent})
    assert oracles.main([]) == 0
    monkeypatch.setattr(oracles, "PEERS", {"activemq": broken, "rabbitmq": absent})
    assert oracles.main([]) == 1
    said = capsys.readouterr().out
    assert "activemq: FAILED: " in said and "no disk" in said  # the end of its log
    assert said.count("rabbitmq: skipped: no such broker here") == 2


def test_a_name_that_no_script_has_is_refused(capsys):
    with pytest.raises(SystemExit):
        oracles.main(["--only", "no such script"])
    assert "no script's name has 'no such script'" in capsys.readouterr().err
