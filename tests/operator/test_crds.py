"""The definitions of our kinds: the files are those that are made of them, and every server takes them."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
from broker_operator.crds import crds
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BROKER, USER

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", list(crds.files()))
def test_files_are_current(name):
    assert (ROOT / name).read_text() == crds.files()[name], "run `make crds`"


@pytest.mark.parametrize("kind", [BROKER, ACCEPTOR, ADDRESS, USER])
@pytest.mark.parametrize("version", ["1.25", "1.27", "1.33"])
def test_the_kinds_are_taken_strictly_from_1_25_on(kind, version):
    """`fieldPath` and `reason` of rules came with 1.28: kubectl had refused the files on 1.25 to 1.27."""
    kubernetes_validate.validate(crds.crd(kind), version, strict=True)
