"""A beat to which SIGTERM comes while a destructor runs, where Python drops every exception."""

import os
import signal
from typing import Any

from worker_app.beat import FencedScheduler


class _Signalled:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):  # the interpreter serves a signal between two instructions
            pass


class SignalledScheduler(FencedScheduler):
    """The scheduler of beat, told to end in the middle of its first tick."""

    def _send_due(self, *args: Any, **kwargs: Any) -> float:
        _Signalled()
        return super()._send_due(*args, **kwargs)
