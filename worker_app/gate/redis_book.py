"""The book in Redis: four scripts over two keys. Every number is Redis's own time; grants and releases are tied to the lease.

A call is repeated once where the connection was cut, since the same lease gets the same grant. One that ran into its timeout
is not: whether it was heard is unknown, and the caller has waited long enough.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha1
from importlib import resources
from typing import Any

import redis
from redis import exceptions

from worker_app.gate.book import NONE, Ask, Granted, Held, Known, Learned, Seen, Told, Waits
from worker_app.gate.key import GateKey, Reason

MOST_AT_ONCE = 500  # keys in one trip
_INTEGER = re.compile(r"-?[0-9]{1,18}")
PREFIX = "gate1:"  # 1 is the layout of the keys: another layout is another prefix
CLOCK = resources.files("worker_app.gate").joinpath("_clock.lua").read_text()
_SHARED = resources.files("worker_app.gate").joinpath("_state.lua").read_text()


def state_key(key: GateKey) -> str:
    """The hash that holds what is known of a key."""
    return f"{PREFIX}{key.text}:s"


def leases_key(key: GateKey) -> str:
    """The sorted set of the requests of a key that are under way."""
    return f"{PREFIX}{key.text}:l"


class Script:
    """One script, with what it shares before it."""

    def __init__(self, name: str, clock: str) -> None:
        self.name = name
        self.text = "\n".join((clock, _SHARED, resources.files("worker_app.gate").joinpath(f"{name}.lua").read_text()))
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class RedisBook:
    """Implements `book.Book`. `on_trip` is told of every answer: which script, and how many seconds it took.

    `clock` and `moment` are for tests that set the time: the script's clock and its last argument.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        on_trip: Callable[[str, float], None] = lambda *_: None,
        clock: str = CLOCK,
        moment: Callable[[], Iterable[object]] = tuple,
    ) -> None:
        self._client = client
        self._on_trip = on_trip
        self._moment = moment
        self._acquire, self._observe, self._sync, self._clear = (
            Script(name, clock) for name in ("acquire", "observe", "sync", "admin")
        )

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Grant the request or say how long to wait. Raises redis.RedisError."""
        arguments = acquire_arguments(ask, is_repeat=False)
        return answer_of(
            self._run(self._acquire, key, arguments, lambda: acquire_arguments(ask, is_repeat=True))[0], ask
        )

    def observe(self, key: GateKey, told: Told) -> Learned:
        """End the lease and learn from the reply. Raises redis.RedisError."""
        row, was_cut = self._run(self._observe, key, observe_arguments(told))
        return Learned(
            was_live=bool(row[0]) or was_cut,
            left_ms=int(row[1]),
            now_ms=int(row[2]),
            cleared=int(row[3]),
            stepped_ms=int(row[4]),
            bucket=_text(row[5]),
            fails=int(row[6]),
            opened=int(row[7]),
            has_leaked=bool(row[8]),
            born=int(row[9]),
        )

    def sync(
        self, key: GateKey, epoch: int = 0, known: tuple[Known, ...] = (), leases: Mapping[str, int] = NONE
    ) -> Seen:
        """Add the windows that the caller knows and the leases that it holds, and tell all that is known.

        Raises redis.RedisError.
        """
        return seen_of(self._run(self._sync, key, sync_arguments(epoch, known, leases))[0])

    def clear(self, key: GateKey, bucket: str) -> int:
        """Forget the windows and quotas of a bucket, `*` of all; returns how many were open. Raises redis.RedisError."""
        return int(self._run(self._clear, key, [bucket])[0])

    def every_key(self) -> list[GateKey]:
        """Every key of which something is known. Raises redis.RedisError."""
        names = self._client.scan_iter(match=f"{PREFIX}{{*}}:s", count=MOST_AT_ONCE)
        found = {key for name in names if (key := key_of(_text(name))) is not None}
        return sorted(found, key=lambda key: key.text)

    def every_state(self) -> list[tuple[GateKey, Seen]]:
        """The same, with what is known of each, in few trips; without what somebody else wrote under such a name.

        Raises redis.RedisError.
        """
        keys = self.every_key()
        self._client.script_load(self._sync.text)
        rows = [row for at in range(0, len(keys), MOST_AT_ONCE) for row in self._read(keys[at : at + MOST_AT_ONCE])]
        return [(key, seen_of(row)) for key, row in zip(keys, rows, strict=True) if row is not None]

    def _read(self, keys: list[GateKey]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for key in keys:
                every = [state_key(key), leases_key(key), *sync_arguments(0, (), NONE), *self._moment()]
                pipe.evalsha(self._sync.digest, 2, *every)
            rows = pipe.execute(raise_on_error=False)
        for row in rows:
            if isinstance(row, Exception) and not _is_foreign(row):
                raise row
        return [None if isinstance(row, Exception) else row for row in rows]

    def _run(
        self, script: Script, key: GateKey, arguments: list[Any], again: Callable[[], list[Any]] | None = None
    ) -> tuple[Any, bool]:
        """What the script answers, and whether it was asked twice, the second time with the arguments that `again` gives."""
        keys, began, was_cut = [state_key(key), leases_key(key)], time.monotonic(), False
        try:
            row = self._evaluate(script, [*keys, *arguments, *self._moment()])
        except exceptions.ConnectionError as error:
            if not was_reset(error):
                raise
            row, was_cut = self._evaluate(script, [*keys, *(again() if again else arguments), *self._moment()]), True
        self._on_trip(script.name, time.monotonic() - began)
        return row, was_cut

    def _evaluate(self, script: Script, every: list[Any]) -> Any:
        try:
            return self._client.evalsha(script.digest, 2, *every)
        except exceptions.NoScriptError:
            return self._client.eval(script.text, 2, *every)


def _is_foreign(error: Exception) -> bool:
    """Whether a key is of another type, or holds what is no number: the script fails on it, and on it alone."""
    return isinstance(error, exceptions.ResponseError) and ("WRONGTYPE" in str(error) or "user_script" in str(error))


def was_reset(error: exceptions.ConnectionError) -> bool:
    """Whether a connection that stood was cut. redis-py tells it by the message, or by the error beneath its own."""
    beneath = error.__cause__ or error.__context__
    return isinstance(beneath, ConnectionResetError | BrokenPipeError) or "closed by server" in str(error)


def key_of(name: str) -> GateKey | None:
    """The key whose state is kept under this name; None where it is not one of ours."""
    parts = name[len(PREFIX) + 1 : -len("}:s")].split("|")
    try:
        return GateKey(*parts)
    except (TypeError, ValueError):
        return None


def sync_arguments(epoch: int, known: tuple[Known, ...], leases: Mapping[str, int]) -> list[Any]:
    """The arguments of sync.lua in its order."""
    return [epoch, *_known_arguments(known), len(leases), *(part for item in leases.items() for part in item)]


def seen_of(row: list[Any]) -> Seen:
    """What sync.lua answered. A field that is no number is none: somebody else wrote it."""
    parts = [_text(part) for part in row[4:]]
    told = zip(parts[::2], parts[1::2], strict=True)
    fields = {name: value for name, value in told if name.startswith("y:") or _INTEGER.fullmatch(value)}
    fields.pop("k", None)  # of Redis alone: when to say anew how long the key lives
    return Seen(int(row[0]), int(row[1]), int(row[2]), int(row[3]), fields)


def acquire_arguments(ask: Ask, *, is_repeat: bool) -> list[Any]:
    """The arguments of acquire.lua in its order."""
    held = ask.held or Held("", -1, -1)
    arguments: list[Any] = [ask.lease, ask.lease_ms, int(ask.priority), ask.max_delay_ms, ask.max_conc, ask.ramp_ms]
    arguments += [ask.guard_ms, ask.epoch, int(is_repeat), held.bucket, held.generation, held.ticket, len(ask.buckets)]
    for bucket in ask.buckets:
        policy = bucket.policy
        arguments += [bucket.name, policy.model, bucket.cost, round(policy.period * 1000)]
        arguments += [round(policy.gap * 1000), policy.burst, int(bucket.is_silent)]
    return [*arguments, *_known_arguments(ask.known)]


def answer_of(row: list[Any], ask: Ask) -> Granted | Waits:
    """What acquire.lua answered."""
    if row[0]:
        ended = tuple(name for name in _text(row[8]).split(",") if name)
        remaining = None if row[3] < 0 else int(row[3])
        return Granted(
            delay_ms=int(row[1]),
            now_ms=int(row[2]),
            remaining=remaining,
            cleared=int(row[4]),
            stepped_ms=int(row[5]),
            limit=int(row[6]),
            live=int(row[7]),
            ended=ended,
            room=int(row[9]),
            born=int(row[10]),
        )
    bucket = _text(row[6])
    return Waits(
        wait_ms=int(row[1]),
        now_ms=int(row[2]),
        reason=Reason(_text(row[3])),
        cleared=int(row[4]),
        stepped_ms=int(row[5]),
        bucket=bucket,
        left_ms=int(row[7]),
        held=Held(bucket, int(row[9]), int(row[8])) if row[8] >= 0 else ask.held,
        text=_text(row[10]),
        fails=int(row[11]),
        born=int(row[12]),
    )


def observe_arguments(told: Told) -> list[Any]:
    """The arguments of observe.lua in its order."""
    signal = told.signal
    arguments: list[Any] = [told.lease, told.sent_ms, signal.kind.value, signal.bucket, _milliseconds(signal.after)]
    arguments += [_number(signal.after_at_ms), told.text, told.guard_ms, told.default_after_ms, told.max_conc]
    arguments.append(len(signal.quotas))
    for quota in signal.quotas:
        policy = told.policies[quota.bucket]
        arguments += [quota.bucket, policy.model, round(policy.period * 1000), _number(quota.limit)]
        arguments += [_number(quota.remaining), _milliseconds(quota.reset_in), _number(quota.reset_at_ms)]
    return [*arguments, len(told.buckets), *told.buckets]


def _known_arguments(known: tuple[Known, ...]) -> list[Any]:
    arguments: list[Any] = [len(known)]
    for window in known:
        arguments += [window.bucket, window.left_ms, window.text, int(window.is_told)]
    return arguments


def _milliseconds(seconds: float | None) -> int:
    return -1 if seconds is None else round(seconds * 1000)


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
