"""The broker's present ZooKeeper session, for the parts that use it."""

from __future__ import annotations

from highwater_core.ports import ConnectionLost, Coordination


class CurrentSession:
    """Holds the session; a session that expired is replaced by the next one."""

    def __init__(self) -> None:
        self._session: Coordination | None = None

    def put(self, session: Coordination | None) -> None:
        self._session = session

    def get(self) -> Coordination:
        """Return the present session.

        Raises:
            ConnectionLost: there is none yet; callers treat it as any lost connection.
        """
        if self._session is None:
            raise ConnectionLost("no session yet")
        return self._session
