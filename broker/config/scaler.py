"""Settings of KEDA's scaler. Rule: values only."""

from __future__ import annotations

from dataclasses import dataclass

from .fields import setting


@dataclass(frozen=True, slots=True)
class ScalerSettings:
    """KEDA's external scaler (`stampede scaler`)."""

    host: str = setting("127.0.0.1", "address", "where it listens for KEDA (gRPC)")
    port: int = setting(61720, "TCP port", "0 picks a free one")
    cert_file: str = setting("", "path", "PEM certificate; empty: plain text, as KEDA expects by default")
    key_file: str = setting("", "path", "PEM key of that certificate")
    timeout_s: float = setting(1.0, "seconds", "one question to an owner's admin port", least=0.05)
    interval_s: float = setting(
        0.5,
        "seconds",
        "how often pushed scalers look",
        "the first message wakes a consumer within 2 s",
        least=0.05,
    )
