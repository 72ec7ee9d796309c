"""Options of consume mode, and who may be what: refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.options import consume_options, consumes, read_options, stomp_url

GOOD = {"mode": "consume", "url": "stomp://ada:secret@h:61613", "destination": "/queue/a", "ahead": "/var/a"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": ""}, "url is missing"), ({"url": "h:61613"}, "url is none of"),
        ({"url": "stomp://:x"}, "url is none of"),
        ({"destination": ""}, "destination is missing"), ({"destination": "/topic/a"}, "/queue/address::queue"),
        ({"ahead": ""}, "ahead is missing"), ({"bodies": "ref"}, "inline, or a folder"),
        ({"maxRowsPerTrigger": "0"}, "from 1 on"), ({"maxRowsPerTrigger": "1000001"}, "at most 1000000"),
        ({"quiet": "a while"}, "number of seconds"), ({"view": "events"}, "option view is of reading the log"),
        ({"startingOffsets": "earliest"}, "option startingOffsets"), ({"broker": "h:1"}, "option broker"),
        ({"includeBody": "false"}, "option includeBody"), ({"archive": "lake"}, "option archive"),
        ({"caFile": "/nowhere/ca"}, "caFile: /nowhere/ca"), ({"queit": "1"}, "no option 'queit'"),
    ],
)  # fmt: skip
def test_what_consume_mode_does_not_take_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        consume_options(GOOD | given)


def test_a_place_is_named_without_its_passcode() -> None:
    options = consume_options(GOOD | {"maxRowsPerTrigger": "7", "quiet": "0.5", "text": "true"})
    assert options.place == "/queue/a of h:61613" and "secret" not in options.place
    assert (options.max_rows, options.quiet_s, options.text, options.bodies) == (7, 0.5, True, "inline")


def test_a_mode_is_log_or_consume_and_options_of_the_other_are_refused() -> None:
    assert not consumes({}) and not consumes({"Mode": "log"}) and consumes({"MODE": "consume"})
    with pytest.raises(PipelineError, match="neither log nor consume"):
        consumes({"mode": "eat"})
    for name in ("ahead", "selector", "quiet", "destination", "url"):
        with pytest.raises(PipelineError, match=f"option {name} is of mode=consume"):
            read_options({"broker": "h:1", name: "x"})


def test_credentials_of_the_environment_and_of_a_file(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STAMPEDE_PIPELINE_USER", "eve")
    monkeypatch.setenv("STAMPEDE_PIPELINE_PASSCODE", "a:b")
    assert stomp_url({"url": "stomp+ssl://h:61612"}) == "stomp+ssl://eve:a%3Ab@h:61612"
    (tmp_path / "p").write_text("from file\n")
    given = {"url": "stomp://h", "user": "ada", "passcodefile": str(tmp_path / "p")}
    assert stomp_url(given) == "stomp://ada:from%20file@h"
