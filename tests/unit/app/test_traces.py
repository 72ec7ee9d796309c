"""Nothing of tracing is there unless somebody wants it."""

from __future__ import annotations

import pytest

from broker.app.process.traces import traces
from broker.config.settings import Settings
from broker.config.tracing import TracingSettings
from broker.core.errors import ConfigError
from broker.seams.clock import SystemClock


def test_off_it_is_nothing():
    assert traces(Settings(), "broker", "one", SystemClock()) is None


def test_a_wrong_endpoint_is_refused_before_anything_starts():
    pytest.importorskip("opentelemetry.sdk")
    with pytest.raises(ConfigError, match=r"tracing\.endpoint"):
        traces(Settings(tracing=TracingSettings("there")), "broker", "one", SystemClock())
