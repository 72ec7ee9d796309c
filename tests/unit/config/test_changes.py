"""Changes over a config file: they win setting by setting, what makes no entry is set aside, and nothing opens."""

from __future__ import annotations

import json

import pytest

from broker.config import changes
from broker.config.changes import (
    LIVE,
    Changes,
    LiveChange,
    decoded,
    differing,
    laid_over,
    restart_needed,
    shrunk,
    tables_of,
    told,
    with_known,
    with_tables,
)
from broker.config.load import load
from broker.config.settings import Settings
from broker.core.errors import ConfigError

ADDRESSES, QUEUES, PERMISSIONS = LIVE["addresses"], LIVE["queues"], LIVE["permissions"]


def of(**said: str) -> Settings:
    return load(None, {}, {name.replace("__", "."): value for name, value in said.items()})


def changed(table: str, entry: str, **values: object) -> Changes:
    return Changes().with_entry(table, entry, dict(values), "ada", 5)


def test_a_change_wins_over_the_file_setting_by_setting():
    file = of(engine__addresses__a__ring_size="3", engine__addresses__a__auto_create="no")
    settings, aside = laid_over(file, changed(ADDRESSES, "a", ring_size=9), "x")
    assert settings.engine.addresses == {"a": {"ring_size": 9, "auto_create": False}} and aside == {}
    assert file.engine.addresses["a"]["ring_size"] == 3, "what the file says is left as it is"
    assert settings.edge == file.edge


def test_what_makes_no_entry_any_more_is_set_aside_but_for_partitions():
    file = of(engine__addresses__a__redelivery_delay_ms="9")
    wrong = changed(ADDRESSES, "a", max_redelivery_delay_ms=3, partitions=4)
    settings, aside = laid_over(file, wrong, "x")
    assert settings.engine.addresses == {"a": {"redelivery_delay_ms": 9, "partitions": 4}}
    assert list(aside) == [(ADDRESSES, "a")] and "max_redelivery_delay_ms" in aside[ADDRESSES, "a"]
    settings, aside = laid_over(file, changed(QUEUES, "q", selector="n >"), "x")
    assert settings.engine.queues == {} and list(aside) == [(QUEUES, "q")]


def test_a_permission_that_cannot_be_is_no_reason_to_open_what_it_closed():
    with pytest.raises(ConfigError, match=r"others could do what it forbids: .*`cli permissions 'a b'`"):
        laid_over(of(), changed(PERMISSIONS, "a b", send="x,,y"), "cli")


def test_what_was_checked_before_is_not_checked_again(monkeypatch):
    change = changed(ADDRESSES, "a", ring_size=9)
    first, _ = laid_over(of(), change, "x")
    monkeypatch.setattr(changes, "checked", None)
    again, _ = laid_over(of(), change, "x", tables_of(first))
    assert again.engine.addresses["a"] is first.engine.addresses["a"]


def test_what_is_written_can_be_read_and_has_a_line_for_each_entry():
    some = (
        changed(ADDRESSES, "a", ring_size=9).with_entry(ADDRESSES, "b", {}, "bo", 6).with_entry(QUEUES, "q", {"x": 1})
    )
    for it in (Changes(), some):
        assert decoded(it.encoded(), "here") == it
        assert json.loads(it.encoded())["version"] == 1
    assert some.encoded().count(b"\n") == 2 + 3 + 1 - 1 + 1
    assert (some.count(), some.of(ADDRESSES, "a"), some.of(ADDRESSES, "c")) == (3, {"ring_size": 9}, {})
    assert some.tables[ADDRESSES]["a"] == LiveChange({"ring_size": 9}, "ada", 5)


def test_the_last_entry_taken_back_leaves_no_empty_table():
    assert changed(ADDRESSES, "a", ring_size=1).with_entry(ADDRESSES, "a", None) == Changes()
    assert Changes().with_entry(ADDRESSES, "never", None) == Changes()


def test_too_much_is_refused_before_it_is_kept(monkeypatch):
    monkeypatch.setattr(changes, "MOST_BYTES", 60)
    with pytest.raises(ConfigError, match="60 are the most"):
        changed(ADDRESSES, "a" * 60).encoded()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "cannot be read"),
        (b'{"version": 2, "tables": {}}', "is of version 2"),
        (b'{"version": 1, "tables": {"edge": {}}}', "has a table 'edge'"),
        (b'{"tables": {"bridges": {"a": {}}}}', "cannot be read"),
    ],
)
def test_what_another_release_wrote_is_refused_by_name(data, why):
    with pytest.raises(ConfigError, match=f"the file .*{why}"):
        decoded(data, "the file")


def test_entries_that_differ_are_named_as_people_call_their_tables():
    before = tables_of(of(engine__addresses__a__ring_size="3", engine__addresses__b__ring_size="3"))
    after = {**before, ADDRESSES: {"a": {"ring_size": 3}, "c": {}}}
    assert differing(before, after) == [("addresses", "b"), ("addresses", "c")]
    assert differing(before, before) == []


def test_partitions_may_only_grow():
    assert "4 partitions, 1 are fewer" in shrunk("a", {"partitions": 4}, {})
    assert shrunk("a", {"partitions": 4}, {"partitions": 4}) == shrunk("a", {}, {"partitions": 2}) == ""
    assert shrunk("a", {"partitions": "many"}, {}) == "", "another tool's work is not ours to judge"


def test_settings_that_wait_for_a_restart_are_those_that_differ_outside_of_live_tables():
    before = of()
    after = with_tables(of(edge__port="7"), {**tables_of(before), ADDRESSES: {"a": {}}})
    assert restart_needed(before, after) == [{"name": "edge.port", "in_use": 61613, "wanted": 7}]


def test_the_command_that_takes_a_change_back_survives_a_shell():
    assert told("stampede admin reset", QUEUES, "a'b").endswith("""`stampede admin reset queues 'a'"'"'b'`.""")


def test_entries_that_are_as_they_were_are_the_same_objects() -> None:
    own = {"edge.permissions": {"a": {"send": "x"}, "b": {"send": "y"}}, "bridges": {"c": {"url": "z"}}}
    tables = {"edge.permissions": {"a": {"send": "x"}, "b": {"send": "new"}}, "bridges": {"c": {"url": "z"}}}
    found = with_known(own, tables)  # type: ignore[arg-type]
    assert found == tables and found["bridges"] is own["bridges"]
    assert found["edge.permissions"]["a"] is own["edge.permissions"]["a"]
    assert found["edge.permissions"]["b"] is tables["edge.permissions"]["b"]
