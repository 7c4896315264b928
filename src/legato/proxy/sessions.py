"""Conversations that were governed before: of their next request only what was appended has to be looked at.

Nothing hangs on them but time: a session answers as `govern` does, so what is forgotten, or known to another worker
only, is governed anew.
"""

from __future__ import annotations

from collections import OrderedDict

from legato import Calibration, Governed, Policy, Session
from legato.messages import Json

Key = tuple[str, str, str | None, str]
"""Conversation, format, profile, model."""


class Sessions:
    """The newest conversations whose last requests have together at most `most` bytes. Not for several threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Key, tuple[Session, int]] = OrderedDict()
        self._held = 0

    def govern(
        self, payload: Json, key: Key, size: int, policy: Policy, calibration: Calibration | None
    ) -> Governed | None:
        """What to send of a request of `size` bytes, None if it is too large to be remembered. Raises as `govern`."""
        if size > self.most:
            return None
        session, before = self._known.pop(key, (None, 0))
        self._held -= before
        if session is None or session.policy != policy:
            _, form, profile, model = key
            session = Session(profile, policy, format=form, model=model or None)
        session.calibration = calibration
        governed = session.prepare(payload)
        self._known[key] = (session, size)
        self._held += size
        while self._held > self.most:
            _, (_, gone) = self._known.popitem(last=False)
            self._held -= gone
        return governed
