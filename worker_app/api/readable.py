"""Readable: numbers and times as a person reads them on the page. Pure; `now` is given."""

from datetime import UTC, datetime, timedelta

STEPS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))  # seconds and the unit they make


def duration(seconds: float) -> str:
    """A length of time in its largest fitting unit: `45 s`, `3 min`, `2 h`, `5 d`."""
    whole = max(0, round(seconds))
    size, unit = next((step for step in STEPS if whole >= step[0]), STEPS[-1])
    return f"{whole // size} {unit}"


def relative(moment: datetime | None, now: datetime) -> str:
    """A moment as seen from `now`: `3 min ago`, `in 2 h`; a dash for None."""
    if moment is None:
        return "–"
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def moment(value: datetime) -> str:
    """A moment in UTC to the second: `2026-11-29 16:43:05Z`."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def later(value: datetime, seconds: float) -> datetime:
    """The moment so many seconds behind another."""
    return value + timedelta(seconds=seconds)


def count(value: int) -> str:
    """A number with its thousands apart, by a space that does not break."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def states(counts: dict[str, int]) -> str:
    """States with how many are in each: `active 12, gone 1`."""
    return ", ".join(f"{state} {count(number)}" for state, number in sorted(counts.items()))


def short_name(name: str) -> str:
    """The end of a source's name by which people know it: `acme/rocket` of an address or a path, else all of it."""
    scheme, _, rest = name.removesuffix(".git").rpartition("://")
    path = rest.partition("/")[2] if scheme else rest.replace(":", "/")
    parts = [part for part in path.split("/") if part]
    is_long = bool(scheme) or len(parts) > 2
    return "/".join(parts[-2:]) if is_long and parts else name
