"""What one process knows of the keys that it uses, and how it hears more: windows, the two books, the clock of Redis."""

import time
from collections.abc import Iterable, Mapping

from worker_app.gate.book import Granted, Learned, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey
from worker_app.gate.listener import Listener
from worker_app.gate.outage import Outage
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.windows import Window, Windows

STEP_SECONDS = 1.0  # by which Redis's clock moves against ours before it is told as a step
FRESH_SECONDS = 0.010  # what was asked so recently holds for a request that starts now


class Knowledge:
    """Shared by everything that the gate of one process is made of."""

    def __init__(
        self, policies: Mapping[str, ProviderPolicy], windows: Windows, outage: Outage, listener: Listener
    ) -> None:
        self._policies = policies
        self.windows = windows
        self.outage = outage
        self.listener = listener
        self._skew_seconds: float | None = None

    def policy(self, key: GateKey) -> ProviderPolicy:
        """The policy of the key's provider; ValueError where there is none."""
        try:
            return self._policies[key.provider]
        except KeyError:
            raise ValueError(f"provider is {key.provider!r}: there are {', '.join(sorted(self._policies))}") from None

    def require_bucket(self, key: GateKey, bucket: str) -> None:
        """Raises ValueError for a bucket that the provider does not have; of one without a policy nobody knows the buckets."""
        policy = self._policies.get(key.provider)
        if policy is not None and bucket not in (WHOLE_KEY, *policy.buckets):
            raise ValueError(
                f"bucket is {bucket!r}: {key.provider} has {', '.join(policy.buckets)}, and * for all of them"
            )

    def most(self, key: GateKey) -> int | None:
        """How many requests of a key may be under way at most; None where this process has no policy for it."""
        policy = self._policies.get(key.provider)
        return None if policy is None else policy.max_conc

    def closed(self, key: GateKey, buckets: Iterable[str]) -> tuple[Window, float] | None:
        """The known window that closes these buckets, and the seconds that are left of it. No trip."""
        return self.windows.closed(key, buckets)

    def look(self, key: GateKey, buckets: tuple[str, ...]) -> tuple[Window, float] | None:
        """The same, after a look at Redis: where no window is known, and once a second where one is."""
        found = self.windows.closed(key, buckets)
        if found is not None and not self.windows.may_look(key):
            return found
        self.sync(key)
        return self.windows.closed(key, buckets)

    def look_again(self, key: GateKey) -> None:
        """Ask Redis for windows of the key, unless this process has only just done so."""
        if self.windows.may_look(key, FRESH_SECONDS):
            self.sync(key)

    def sync(self, key: GateKey) -> bool:
        """Give Redis the windows that are known and take those it knows; returns whether it answered."""
        began, epoch, known = time.monotonic(), self.windows.epoch(key), self.windows.known(key)
        seen = self.outage.call(lambda book: book.sync(key, epoch, known))
        if seen is None:
            return False
        self.windows.saw(key, seen, began)
        return True

    def heard(self, key: GateKey, answer: Granted | Waits | Learned) -> bool:
        """Every answer of Redis tells of clears, by its time of a clock that was moved, and whether it lost what it knew.

        False: it is older than a clear that this process knows of.
        """
        self.outage.heard(key, answer.now_ms, answer.born)
        skew = answer.now_ms / 1000 - time.monotonic()
        before, self._skew_seconds = self._skew_seconds, skew
        if answer.stepped_ms:
            self.listener.clock_stepped(-answer.stepped_ms / 1000)
        elif before is not None and abs(skew - before) > STEP_SECONDS:
            self.listener.clock_stepped(skew - before)
        return self.windows.heard(key, answer.cleared)
