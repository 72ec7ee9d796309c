"""`make oracles`: the scripts of a broker against it and against our dialect; exit status 1 when they differ otherwise
than differences.py says."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.harness import Broker

from . import peers, script
from .differences import DIFFERENCES, differing

HERE = Path(__file__).parent
PEERS = {"rabbitmq": peers.rabbitmq, "activemq": peers.activemq}


def compare(name: str, their_port: int, our_port: int, only: str) -> int:
    """Plays all scripts of a broker. Returns how many differ otherwise than known."""
    known, bad = DIFFERENCES[name], 0
    for each in script.read(HERE / f"{name}.script"):
        if only not in each.name:
            continue
        found = differing(name, script.play(each, their_port), script.play(each, our_port))
        entry = known.get(each.name)
        if found == (entry.lines if entry else ()):
            print(f"  {'known ' if found else 'same  '} {each.name}", flush=True)
            continue
        bad += 1
        print("\n        ".join([f"  OTHER  {each.name}", *found]), flush=True)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scripts whose name has this text")
    given, bad = parser.parse_args(), 0
    for name, start in PEERS.items():
        with tempfile.TemporaryDirectory(prefix=f"oracle-{name}-", ignore_cleanup_errors=True) as folder:
            theirs, ours = Path(folder, "peer"), Path(folder, "ours")
            theirs.mkdir()
            settings = {"edge.dialect": name, "journal.segment_bytes": 1 << 20}
            try:
                with start(theirs) as port, Broker(ours, settings) as broker:
                    print(f"{name}:", flush=True)
                    bad += compare(name, port, broker.port, given.only)
            except peers.Absent as absent:
                print(f"{name}: skipped: {absent}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
