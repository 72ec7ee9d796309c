"""`bridges` of a StompBroker: as entries of settings, and what their Secret lacks.

Rule: pure. A passcode never leaves its Secret: the settings name the file that edges have it as.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from . import names
from .conditions import Condition
from .model import BrokerSpec, Table
from .schema import entry_settings

FILES: Final[Mapping[str, str]] = {
    "passcodeKey": "passcode_file", "caKey": "ca_file", "certKey": "cert_file", "keyKey": "key_file",
}  # fmt: skip
"""Field that names a key of the Secret → the setting, which names a file."""
CONFIGURED: Final = "BridgesConfigured"


def settings(bridge: Table) -> Table:
    """The entry of `bridges`."""
    found = entry_settings("bridges", {name: value for name, value in bridge.items() if name != "name"})
    files = {setting: f"{names.BRIDGES_DIR}/{bridge[field]}" for field, setting in FILES.items() if bridge.get(field)}
    return found | files


def condition(spec: BrokerSpec, secret: Table | None, lacking: Collection[str] | None) -> Condition:
    """Whether edges have the bridges and can read what they name. One that lacks something keeps only its bridge from
    running, so it says nothing of Ready.

    secret    of bridgesSecretName, None: there is none.
    lacking   those that are not in etcd as the spec says; None: nobody knows."""
    data = (secret or {}).get("data") or {}
    for bridge in spec.bridges:
        for field in FILES:
            if not (key := bridge.get(field)) or data.get(key):
                continue
            why = f"spec.bridges {bridge['name']} names {key} in {field}"
            if secret is None:
                why = f"there is no Secret {spec.bridges_secret_name} (spec.bridgesSecretName), and {why}; create it"
                return Condition(CONFIGURED, False, "SecretMissing", why)
            why = f"Secret {spec.bridges_secret_name} has no key {key}, and {why}; put it there"
            return Condition(CONFIGURED, False, "KeyMissing", why)
    if lacking is None:
        return Condition(CONFIGURED, None, "EtcdUnreachable", "what edges have is not known; EtcdReachable says why")
    if lacking:
        why = f"not in etcd as the spec has them, see Accepted: {', '.join(sorted(lacking)[:5])}"
        return Condition(CONFIGURED, False, "NotWritten", why)
    return Condition(CONFIGURED, True, "Configured", f"{len(spec.bridges)} in etcd, where edges follow them")
