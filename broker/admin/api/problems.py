"""What the API answers when it cannot: problem details (RFC 9457), which name the thing and the fix.

Rule: every refusal is one of these; no text holds a passcode, a path of ours or a stack trace.
"""

from __future__ import annotations

from typing import Any

from broker.core.errors import BrokerError, Code, ConfigError, RefusedError

_STATUS = {
    Code.LOGIN_FAILED: 401,
    Code.NO_SUCH_DESTINATION: 404,
    Code.NO_SUCH_SUBSCRIPTION: 404,
    Code.BAD_SELECTOR: 400,
    Code.BAD_DESTINATION: 400,
    Code.MESSAGE_TOO_LARGE: 413,
    Code.DISK_FULL: 507,
    Code.MEMORY_FULL: 503,
    Code.OWNER_STOPPED: 503,
    Code.OWNER_UNAVAILABLE: 503,
    Code.OWNER_MOVED: 503,
    Code.SLOT_SHELVED: 503,
    Code.SHUTDOWN: 503,
    Code.INTERNAL: 500,
}
"""Of what owners refuse; the rest is a conflict (409) with the state of what it is about."""


class Problem(Exception):
    """`name` is stable and says what kind it is; `fix`: what to do about it."""

    def __init__(self, status: int, name: str, title: str, detail: str, fix: str = "", **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.title = title
        self.detail = detail
        self.fix = fix
        self.more = more

    def data(self, instance: str) -> dict[str, Any]:
        """The members of the document."""
        told = {
            "type": f"urn:stampede:problem:{self.name}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
        }
        return {**told, **({"fix": self.fix} if self.fix else {}), **self.more}


def of_refusal(refused: RefusedError) -> Problem:
    """What an owner, or the login, has refused."""
    code = refused.code
    return Problem(
        _STATUS.get(code, 409), code.name.lower().replace("_", "-"), code.text, refused.detail or code.text,
        code=code.number,
    )  # fmt: skip


def not_made(error: BrokerError, name: str, title: str, fix: str = "") -> Problem:
    """A change that was refused (ConfigError), or was not possible just now."""
    if isinstance(error, ConfigError):
        return Problem(409, name, title, str(error), f"nothing has changed{fix}")
    return Problem(503, "not-now", "Not possible just now", str(error), "look how it is, and try again")


def bad_value(name: str, value: str, fix: str) -> Problem:
    """A parameter that cannot be meant."""
    return Problem(400, "bad-value", "Invalid parameter", f"{name} is {value[:200]!r}", fix, parameter=name)


def unknown(kind: str, name: str, fix: str) -> Problem:
    """A thing that is not there."""
    return Problem(404, f"no-such-{kind}", f"No such {kind}", f"there is no {kind} {name[:200]!r}", fix)
