"""Histories of cluster_full in which edges and owners speak the flat form (link/codec/flat.py), as edge processes of
one broker do: `python -m tests.sim.cluster_flat SEED`. There nobody loses a stream but with its process; here they are
cut all the time."""

from __future__ import annotations

import sys
from functools import partialmethod

from broker.link.edge_side.cluster_port import ClusterPort
from broker.link.owner_side.link_server import LinkServer

from .cluster_full import main

if __name__ == "__main__":
    for kind in (ClusterPort, LinkServer):
        kind.__init__ = partialmethod(kind.__init__, flat=True)  # type: ignore[method-assign,assignment]
    sys.exit(main(sys.argv[1:]))
