"""What a connection can be, from its first byte to its end, and what may become of it; its login is a part of that.

Rule: only the methods here change the state. The three flags beside it say the same to those who ask per read or per
frame; they are written with it and by nobody else.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.core.states import StateTable


class SessionState(Enum):
    """Of one connection of a client."""

    NEW = "new"
    """Nothing is taken but CONNECT. It is a stranger: it may have to give way to others."""
    CHECKING = "checking"
    """Its passcode is being checked by another thread, or is another edge's to know; what came behind CONNECT waits."""
    CLAIMING = "claiming"
    """Its login is right; whether the client-id is its own has been asked. What came behind CONNECT waits."""
    OPEN = "open"
    """It has a user with rights, a version and heart-beats; its frames are carried out in order."""
    LEAVING = "leaving"
    """Nothing more is taken of it. What it asked for before is answered, then comes its ERROR or last RECEIPT."""
    CLOSED = "closed"
    """Its consumers have ended and its client-id is free; nothing is written any more. The socket may still flush."""


NOT_YET: Final = {
    SessionState.LEAVING: "it is refused, or says that it goes",
    SessionState.CLOSED: "it is cut off, or has gone",
}
SESSION: Final = StateTable(
    "A connection of a client, and its login (`edge/session/session_state.py`; decided in "
    "`edge/requests/connecting.py`, "
    "`edge/session/session.py`).",
    SessionState,
    {SessionState.NEW: "its socket is accepted, TLS and PROXY are done"},
    {
        SessionState.NEW: {
            SessionState.CHECKING: "CONNECT with a passcode that nobody has found right yet",
            SessionState.CLAIMING: "CONNECT of a known login, with a client-id",
            SessionState.OPEN: "CONNECT of a known login, or nobody has to log in",
            **NOT_YET,
        },
        SessionState.CHECKING: {
            SessionState.CLAIMING: "the passcode is right, and there is a client-id",
            SessionState.OPEN: "the passcode is right",
            **NOT_YET,
        },
        SessionState.CLAIMING: {SessionState.OPEN: "the client-id is its own", **NOT_YET},
        SessionState.OPEN: {
            SessionState.LEAVING: "DISCONNECT, an ERROR, or the client has sent its last byte",
            SessionState.CLOSED: "it is cut off, or has gone",
        },
        SessionState.LEAVING: {SessionState.CLOSED: "everything before is answered, or it is cut off or has gone"},
    },
    {SessionState.CLOSED: "its socket is gone"},
)


class SessionLife:
    """The part of a session that says what it is. state   see SessionState.

    connected   its login was accepted (and stays so).    leaving   nothing more is taken of it.    closed   it has
    ended."""

    __slots__ = ("closed", "connected", "leaving", "state")

    def __init__(self) -> None:
        self.state = SESSION.begin(SessionState.NEW)
        self.connected = False
        self.leaving = False
        self.closed = False

    def is_checked(self) -> None:
        """Its passcode is being checked; frames wait."""
        self.state = SESSION.to(self.state, SessionState.CHECKING)

    def claims(self) -> None:
        """Its login is right; its client-id is asked for."""
        self.state = SESSION.to(self.state, SessionState.CLAIMING)

    def _opens(self) -> None:
        """Its login is accepted."""
        self.state = SESSION.to(self.state, SessionState.OPEN)
        self.connected = True

    def _leaves(self) -> None:
        """Nothing more is taken. No effect when it is so already: the end of one that leaves may change."""
        if not self.leaving:
            self.state = SESSION.to(self.state, SessionState.LEAVING)
            self.leaving = True

    def _closes(self) -> None:
        """It has ended."""
        self.state = SESSION.to(self.state, SessionState.CLOSED)
        self.closed = True
