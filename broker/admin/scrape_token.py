"""Who may read the numbers of the admin port (/metrics, /api/depth and its like) from another machine: a client that
shows the token of `admin.token_file`, as `Authorization: Bearer TOKEN`.

Rule: this machine is asked for nothing, and without a file no machine is. A file that cannot be read leaves the token
from before in use. A token is in no log and no answer.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import urllib.request
from collections.abc import Mapping
from typing import Any

from broker.core.errors import ConfigError
from broker.seams.files import read_whole
from broker.seams.watched_files import WatchedFiles

from .api.access import is_loopback

_log = logging.getLogger("stampede.admin")

LOOK_S = 10.0
"""How often the file is looked at."""
LEAST = 16
"""Characters: fewer can be guessed."""
REFUSED = b"show the token of admin.token_file: Authorization: Bearer TOKEN (probes and this machine need none)\n"


def read_token(path: str) -> str:
    """Raises OSError, or ValueError for what is no token."""
    token = read_whole(path).decode("ascii").strip()
    if len(token) < LEAST or not token.isprintable() or " " in token:
        raise ValueError(f"a token is one word of {LEAST} or more letters, digits and signs")
    return token


def bearer(path: str) -> dict[str, str]:
    """What owners are asked with. path: admin.token_file. Raises ConfigError."""
    if not path:
        return {}
    try:
        return {"Authorization": f"Bearer {read_token(path)}"}
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot use admin.token_file {path}: {error}.") from None


def answer_of(url: str, headers: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """What an admin port says there, from a command. Raises OSError, ValueError."""
    asked = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 (made of the settings)
    with urllib.request.urlopen(asked, timeout=timeout_s) as reply:  # noqa: S310
        answer: dict[str, Any] = json.load(reply)
        return answer


class ScrapeToken:
    """See the head of this file."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError."""
        self._path = path
        bearer(path)
        self._file = WatchedFiles([path], lambda: read_token(path), self._told) if path else None

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads it again when it has changed, until close()."""
        if self._file is not None:
            self._file.follow(loop, LOOK_S)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def admits(self, peer: str, header: str) -> bool:
        """May who is there and has sent this Authorization read numbers."""
        if self._file is None or is_loopback(peer):
            return True
        scheme, _, secret = header.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            secret.strip().encode(errors="surrogateescape"), self._file.value.encode()
        )

    def _told(self, error: OSError | ValueError | None) -> None:
        if error is not None:
            _log.error("admin.token_file cannot be used, the token from before counts on: %s", error)
        else:
            _log.info("token of the admin port read again from %s", self._path)
