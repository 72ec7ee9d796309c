"""Settings of logs. Rule: values only."""

from __future__ import annotations

from dataclasses import dataclass

from .fields import MIB, setting


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Logging."""

    level: str = setting(
        "INFO", "DEBUG|INFO|WARNING|ERROR", "DEBUG logs every frame with client address and connection id"
    )
    format: str = setting("text", "text|json", "one line per event")
    audit_file: str = setting(
        "", "path", "audit lines go there, one JSON object each, and nowhere else; `-`: stdout; empty: into the log",
        "whatever log.level is; written by a thread of its own, so that a slow log costs none",
    )  # fmt: skip
    audit_file_bytes: int = setting(
        100 * MIB, "bytes", "of the audit file; the line that does not fit begins a new one; 0: any number",
        "who fails to log in again and again must not fill the disk. 0 where logrotate sees to it", least=0,
    )  # fmt: skip
    audit_files_kept: int = setting(
        10, "files", "of those that are full, FILE.1 being the youngest; older ones are deleted",
        "with the one that is written a gigabyte, some four million lines", most=1000,
    )  # fmt: skip
