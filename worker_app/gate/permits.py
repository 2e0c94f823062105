"""Permits: leave for one request each, from the grant to the reply. What a reply teaches is told to all."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from worker_app.gate.book import Granted, Learned, Told
from worker_app.gate.key import WHOLE_KEY, Decision, GateKey, Reason
from worker_app.gate.knowledge import Knowledge
from worker_app.gate.leases import Leases
from worker_app.gate.outage import NO_REPLY
from worker_app.gate.policy import Endpoint, ProviderPolicy
from worker_app.gate.refusal import reason_text
from worker_app.gate.signals import REFUSED, Kind, RateSignal


@dataclass(slots=True, eq=False)
class Permit:
    """Leave to send one request. It must be ended: by `observe` with the reply, or by `end` without one."""

    key: GateKey
    policy: ProviderPolicy
    endpoint: Endpoint
    lease: str
    lease_seconds: float
    sent_ms: int  # time of Redis at which the request may start
    remaining: int | None  # of the scarcest quota when it was granted; None: nobody knows
    is_local: bool  # granted by this process alone, while Redis was away
    learn: Callable[["Permit", RateSignal], Decision]
    is_ended: bool = False

    def observe(self, signal: RateSignal) -> Decision:
        """End the permit and learn from the reply; later calls do nothing. A refusal is returned, never raised."""
        if self.is_ended:
            return Decision(True)
        self.is_ended = True
        return self.learn(self, signal)

    def end(self) -> None:
        """End the permit without a reply; nothing is learned, and nothing happens when it has ended."""
        self.observe(NO_REPLY)

    def __enter__(self) -> "Permit":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Permits:
    """Makes permits and ends them."""

    def __init__(self, knowledge: Knowledge, leases: Leases, freed: Callable[[GateKey], None]) -> None:
        self._knowledge = knowledge
        self._leases = leases
        self._freed = freed  # told that a request of the key has ended

    def make(
        self, key: GateKey, endpoint: Endpoint, lease: str, granted: Granted, lease_ms: int, *, is_local: bool
    ) -> Permit:
        """The permit of a granted lease."""
        seconds = (granted.delay_ms + lease_ms) / 1000
        self._leases.add(key, lease, seconds, is_shared=not is_local, born=granted.born)
        sent_ms = granted.now_ms + granted.delay_ms
        policy = self._knowledge.policy(key)
        return Permit(key, policy, endpoint, lease, seconds, sent_ms, granted.remaining, is_local, self._learn)

    def _learn(self, permit: Permit, signal: RateSignal) -> Decision:
        """End a permit. What it teaches is known to this process even where Redis does not hear of it."""
        key, knowledge, told = permit.key, self._knowledge, _told(permit, signal)
        if signal.kind is not Kind.UNKNOWN:
            knowledge.listener.told(key, signal)
            knowledge.outage.mirrors.told(key, told)
        learned = self._tell(permit, told)
        is_local = learned is None
        if learned is None:
            learned = knowledge.outage.observe(key, told)
        else:
            knowledge.heard(key, learned)
            if not learned.was_live and not permit.is_local:
                knowledge.listener.lease_lost(key)
        decision = self._decide(key, told, learned, is_told=not is_local)
        self._freed(key)
        return decision

    def _tell(self, permit: Permit, told: Told) -> Learned | None:
        """Tell Redis that a lease has ended; where it may not have heard, it is told later."""
        key, lease, outage, learned = permit.key, permit.lease, self._knowledge.outage, None
        is_shared = self._leases.remove(key, lease)
        try:
            learned = outage.call(lambda book: book.observe(key, told))
        except BaseException:
            self._leases.owe(key, lease, permit.lease_seconds)
            if told.signal.kind in REFUSED:
                wait = told.signal.after or permit.policy.default_after
                self._knowledge.windows.note(key, told.signal.bucket, wait + permit.policy.guard, told.text)
            outage.settle()
            self._freed(key)
            raise
        if learned is None and is_shared:
            self._leases.owe(key, lease, permit.lease_seconds)
        return learned

    def _decide(self, key: GateKey, told: Told, learned: Learned, *, is_told: bool) -> Decision:
        if told.signal.kind not in REFUSED:
            return Decision(True, bucket=told.signal.bucket)
        left, listener = learned.left_ms / 1000, self._knowledge.listener
        self._knowledge.windows.note(key, learned.bucket, left, told.text, learned.fails, is_told=is_told)
        if learned.opened:
            event = "opened" if learned.opened == 1 else "extended"
            listener.window(event, key, learned.bucket, seconds=left, text=told.text)
        if learned.has_leaked:
            listener.leaked(key, learned.bucket)
        return Decision(False, left, Reason.WINDOW, learned.bucket, told.text, learned.fails)


def _told(permit: Permit, signal: RateSignal) -> Told:
    policy = permit.policy
    return Told(
        lease=permit.lease,
        sent_ms=permit.sent_ms,
        signal=signal,
        text=reason_text(signal.kind.value, signal.detail),
        guard_ms=round(policy.guard * 1000),
        default_after_ms=round(policy.default_after * 1000),
        max_conc=policy.max_conc,
        policies=policy.buckets,
        buckets=(WHOLE_KEY, *permit.endpoint.buckets),
    )
