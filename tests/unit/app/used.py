"""Who uses live settings, in the tests of app/live."""

from __future__ import annotations

from broker.config.settings import EngineSettings, Settings


class Used:
    """What was applied; raises `error` the next time."""

    def __init__(self) -> None:
        self.engines: list[EngineSettings] = []
        self.error: Exception | None = None

    async def apply(self, settings: Settings) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.engines.append(settings.engine)
