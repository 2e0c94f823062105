"""Listener: what the gate tells of itself. The gate counts nothing and logs nothing; who wants to know listens."""

from worker_app.gate.key import GateKey, Reason
from worker_app.gate.signals import RateSignal


class Listener:
    """Hears everything and does nothing. All durations are seconds; a method must return at once and never raise."""

    def waited(self, key: GateKey, reason: Reason, seconds: float) -> None:
        """A caller slept in the gate."""

    def deferred(self, key: GateKey, reason: Reason) -> None:
        """A caller was sent away because the wait is too long to sleep."""

    def window(
        self, event: str, key: GateKey, bucket: str, *, seconds: float = 0.0, text: str = "", by: str = ""
    ) -> None:
        """A window was opened, extended, ended or cleared: once in the fleet for each."""

    def told(self, key: GateKey, signal: RateSignal) -> None:
        """A reply was read."""

    def leaked(self, key: GateKey, bucket: str) -> None:
        """A request was refused that had started while its bucket was known to be closed."""

    def lease_lost(self, key: GateKey) -> None:
        """A lease had run out before its request was over."""

    def clock_stepped(self, seconds: float) -> None:
        """The clock of Redis moved by so much against this process's own, or stepped back."""

    def trip(self, script: str, seconds: float) -> None:
        """One call of Redis was answered: acquire, observe, sync or admin."""

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:
        """Redis went away (0 seconds), or came back after so many."""
