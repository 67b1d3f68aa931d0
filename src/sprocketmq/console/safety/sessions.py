# SPDX-License-Identifier: Apache-2.0
"""Who is signed in: one token opens the console, and each browser then has its own session.

Token, session and form key are compared in constant time. A session beyond ``MOST_SESSIONS`` replaces the least recently used; each ends
after twelve hours without use. A session has at most ``MOST_STREAMS`` streams of events, all together ``_ALL_STREAMS``, so that connections
are left for pages. Its form key is secret, so that other sites cannot send its forms.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sprocketmq.errors import ConfigurationError

MOST_SESSIONS: Final = 64
MOST_STREAMS: Final = 12  # a browser opens six connections to a host
_ALL_STREAMS: Final = 64
_IDLE_S: Final = 12 * 3600
_LEAST_TOKEN: Final = 16
_FORMS_KEPT: Final = 256


@dataclass(slots=True)
class Session:
    """One browser that is signed in: ``number`` in the audit log, ``key`` of its cookie, ``form_key`` of its forms, ``streams`` of its
    pages that wait for events, and the newest forms that may be sent once, by their hidden field ``once``."""

    number: int
    key: str
    form_key: str
    used_s: float
    streams: int = 0
    sent_forms: deque[str] = field(default_factory=lambda: deque(maxlen=_FORMS_KEPT))


class Sessions:
    """``token`` opens the console; None: a new one is made. Raises ConfigurationError (the token is too short)."""

    def __init__(self, token: str | None, now_s: Callable[[], float]) -> None:
        if token is not None and len(token) < _LEAST_TOKEN:
            raise ConfigurationError(
                f"the token has {len(token)} characters; {_LEAST_TOKEN} or more are allowed, as 'openssl rand -hex 24' makes them"
            )
        self.token = token or secrets.token_urlsafe(32)
        self._now_s = now_s
        self._sessions: dict[str, Session] = {}
        self._count = self._streams = 0

    def open(self, token: str) -> Session | None:
        if not _equal(token, self.token):
            return None
        if len(self._sessions) >= MOST_SESSIONS:
            oldest = min(self._sessions.values(), key=lambda session: session.used_s)
            del self._sessions[oldest.key]
        self._count += 1
        session = Session(self._count, secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._now_s())
        self._sessions[session.key] = session
        return session

    def find(self, key: str) -> Session | None:
        """The session of a cookie, and record the use; None for an unknown or expired one."""
        now_s = self._now_s()
        for known, session in list(self._sessions.items()):
            if now_s - session.used_s > _IDLE_S:
                del self._sessions[known]
        found = next((session for known, session in self._sessions.items() if _equal(key, known)), None)
        if found is not None:
            found.used_s = now_s
        return found

    def is_open(self, session: Session) -> bool:
        """Whether the session has not ended. This does not count as a use, because streams check it periodically."""
        return self._sessions.get(session.key) is session and self._now_s() - session.used_s <= _IDLE_S

    def take_stream(self, session: Session) -> bool:
        """Count one more stream of the session; False, without counting it, if there are too many. ``give_stream_back`` at its end."""
        if session.streams >= MOST_STREAMS or self._streams >= _ALL_STREAMS:
            return False
        session.streams += 1
        self._streams += 1
        return True

    def give_stream_back(self, session: Session) -> None:
        session.streams -= 1
        self._streams -= 1

    def close(self, session: Session) -> None:
        self._sessions.pop(session.key, None)

    @staticmethod
    def form_is_of(session: Session, form_key: str) -> bool:
        return _equal(form_key, session.form_key)


def _equal(given: str, known: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), known.encode())
