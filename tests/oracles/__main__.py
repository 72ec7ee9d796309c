"""`make oracles`: the scripts of a broker against it and against our dialect, random sequences of frames and random
selectors; exit status 1 when they differ otherwise than differences.py and selectors.py say, or a broker that is
installed does not come up."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.harness import Broker

from . import peers, script, selectors, sequences
from .differences import DIFFERENCES, differing

HERE = Path(__file__).parent
PEERS = {"rabbitmq": peers.rabbitmq, "activemq": peers.activemq, "artemis": peers.artemis}
SELECTORS, SEQUENCES = 600, 30
TOGETHER = 8
"""Scripts that are played at a time: each has names of its own, …"""
EVERYBODYS = re.compile(r"DLQ|amq\.(fanout|headers|match)|ExpiryQueue|ActiveMQ\.|activemq\.(management|notifications)")
"""… but for these, whose scripts are played before the others, one by one."""


def compare(name: str, their_port: int, our_port: int, scripts: Iterable[script.Script]) -> int:
    """Plays them. Returns how many differ otherwise than known."""
    known, bad, played = DIFFERENCES[name], 0, list(scripts)

    def both(each: script.Script) -> tuple[str, ...]:
        return differing(name, script.play(each, their_port), script.play(each, our_port))

    seen = {each.name: both(each) for each in played if EVERYBODYS.search("\n".join(each.steps))}
    rest = [each for each in played if each.name not in seen]
    with ThreadPoolExecutor(TOGETHER) as pool:  # mostly they wait for what does not come
        seen.update(zip([each.name for each in rest], pool.map(both, rest), strict=True))
    for each in played:
        found = seen[each.name]
        entry = known.get(each.name)
        if found == (entry.lines if entry else ()):
            print(f"  {'known ' if found else 'same  '} {each.name}", flush=True)
            continue
        bad += 1
        print("\n        ".join([f"  OTHER  {each.name}", *found]), flush=True)
        if each.name.startswith("random "):
            print("\n          ".join(["        played:", *each.steps]), flush=True)
    return bad


def choose(name: str, their_port: int, our_port: int, drawn: list[str]) -> int:
    """Asks both which messages each selector chooses. Returns how many choose otherwise than said."""
    bad = known = 0
    prefix = selectors.PREFIX[name]
    both = [selectors.chosen(port, drawn, prefix) for port in (their_port, our_port)]
    for text, theirs, ours in zip(drawn, *both, strict=True):
        if theirs == ours:
            continue
        if selectors.explained(name, text, theirs, ours):
            known += 1
            continue
        bad += 1
        print(f"  OTHER  selector {text}\n        - {theirs}\n        + {ours}", flush=True)
    print(f"  {len(drawn)} selectors: {known} choose otherwise as said, {bad} otherwise", flush=True)
    return bad


def against(name: str, given: argparse.Namespace) -> int:
    """All that was asked for, against one broker. Returns how much differs otherwise than said; one that is installed
    and does not come up counts as well."""
    scripts = [each for each in script.read(HERE / f"{name}.script") if given.only in each.name]
    with tempfile.TemporaryDirectory(prefix=f"oracle-{name}-", ignore_cleanup_errors=True) as folder:
        theirs, ours = Path(folder, "peer"), Path(folder, "ours")
        theirs.mkdir()
        settings = {"edge.dialect": name, "journal.segment_bytes": 1 << 20}
        try:
            if name == "artemis":
                peers.fetch_artemis()
            with PEERS[name](theirs) as port, Broker(ours, settings) as broker:
                print(f"{name}:", flush=True)
                bad = compare(name, port, broker.port, scripts)
                if given.only:
                    return bad
                bad += compare(name, port, broker.port, sequences.drawn(given.seed, given.sequences))
                if name in selectors.PREFIX:
                    drawn = selectors.drawn(given.seed, given.selectors, name in selectors.ARITHMETIC)
                    bad += choose(name, port, broker.port, drawn)
                return bad
        except peers.Absent as absent:
            print(f"{name}: skipped: {absent}", flush=True)
            return 0
        except peers.Down as down:
            print(f"{name}: FAILED: {down}", flush=True)
            return 1


def main(line: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scripts whose name has this text, and nothing random")
    parser.add_argument("--peer", choices=list(PEERS), help="this one alone")
    parser.add_argument("--seed", type=int, default=1, help="of what is random")
    parser.add_argument("--selectors", type=int, default=SELECTORS, help="random selectors (RabbitMQ has none)")
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="random sequences of frames")
    given = parser.parse_args(line)
    asked = [name for name in PEERS if given.peer in (None, name)]
    names = [each.name for name in asked for each in script.read(HERE / f"{name}.script")]
    if not any(given.only in each for each in names):
        parser.error(f"no script's name has {given.only!r}")
    return 1 if sum(against(name, given) for name in asked) else 0


if __name__ == "__main__":
    sys.exit(main())
