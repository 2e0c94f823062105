"""What the gate tells of itself, as telemetry and log lines: one line for each window that opens, grows, ends or is cleared."""

import structlog

from worker_app import telemetry
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.listener import Listener
from worker_app.gate.replies import provider_word
from worker_app.gate.signals import RateSignal

log = structlog.get_logger(__name__)


class GateEvents(Listener):
    """Counts and logs. No label names an organisation; log lines do."""

    def waited(self, key: GateKey, reason: Reason, seconds: float) -> None:
        """A caller slept in the gate."""
        telemetry.GATE_WAIT.labels(key.provider).observe(seconds)
        telemetry.GATE_BLOCKED.labels(key.provider, reason.value).inc()

    def deferred(self, key: GateKey, reason: Reason) -> None:
        """A caller was sent away."""
        telemetry.GATE_DEFERRALS.labels(key.provider, reason.value).inc()

    def window(
        self, event: str, key: GateKey, bucket: str, *, seconds: float = 0.0, text: str = "", by: str = ""
    ) -> None:
        """A window was opened, extended, ended or cleared."""
        telemetry.GATE_WINDOWS.labels(key.provider, event).inc()
        said = {name: value for name, value in (("reason", text), ("by", by)) if value}
        if seconds:
            said["seconds"] = f"{seconds:.1f}"
        log.info(f"gate.{event}", provider=key.provider, org_id=key.org_id, host=key.host, bucket=bucket, **said)

    def told(self, key: GateKey, signal: RateSignal) -> None:
        """A reply was read."""
        if signal.quotas:
            is_untracked = any(quota.limit == 0 for quota in signal.quotas)
            telemetry.GATE_UNTRACKED.labels(key.provider, key.host).set(is_untracked)
        if not signal.is_reason_known:
            telemetry.GATE_UNKNOWN_REASONS.labels(key.provider).inc()
            log.warning("gate.reason_unknown", provider=key.provider, host=key.host, reason=signal.detail)
        for value in signal.quarantined:
            telemetry.GATE_QUARANTINED.labels(key.provider).inc()
            shown = provider_word(value)  # it is cut: of half a token no pattern of the log would know
            log.warning("gate.header_not_believed", provider=key.provider, host=key.host, value=shown)

    def leaked(self, key: GateKey, bucket: str) -> None:
        """A request was refused that had started while its bucket was known to be closed."""
        telemetry.GATE_LEAKS.labels(key.provider).inc()
        log.error("gate.leaked", provider=key.provider, org_id=key.org_id, host=key.host, bucket=bucket)

    def lease_lost(self, key: GateKey) -> None:
        """A lease had run out before its request was over."""
        telemetry.GATE_LEASES_LOST.labels(key.provider).inc()

    def clock_stepped(self, seconds: float) -> None:
        """The clock of Redis moved."""
        telemetry.GATE_CLOCK_STEPS.inc()
        log.warning("gate.clock_stepped", seconds=round(seconds, 1))

    def trip(self, script: str, seconds: float) -> None:  # noqa: ARG002 - all scripts go into one measure
        """One call of Redis was answered."""
        telemetry.GATE_TRIP.observe(seconds)

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:
        """Redis went away, or came back."""
        if is_over:
            telemetry.GATE_LOCAL_SECONDS.inc(seconds)
            log.warning("gate.redis_back", seconds=round(seconds, 1))
        else:
            log.error("gate.redis_away", error=error, follows="this process goes on within its share of the limits")
