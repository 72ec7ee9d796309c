"""What the pipeline raises on purpose: one class, whose text says what to do.

Rule: an error leaves neither duplicates nor holes: the step that raises it has not yet said that something is done.
"""

from __future__ import annotations

from broker.core.errors import BrokerError


class PipelineError(BrokerError):
    """A setting, an archive or a broker is not what is needed. `code`: of docs/errors.md, when the broker said it."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class NotInstalledError(PipelineError):
    """A package of the extra `pipeline` is not here."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not installed: pip install 'stampede-broker[pipeline]'")
