"""Asking: how a caller gets its permit. It stands in line, asks, sleeps while that is worth a slot, and else is deferred."""

import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from worker_app import errors
from worker_app.gate.book import Ask, Book, BucketAsk, Granted, Held, Waits
from worker_app.gate.key import WHOLE_KEY, Decision, GateKey, Priority, Reason
from worker_app.gate.knowledge import Knowledge
from worker_app.gate.leases import Leases
from worker_app.gate.line import LOOK_SECONDS, Lines, Place
from worker_app.gate.outage import Mode
from worker_app.gate.permits import Permit, Permits
from worker_app.gate.policy import Endpoint, ProviderPolicy
from worker_app.gate.refusal import rate_limited

LEASE_SLACK_SECONDS = 5.0  # a lease outlives the deadline of its request by this
MOST_DELAY_SECONDS = 5.0  # that a paced request is reserved ahead
STALE_SECONDS = 5.0  # a permit that its process could not use in time is asked for anew
LOOK_AGAIN_SECONDS = 0.010  # a delay that is longer may have seen a window open
CONCURRENCY_SECONDS = (0.025, 0.075)  # between two asks for a place
BULK_OUTAGE_SECONDS = 60.0  # for so long bulk work runs on its share while Redis is away
SLEEPERS_SHARE = 0.25  # of a process's slots that may sleep in the gate
MOMENT_SECONDS = 1.0  # that a caller may wait in all before it counts as a sleeper: a trip, a probe, a place
CROWDED = frozenset({Reason.CONCURRENCY, Reason.PROBE})  # these end when a request does
FREE = Granted(delay_ms=0, now_ms=0, remaining=None, cleared=0, stepped_ms=0, limit=1, live=1)  # by nobody's leave


@dataclass(frozen=True, slots=True)
class Asked:
    """One caller's request, with the buckets it counts against and how long it may sleep."""

    key: GateKey
    policy: ProviderPolicy
    endpoint: Endpoint
    priority: Priority
    buckets: tuple[BucketAsk, ...]
    began: float  # monotonic
    until: float  # monotonic

    @property
    def patience(self) -> float:
        """Seconds that the caller may still sleep."""
        return self.until - time.monotonic()


