"""What became of each named task, by the marks it left; and whether a number stayed flat. Pure, apart from reading the marks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

Sample = tuple[float, float]  # seconds since the start, value

AT_THE_KILL_SECONDS = 0.5  # the end of a task and its acknowledgement are two steps; a SIGKILL may fall between them
FLAT_GROWTH = 0.15  # of the median of the first third: less is noise


@dataclass(frozen=True, slots=True)
class Kill:
    """A worker that got SIGKILL."""

    pid: int
    at: float  # Unix time


@dataclass(slots=True)
class Ledger:
    """Begins and ends of every task, as (pid, Unix time), read from the marks piece by piece."""

    path: Path
    begun: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    ended: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    _offset: int = 0

    def read(self) -> "Ledger":
        """Take in what was written since the last time."""
        if not self.path.exists():
            return self
        with self.path.open("rb") as file:
            file.seek(self._offset)
            piece = file.read()
        whole = piece[: piece.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            word, name, pid, at = line.split()
            book = self.begun if word == "begin" else self.ended
            book.setdefault(name, []).append((int(pid), float(at)))
        return self

    def lost(self, sent: Collection[str]) -> list[str]:
        """Tasks that never came to an end."""
        return sorted(set(sent) - self.ended.keys())

    def doubled(self, kills: Sequence[Kill]) -> list[str]:
        """Tasks with more than one effect, without those that ended in the moment of a kill."""
        return sorted(name for name, ends in self.ended.items() if len(ends) > 1 and not _at_the_kill(ends, kills))

    def repeated(self, kills: Sequence[Kill]) -> list[str]:
        """Tasks that began more than once although no worker was killed while it ran them."""
        return sorted(
            name
            for name, begins in self.begun.items()
            if len(begins) > 1
            and not self._was_killed(name, begins, kills)
            and not _at_the_kill(self.ended.get(name, []), kills)
        )

    def at_the_kill(self, kills: Sequence[Kill]) -> list[str]:
        """Tasks that ended right before a kill and once more after it: no promise covers them."""
        return sorted(name for name, ends in self.ended.items() if len(ends) > 1 and _at_the_kill(ends, kills))

    def _was_killed(self, name: str, begins: Sequence[tuple[int, float]], kills: Sequence[Kill]) -> bool:
        ended_by = {pid for pid, _ in self.ended.get(name, [])}
        return any(pid == kill.pid and pid not in ended_by for pid, _ in begins for kill in kills)


def _at_the_kill(ends: Sequence[tuple[int, float]], kills: Sequence[Kill]) -> bool:
    return any(pid == kill.pid and 0 <= kill.at - at <= AT_THE_KILL_SECONDS for pid, at in ends for kill in kills)


@dataclass(frozen=True, slots=True)
class Trend:
    """A number at the begin and at the end of a time: the medians of the first and the last third."""

    first: float
    last: float
    peak: float

    @property
    def growth(self) -> float:
        """By which part it grew."""
        return self.last / self.first - 1 if self.first else 0.0

    def is_flat(self, slack: float = 0.0) -> bool:
        """Whether it grew no more than noise, or by no more than `slack`."""
        return self.growth <= FLAT_GROWTH or self.last - self.first <= slack


def trend(samples: Sequence[Sample], warm_up_seconds: float) -> Trend | None:
    """The trend after the warm-up; None with fewer than three samples."""
    kept = [value for at, value in samples if at >= warm_up_seconds]
    third = len(kept) // 3
    if not third:
        return None
    return Trend(median(kept[:third]), median(kept[-third:]), max(kept))


def violations(
    *,
    lost: Sequence[str],
    doubled: Sequence[str],
    repeated: Sequence[str],
    left: int,
    happened: Mapping[str, tuple[int, int]],
    ended_workers: Sequence[str],
    trends: Mapping[str, tuple[Trend | None, float]],
) -> list[str]:
    """What is wrong, a sentence each.

    `happened` maps what had to happen to (how often it did, how often at least), `trends` a name to its trend and slack.
    """
    found = [f"{len(names)} tasks {what}: {', '.join(names[:5])}" for what, names in (
        ("never ended", lost), ("ended more than once", doubled), ("began again without a kill", repeated),
    ) if names]  # fmt: skip
    if left:
        found.append(f"{left} messages were left in Redis")
    found += [f"{what}: {count}, at least {least}" for what, (count, least) in happened.items() if count < least]
    found += ended_workers
    for name, (seen, slack) in trends.items():
        if seen is None:
            found.append(f"{name}: too few samples")
        elif not seen.is_flat(slack):
            found.append(f"{name} grew by {100 * seen.growth:.0f} %: {seen.first:.1f} to {seen.last:.1f}")
    return found
