"""Limits: the quota of each credential and the secondary limits, enforced as GitHub describes them, and what ran into them.

https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

CORE, GRAPHQL = "core", "graphql"


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed. The defaults are GitHub's for a personal token; small windows suit tests and the demo."""

    core: int | None = 5000  # requests a window; None: no quota and no headers, as on an Enterprise host
    graphql: int | None = 5000  # points a window
    period: int = 3600  # seconds of a window, which begins on a whole second
    concurrency: int = 100  # requests at once, REST and GraphQL together
    points: int = 900  # of one REST endpoint in a minute
    graphql_points: int = 2000  # of GraphQL in a minute
    minute: float = 60.0  # seconds of that minute
    retry_after: int | None = 60  # seconds that a secondary refusal lasts and names; None: it names none, and lasts 60
    renews: bool = False  # a request that arrives while blocked begins the block anew
    reset_lag: float = 0.0  # seconds after the named reset during which the old window still refuses
    refusal_status: int = 403  # or 429


class Quota(NamedTuple):
    """The state of one bucket of one credential."""

    limit: int
    remaining: int
    used: int
    reset: int  # seconds since the epoch


@dataclass(slots=True)
class Episode:
    """One time that a bucket was closed, from its first refusal on. Times are seconds since the epoch."""

    credential: str
    bucket: str  # core, graphql; `*`: the whole key, a secondary limit
    opened_at: float
    until: float
    told_at: float | None = None  # when the first refusal left; what arrives later could have known
    refused: int = 0
    late: int = 0  # of these, how many arrived after `told_at`


@dataclass(slots=True)
class _Window:
    reset: int
    used: int = 0
    episode: Episode | None = None


@dataclass(slots=True)
class _Account:
    in_flight: int = 0
    windows: dict[str, _Window] = field(default_factory=dict)
    block: Episode | None = None
    recent: defaultdict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an arrival."""

    refused_by: Episode | None = None
    in_flight: int = 0

    @property
    def is_secondary(self) -> bool:
        """Whether a secondary limit refused it."""
        return self.refused_by is not None and self.refused_by.bucket == "*"


class Limits:
    """Counts every request. Not locked: the caller holds one lock around each call."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.episodes: list[Episode] = []
        self.accepted: Counter[str] = Counter()  # requests by bucket
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)

    def arrive(self, credential: str, bucket: str, endpoint: str, *, cost: int, points: int, now: float) -> Verdict:
        """A request has arrived. Whatever the verdict, `leave` ends it."""
        account = self._accounts[credential]
        account.in_flight += 1
        refused_by = self._secondary(account, credential, endpoint, points, now) or self._primary(
            account, credential, bucket, cost, now
        )
        if refused_by is None:
            self.accepted[bucket] += 1
        return Verdict(refused_by, account.in_flight)

    def leave(self, credential: str) -> None:
        """A request is over."""
        self._accounts[credential].in_flight -= 1

    def give_back(self, credential: str, bucket: str, cost: int) -> None:
        """It cost nothing after all: a 304."""
        if window := self._accounts[credential].windows.get(bucket):
            window.used -= cost

    def state(self, credential: str, bucket: str, now: float) -> Quota | None:
        """The state of a bucket; None where it has no quota."""
        limit = self._limit(bucket)
        if limit is None:
            return None
        window = self._window(self._accounts[credential], bucket, now)
        return Quota(limit, max(0, limit - window.used), window.used, window.reset)

    def close(self, credential: str, bucket: str, until: float, now: float) -> None:
        """Close a bucket, or with `*` the whole key, as if it had run into its limit."""
        account = self._accounts[credential]
        if bucket == "*":
            account.block = self._open(credential, "*", now, until)
        else:
            self._window(account, bucket, now).used = self._limit(bucket) or 0

    def _limit(self, bucket: str) -> int | None:
        return self.rules.graphql if bucket == GRAPHQL else self.rules.core

    def _secondary(self, account: _Account, credential: str, endpoint: str, points: int, now: float) -> Episode | None:
        block = account.block
        if block and now < block.until:
            if self.rules.renews:
                block.until = now + self._block_seconds()
            return _refuse(block, now)
        spent = account.recent[endpoint]
        while spent and spent[0][0] <= now - self.rules.minute:
            spent.popleft()
        most = self.rules.graphql_points if endpoint == GRAPHQL else self.rules.points
        if account.in_flight <= self.rules.concurrency and sum(each for _, each in spent) + points <= most:
            spent.append((now, points))
            return None
        account.block = self._open(credential, "*", now, now + self._block_seconds())
        return _refuse(account.block, now)

    def _primary(self, account: _Account, credential: str, bucket: str, cost: int, now: float) -> Episode | None:
        limit = self._limit(bucket)
        if limit is None:
            return None
        window = self._window(account, bucket, now)
        if window.used + cost <= limit:
            window.used += cost
            return None
        if window.episode is None:
            window.episode = self._open(credential, bucket, now, window.reset + self.rules.reset_lag)
        return _refuse(window.episode, now)

    def _window(self, account: _Account, bucket: str, now: float) -> _Window:
        found = account.windows.get(bucket)
        if found is None or now >= found.reset + self.rules.reset_lag:
            found = account.windows[bucket] = _Window(math.floor(now) + self.rules.period)
        return found

    def _block_seconds(self) -> float:
        return 60.0 if self.rules.retry_after is None else float(self.rules.retry_after)

    def _open(self, credential: str, bucket: str, now: float, until: float) -> Episode:
        self.episodes.append(Episode(credential, bucket, now, until))
        return self.episodes[-1]


def _refuse(episode: Episode, now: float) -> Episode:
    episode.refused += 1
    episode.late += episode.told_at is not None and now > episode.told_at
    return episode
