"""Every sample is taken by a real API server as strictly as kubectl asks for: schema and CEL rules."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from broker_operator.kube.kube import path_of
from broker_operator.spec.names import API_VERSION

from .world import NAMESPACE

SAMPLES = sorted((Path(__file__).resolve().parents[3] / "deploy" / "samples").glob("*.yaml"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
async def test_it_applies(kube, sample):
    for each in yaml.safe_load_all(sample.read_text()):
        if not each or each["apiVersion"] != API_VERSION:
            continue
        each["metadata"]["namespace"] = NAMESPACE
        params = {"dryRun": "All", "fieldValidation": "Strict"}
        path = path_of(API_VERSION, each["kind"], NAMESPACE)
        await kube._ask("POST", path, each, params=params, headers={"Content-Type": "application/json"})