class Asking:
    """The callers of one process."""

    def __init__(
        self,
        knowledge: Knowledge,
        permits: Permits,
        leases: Leases,
        lines: Lines,
        *,
        mode: Mode,
        slots: int | None,
    ) -> None:
        self._knowledge = knowledge
        self._permits = permits
        self._leases = leases
        self._lines = lines
        self._mode = mode
        self._most_sleepers = math.inf if slots is None else max(1, int(slots * SLEEPERS_SHARE))
        self._sleepers = 0
        self._lock = threading.Lock()

    def permit(self, key: GateKey, endpoint: str, cost: float, priority: Priority, patience: float) -> Permit:
        """A permit, after at most `patience` seconds. Raises RateLimited, GateUnavailable, ValueError."""
        policy = self._knowledge.policy(key)
        of, price = policy.endpoint(endpoint), max(1, math.ceil(cost))
        buckets = tuple(
            BucketAsk(name, policy.buckets[name], price if policy.buckets[name].is_weighed else 1, of.silent)
            for name in of.buckets
        )
        asked = Asked(key, policy, of, priority, buckets, began := time.monotonic(), began + patience)
        self._refuse_closed(asked)
        place = self._lines.enter(key, endpoint, priority)
        try:
            self._take_turn(asked, place)
            return self._ask(asked, place)
        finally:
            self._lines.leave(place)

    def _refuse_closed(self, asked: Asked) -> None:
        """Send a caller away at once that a known window would outlast."""
        buckets, closed = asked.endpoint.buckets, self._knowledge.closed(asked.key, asked.endpoint.buckets)
        if closed is not None and closed[1] > asked.patience:
            closed = self._knowledge.look(asked.key, buckets)
            if closed is not None and closed[1] > asked.patience:
                window, left = closed
                raise self._deferred(
                    asked, Decision(False, left, Reason.WINDOW, window.bucket, window.text, window.fails)
                )

    def _take_turn(self, asked: Asked, place: Place) -> None:
        """Stand in line until this caller is the one that asks."""
        if place.turn.is_set():
            return
        behind = Decision(False, 1.0, Reason.CONCURRENCY, WHOLE_KEY)
        while not place.turn.is_set():
            with self._asleep(asked, behind, LOOK_SECONDS):
                place.turn.wait(max(0.0, min(LOOK_SECONDS, asked.patience)))
            if place.turn.is_set():
                break
            self._refuse_closed(asked)
            if asked.patience <= 0 or self._lines.is_stopped:
                raise self._deferred(asked, behind)
        if self._lines.is_stopped:
            raise self._deferred(asked, behind)

    def _ask(self, asked: Asked, place: Place) -> Permit:
        """Ask until the request is granted or the wait is too long to sleep."""
        held: Held | None = None
        self._await_room(asked, place)
        while True:
            self._refuse_closed(asked)
            ask, asked_at = self._ask_of(asked, held), time.monotonic()
            answer, is_local = self._answer(asked, ask)
            self._note_room(asked.key, answer)
            if isinstance(answer, Waits):
                held = answer.held
                self._wait(asked, place, answer)
                continue
            permit = self._permits.make(asked.key, asked.endpoint, ask.lease, answer, ask.lease_ms, is_local=is_local)
            try:
                may_start = self._may_start(asked, place, answer.delay_ms / 1000, asked_at)
            except BaseException:
                permit.end()
                raise
            if may_start:
                return permit
            permit.end()
            self._rest_closed(asked, place)

    def _await_room(self, asked: Asked, place: Place) -> None:
        """Wait for the end of another request where no more may be under way, as the last answer said."""
        seconds = self._lines.crowded_for(asked.key)
        if 0 < seconds <= asked.patience and not self._lines.is_stopped:
            with self._asleep(asked, Decision(False, seconds, Reason.CONCURRENCY, WHOLE_KEY), seconds):
                self._lines.rest_until_freed(place, seconds)

    def _answer(self, asked: Asked, ask: Ask) -> tuple[Granted | Waits, bool]:
        """The answer of Redis or, while that is away, of this process; and whether it is the latter."""
        key, outage = asked.key, self._knowledge.outage
        if outage.keeps_back(key, ask.max_conc):
            return Waits(0, 0, Reason.CONCURRENCY, ask.epoch, 0, WHOLE_KEY, held=ask.held), True
        answer = self._ask_redis(key, ask)
        if answer is not None:
            return answer, False
        self._stand_back(asked)
        return replace(FREE, now_ms=outage.now_ms()) if self._mode == "open" else outage.acquire(key, ask), True

    def _note_room(self, key: GateKey, answer: Granted | Waits) -> None:
        has_room = answer.room > 0 if isinstance(answer, Granted) else answer.reason not in CROWDED
        if has_room:
            self._lines.clear(key)
        else:
            self._lines.crowd(key, random.uniform(*CONCURRENCY_SECONDS))  # noqa: S311 - jitter, no secret

    def _ask_redis(self, key: GateKey, ask: Ask) -> Granted | Waits | None:
        """The answer of Redis, and everything else that it tells; None while it is away."""
        knowledge, began = self._knowledge, time.monotonic()
        seconds = (ask.lease_ms + ask.max_delay_ms) / 1000

        def acquire(book: Book) -> Granted | Waits:
            try:
                return book.acquire(key, ask)
            except BaseException:  # whether it was granted, nobody knows
                self._leases.owe(key, ask.lease, seconds)
                raise

        try:
            answer = knowledge.outage.call(acquire)
        except BaseException:
            knowledge.outage.settle()
            raise
        if answer is None:
            return None
        is_current = knowledge.heard(key, answer)
        if isinstance(answer, Granted):
            knowledge.outage.mirrors.granted(key, answer.limit)
            for bucket in answer.ended:
                knowledge.listener.window("ended", key, bucket)
        elif answer.reason is Reason.WINDOW and is_current:
            left = answer.left_ms / 1000
            knowledge.windows.note(key, answer.bucket, left, answer.text, answer.fails, since=began, is_told=True)
        return answer

    def _may_start(self, asked: Asked, place: Place, delay: float, asked_at: float) -> bool:
        """Sleep what pace delays a granted request. False: it may not start any more and has to be asked for anew."""
        if delay > 0:
            paced = Decision(False, delay, Reason.PACE, asked.endpoint.own_bucket)
            with self._asleep(asked, paced, delay):
                self._lines.rest(place, delay)
                if self._lines.is_stopped:
                    raise self._deferred(asked, paced)
            if delay > LOOK_AGAIN_SECONDS:
                self._knowledge.look_again(asked.key)
        is_stale = time.monotonic() - asked_at > delay + STALE_SECONDS
        return not is_stale and self._knowledge.closed(asked.key, asked.endpoint.buckets) is None

    def _rest_closed(self, asked: Asked, place: Place) -> None:
        """Sleep through a window that this process knows, whatever the book thinks of it."""
        self._refuse_closed(asked)
        closed = self._knowledge.closed(asked.key, asked.endpoint.buckets)
        if closed is not None:
            window, left = closed
            decision = Decision(False, left, Reason.WINDOW, window.bucket, window.text, window.fails)
            if self._lines.is_stopped:
                raise self._deferred(asked, decision)
            with self._asleep(asked, decision, left):
                self._lines.rest(place, left)

    def _wait(self, asked: Asked, place: Place, answer: Waits) -> None:
        """Sleep until it makes sense to ask again. Raises RateLimited where that is too long."""
        is_crowded = answer.reason in CROWDED
        seconds = answer.wait_ms / 1000 or random.uniform(*CONCURRENCY_SECONDS)  # noqa: S311 - jitter
        decision = Decision(False, seconds, answer.reason, answer.bucket, answer.text, answer.fails)
        if seconds > asked.patience or self._lines.is_stopped:
            raise self._deferred(asked, decision)
        with self._asleep(asked, decision, seconds):
            if is_crowded:
                self._lines.rest_until_freed(place, seconds)
            else:
                self._lines.rest(place, seconds)

    @contextmanager
    def _asleep(self, asked: Asked, decision: Decision, seconds: float) -> Iterator[None]:
        """Count a sleeper for the time of its sleep, once it will have waited longer than a moment in all.

        Raises RateLimited where too many sleep already.
        """
        counts = time.monotonic() + seconds - asked.began > MOMENT_SECONDS
        with self._lock:
            is_full = counts and self._sleepers >= self._most_sleepers
            self._sleepers += counts and not is_full
        if is_full:
            raise self._deferred(asked, decision)
        began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._sleepers -= counts
            self._knowledge.listener.waited(asked.key, decision.reason, time.monotonic() - began)

    def _stand_back(self, asked: Asked) -> None:
        """Redis is away: send away whoever has to wait for it."""
        away = self._knowledge.outage.seconds
        is_bulk = asked.priority is Priority.BULK and away > BULK_OUTAGE_SECONDS
        if self._mode == "closed" or (self._mode == "local" and is_bulk):
            wait = random.uniform(BULK_OUTAGE_SECONDS / 2, BULK_OUTAGE_SECONDS)  # noqa: S311 - jitter, no secret
            self._knowledge.listener.deferred(asked.key, Reason.OUTAGE)
            raise errors.GateUnavailable(
                f"the gate's Redis has been away for {away:.0f} s; {asked.key.provider} on {asked.key.host} is asked again "
                f"in {wait:.0f} s",
                retry_in=wait,
            )

    def _ask_of(self, asked: Asked, held: Held | None) -> Ask:
        policy, windows = asked.policy, self._knowledge.windows
        return Ask(
            lease=self._leases.name(asked.buckets),
            lease_ms=round((policy.request_deadline + LEASE_SLACK_SECONDS) * 1000),
            priority=asked.priority,
            max_delay_ms=round(max(0.0, min(MOST_DELAY_SECONDS, asked.patience)) * 1000),
            max_conc=policy.max_conc,
            ramp_ms=round(policy.ramp * 1000),
            guard_ms=round(policy.guard * 1000),
            buckets=asked.buckets,
            epoch=windows.epoch(asked.key),
            known=windows.known(asked.key),
            held=held,
        )

    def _deferred(self, asked: Asked, decision: Decision) -> errors.RateLimited:
        self._knowledge.listener.deferred(asked.key, decision.reason)
        return rate_limited(asked.key, decision)
