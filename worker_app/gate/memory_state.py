"""What the book in memory knows of one key, by the names that `_state.lua` lists; its leases and its moments."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from worker_app.gate.book import Known

# Milliseconds, as in the scripts.
LEAP, TRAVEL, YOUNG, ALONE = 5_000, 1_000, 1_000, 110
MOMENTS = frozenset({"u", "g", "W", "O", "S", "x", "nr", "pa", "tat"})


def costs(lease: str) -> dict[str, int]:
    """What a lease costs each quota: `token.7|core:1` is {"core": 1}."""
    parts = lease.partition("|")[2]
    return {bucket: int(cost) for bucket, _, cost in (part.rpartition(":") for part in parts.split(",") if part)}


@dataclass(slots=True)
class State:
    """What is known of one key; the numbers by the names that `_state.lua` lists."""

    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)  # lease -> moment of its end

    def get(self, kind: str, bucket: str) -> int | None:
        """A number of a bucket; None where there is none."""
        return self.numbers.get(f"{kind}:{bucket}")

    def moment(self, clock: int) -> tuple[int, int]:
        """Now, never before the last moment, and by how much the clock was found to have stepped back."""
        step = self.numbers.get("t", 0) - clock
        self.numbers.setdefault("born", clock)
        if step <= 0:
            return clock, 0
        if step <= LEAP:
            return clock + step, 0
        for name in self.numbers:
            if name.partition(":")[0] in MOMENTS:
                self.numbers[name] -= step
        self.leases = {lease: ends - step for lease, ends in self.leases.items()}
        return clock, step

    def lessen(self, spent: dict[str, int]) -> None:
        """Take off what leases that have ended took from each quota."""
        for bucket, cost in spent.items():
            left = self.numbers.get(f"f:{bucket}", 0) - cost
            if left > 0:
                self.numbers[f"f:{bucket}"] = left
            else:
                self.numbers.pop(f"f:{bucket}", None)

    def reap(self, now: int) -> None:
        """Free at most 64 leases that have run out."""
        over = sorted((ends, lease) for lease, ends in self.leases.items() if ends <= now)[:64]
        for _, lease in over:
            del self.leases[lease]
            self.lessen(costs(lease))

    def restore(self, epoch: int, known: tuple[Known, ...], now: int) -> None:
        """Add the windows that a caller knows, unless the key was cleared since it last heard of it."""
        if self.cleared > epoch:
            return
        if epoch:
            self.numbers["e"] = epoch
        for window in known:
            ends, before = now + window.left_ms, self.get("u", window.bucket) or 0
            if ends <= before + (TRAVEL if window.is_told else 0):
                continue
            if before <= now:
                self.numbers[f"g:{window.bucket}"] = now
                self.texts[f"y:{window.bucket}"] = window.text
                self.numbers.pop(f"tk:{window.bucket}", None)
            self.numbers[f"u:{window.bucket}"] = ends

    def adopt(self, leases: Mapping[str, int], now: int) -> None:
        """Count leases that a caller holds and that are not known here: lease -> milliseconds that it may last."""
        fresh = {lease: now + left for lease, left in leases.items() if lease not in self.leases}
        spent = Counter[str]()
        for lease in fresh:
            spent.update(costs(lease))
        for bucket, cost in spent.items():
            under_way = self.get("f", bucket) if self.leases else None
            self.numbers[f"f:{bucket}"] = (under_way or 0) + cost
        self.leases.update(fresh)

    @property
    def cleared(self) -> int:
        """The moment of the last clear; 0: there was none."""
        return self.numbers.get("e", 0)

    @property
    def born(self) -> int:
        """The moment at which the state began."""
        return self.numbers["born"]
