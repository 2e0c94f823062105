"""Deliveries: the messages that this process has taken from Redis and not settled yet, and the only way to and from there.

They belong to the process, not to a connection: while Redis is away tasks go on, what they settle is owed and paid when it
is back, and nothing that runs is given to somebody else. Keys and their content are kombu's, so that a worker of stock
Celery may take over what this one leaves, and the other way round; one key more tells which process a message belongs to.
Every call has a deadline, and under gevent none holds the hub.
Page: https://docs.celeryq.dev/projects/kombu/en/stable/reference/kombu.transport.redis.html
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any
from uuid import uuid4

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker_app import secret, telemetry

CONNECTIONS = 4  # the consumer's, and one for who gives back, renews or sweeps at the same time
ANSWER_SECONDS = 5.0  # of Redis; a call that has no answer by then is asked for again
MOST_AT_ONCE = 100  # messages of one script: it holds all of Redis while it runs
MOST_TAKEN = (
    4  # messages at once: more would save a hundredth of a millisecond each, and pile a burst up in one idle worker
)
SILENT_SECONDS = 300.0  # a process that has not renewed what it holds for so long is dead
GRACE_SECONDS = 30.0  # after an outage of Redis, in which nobody could renew: six rounds for everybody to do so
RENEWALS = 4  # before a process counts as dead, so that three may be lost
SCRIPTS = ("exchange", "hold", "restore", "renew")
UNREADABLE = ":unreadable"  # after the name of a list: the messages of it that nobody can work on

ListsOf = Callable[[dict[str, Any], str, str], Sequence[str]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that was taken."""

    list_key: str  # where it stood
    text: bytes  # as it stood there, JSON


@dataclass(frozen=True, slots=True)
class Keys:
    """kombu's keys of the messages that are taken and not settled."""

    unacked: str = "unacked"
    index: str = "unacked_index"

    @property
    def owners(self) -> str:
        """Which process holds which of them: kombu knows no owner, and would give away what another one has since."""
        return f"{self.unacked}_owner"


@dataclass(frozen=True, slots=True)
class _Return:
    """A message on its way back."""

    tag: str
    lists: Sequence[str]
    text: bytes
    score: float = 0.0  # in the index, when a sweeper looked


class Deliveries:
    """What one process has taken. `open` comes first; then every method may be called from any greenlet or thread."""

    def __init__(self, silent_seconds: float = SILENT_SECONDS) -> None:
        self.silent_seconds = silent_seconds
        self.bell = threading.Event()  # rings when who waits for messages should look again
        self.is_taking = True
        self.is_over = False  # nobody waits for messages any more
        self.last_taken_at = time.monotonic()
        self._keys = Keys()
        self._client: redis.Redis | None = None
        self._scripts: dict[str, Any] = {}
        self._held: dict[str, Delivery] = {}  # oldest first
        self._owed: dict[str, None] = {}  # settled tags of which Redis does not know, in order
        self._returning: dict[str, bool] = {}  # held tags that are to be put back; whether as the next ones
        self._aside: set[str] = set()  # held tags that nobody can work on
        self._wrong_lists: set[str] = set()
        self._call = 0
        self._process = uuid4().hex
        self._is_answer_lost = False
        self._renewed_at = time.monotonic()
        self._away_since: float | None = None
        self._well_since = time.monotonic()  # Redis has answered from then on
        self._turn = threading.RLock()  # one exchange at a time: the next one must know whether the last was answered

    def open(self, connection_parameters: Mapping[str, Any], keys: Keys) -> None:
        """Use Redis at these parameters (of redis-py's ConnectionPool) from now on. Connects when it is first asked."""
        if self._client is not None:
            return
        self._keys = keys
        own = {
            "max_connections": CONNECTIONS,
            "timeout": ANSWER_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
            # never twice by itself: a script may have run although its answer is lost, `_recall` finds out
            "retry": Retry(NoBackoff(), 0),
            "retry_on_error": [],
        }
        self._client = redis.Redis(connection_pool=redis.BlockingConnectionPool(**{**connection_parameters, **own}))
        self._scripts = {name: self._client.register_script(_source(name)) for name in SCRIPTS}

    @property
    def client(self) -> redis.Redis:
        """The client of these deliveries. Raises RuntimeError before `open`."""
        if self._client is None:
            raise RuntimeError("the deliveries are not open: no consumer has asked for messages yet")
        return self._client

    @property
    def held(self) -> int:
        """Messages that were taken and not settled: those that run, wait for a slot or wait for their time."""
        return len(self._held)

    def holds(self, tag: str) -> bool:
        """Whether this message was taken and not settled."""
        return tag in self._held

    @property
    def owed(self) -> int:
        """Messages that are settled or to be put back, and of which Redis does not know yet."""
        return len(self._owed) + len(self._returning)

    @property
    def is_open(self) -> bool:
        """Whether this process consumes."""
        return self._client is not None

    def stop_taking(self) -> None:
        """Take nothing any more; what is on its way is put back."""
        self.is_taking = False
        self.bell.set()

    def finish(self) -> None:
        """Let nobody wait any more: the worker ends."""
        self.is_taking = False
        self.is_over = True
        self.bell.set()

    def exchange(self, lists: Sequence[str], most: int, *, life_seconds: int) -> list[tuple[str, Delivery]]:
        """Pay what is owed and take up to `most` messages from `lists`, as (tag, delivery) in order: the consumer's call.

        Raises RedisError when Redis does not answer; nothing is lost then, ask again.
        """
        most = min(most, MOST_TAKEN) if self.is_taking else 0
        if not most and not self._is_answer_lost:
            self.pay()
            return []
        with self._turn, self._noted():
            self._return()
            found = self._recall() if self._is_answer_lost else self._take(lists, most, life_seconds)
            self._held.update(found)
        if found:
            self.last_taken_at = time.monotonic()
            telemetry.WORKER_LAST_RECEIVED.set_to_current_time()
        if not self.is_taking:
            self._put_back(found)
            return []
        return found

    def pay(self) -> None:
        """Tell Redis all that it does not know. Raises RedisError; it is owed still then."""
        if not self.owed and not self._is_answer_lost:
            return
        with self._turn, self._noted():
            if self._is_answer_lost and not self.is_taking:
                found = self._recall()
                self._held.update(found)
                self._put_back(found)
            self._return()
            while settled := list(self._owed)[:MOST_AT_ONCE]:
                self._exchange((), settled, most=0, life_seconds=1)

    def _take(self, lists: Sequence[str], most: int, life_seconds: int) -> list[tuple[str, Delivery]]:
        settled = list(self._owed)[:MOST_AT_ONCE]
        self._call += 1
        self._is_answer_lost = True
        rows = self._exchange(lists, settled, most=most, life_seconds=life_seconds)
        self._is_answer_lost = False
        found = []
        for list_key, tag, message in rows:
            if tag in settled:
                self._owed[tag] = None  # it came back meanwhile, and is done
            elif tag and tag not in self._held:  # what runs here and came back is ours again, and runs on
                found.append((tag, Delivery(list_key, message)))
            elif not tag and message:
                log.error("message.unreadable", queue=list_key, kept_in=list_key + UNREADABLE)
            elif not tag and list_key not in self._wrong_lists:
                self._wrong_lists.add(list_key)
                log.error("queue.is_no_list", queue=list_key, remedy="look at the key's type; nothing is taken from it")
        return found

    def _exchange(
        self, lists: Sequence[str], settled: Sequence[str], *, most: int, life_seconds: int
    ) -> list[tuple[str, str, bytes]]:
        answer = self._scripts["exchange"](
            keys=[*self._noting_keys, self._answer_key, *lists],
            args=[self._process, most, self._call, life_seconds, *settled],
        )
        for tag in settled:
            self._owed.pop(tag, None)
        parts = [iter(answer)] * 3
        return [(_text(key), _text(tag), message) for key, tag, message in zip(*parts, strict=True)]

    def _recall(self) -> list[tuple[str, Delivery]]:
        """What the last exchange took, if it ran and only its answer was lost."""
        answer = self.client.get(self._answer_key)
        call, rows = json.loads(answer) if answer else ("0", [])
        if int(call) != self._call:
            rows = []
        tags = [tag for _, tag, _ in rows]
        notes: Any = self.client.hmget(self._keys.unacked, tags) if tags else []
        owners: Any = self.client.hmget(self._keys.owners, tags) if tags else []
        self._is_answer_lost = False
        return [
            (tag, Delivery(list_key, note[1 : 1 + length]))
            for (list_key, tag, length), note, owner in zip(rows, notes, owners, strict=True)
            if note and _text(owner or "") == self._process and tag not in self._held and tag not in self._owed
        ]

    def hold(self, tag: str, delivery: Delivery, exchange: str, routing_key: str) -> None:
        """Take charge of a message that kombu has taken out of its list, and note it. One that cannot be noted runs all the same:
        it is in no list any more.
        """
        note = b"[%s,%s,%s]" % (delivery.text, json.dumps(exchange).encode(), json.dumps(routing_key).encode())
        self._held[tag] = delivery
        try:
            self._scripts["hold"](keys=self._noting_keys, args=[self._process, tag, note])
        except redis.RedisError as error:
            log.warning("message.unnoted", queue=delivery.list_key, error=type(error).__name__)

    def settle(self, tag: str) -> None:
        """This message is done. Redis hears of it with the next exchange."""
        if self._held.pop(tag, None) is not None:
            self._returning.pop(tag, None)
            self._owed[tag] = None
            if self._away_since is not None:
                telemetry.WORKER_ACK_FAILURES.inc()
            self._ring()

    def give_back_later(self, tag: str, *, is_next: bool = False) -> None:
        """Put this message back with the next exchange, marked redelivered: as the last one of its list, or the next."""
        if tag in self._held:
            self._returning[tag] = is_next
            self._ring()

    def set_aside(self, tag: str) -> None:
        """Move a message that nobody can work on out of the way, as it is, to LIST:unreadable, with the next exchange."""
        if tag in self._held:
            self._aside.add(tag)
            self.give_back_later(tag)

    def give_back_all(self) -> None:
        """Put back all that is held, with the next exchange."""
        self._returning = dict.fromkeys(self._held, True) | self._returning

    def _put_back(self, found: Sequence[tuple[str, Delivery]]) -> None:
        for tag, _ in found:
            self.give_back_later(tag, is_next=True)

    def _return(self) -> None:
        for is_next in (True, False):
            tags = [tag for tag, wanted in self._returning.items() if wanted is is_next]
            if is_next:
                tags.reverse()  # the oldest goes last, to be the first of them that is taken
            for part in _parts(tags):
                rows = [self._way_back(tag, self._held[tag]) for tag in part if tag in self._held]
                self._restore(rows, is_next=is_next, process=self._process)
                for tag in part:
                    self._returning.pop(tag, None)
                    self._held.pop(tag, None)
                    self._aside.discard(tag)

    def _way_back(self, tag: str, delivery: Delivery) -> _Return:
        if tag in self._aside:
            return _Return(tag, [delivery.list_key + UNREADABLE], delivery.text)
        return _Return(tag, [delivery.list_key], _redelivered(delivery.text))

    def tend(self, visibility_seconds: float, lists_of: ListsOf) -> int:
        """Pay, renew what is held when it is time, and sweep. Gives the number of messages that were put back.

        A process of ours that has renewed nothing for `silent_seconds` is dead, and its messages come back then; who renews
        nothing anyway, a worker of stock Celery, has the visibility timeout. Call it every few seconds. `lists_of` says for
        (message, exchange, routing key) which lists it goes to. Raises RedisError.
        """
        self.pay()
        silent_seconds = min(self.silent_seconds, visibility_seconds)
        with self._noted():
            if time.monotonic() - self._renewed_at >= silent_seconds / RENEWALS:
                self.renew()
                self._renewed_at = time.monotonic()
            count = self.sweep(visibility_seconds, lists_of)
            if silent_seconds < visibility_seconds and self._could_all_renew:
                count += self.sweep(silent_seconds, lists_of, of_ours=True)
        if count:
            telemetry.WORKER_RECOVERED.inc(count)
            log.warning("messages.recovered", count=count, unsettled_for_seconds=silent_seconds)
        return count

    @property
    def _could_all_renew(self) -> bool:
        return self._away_since is None and time.monotonic() - self._well_since >= GRACE_SECONDS

    def renew(self) -> None:
        """Say that all that is held is still being worked on. Raises RedisError."""
        for part in _parts(list(self._held)):
            self._scripts["renew"](keys=[self._keys.index, self._keys.owners], args=[self._process, *part])

    def sweep(self, unrenewed_seconds: float, lists_of: ListsOf, *, of_ours: bool = False) -> int:
        """Put back what nobody has settled or renewed for so long, whoever took it, or only what a process of ours did.

        Raises RedisError.
        """
        seconds, micros = self.client.time()
        until = seconds + micros / 1e6 - unrenewed_seconds
        done = passed = 0
        while page := self._older_than(until, passed):
            stale = {tag: score for tag, score in page if tag not in self._held}
            if of_ours and stale:
                owners: Any = self.client.hmget(self._keys.owners, list(stale))
                stale = {tag: score for (tag, score), owner in zip(stale.items(), owners, strict=True) if owner}
            rows = self._found(stale, lists_of)
            moved, refused = self._restore(rows, is_next=True, process="") if rows else (0, 0)
            done += moved
            passed += len(page) - len(stale) + refused
        return done

    def _older_than(self, until: float, passed: int) -> list[tuple[str, float]]:
        """A page of what is stale, the newest first: so the oldest is put back last, and is the next one to be taken."""
        found: Any = self.client.zrevrangebyscore(
            self._keys.index, until, "-inf", passed, MOST_AT_ONCE, withscores=True
        )
        return [(_text(tag), score) for tag, score in found]

    def _found(self, stale: Mapping[str, float], lists_of: ListsOf) -> list[_Return]:
        """The ways back of these tags. One without a message leaves the index; one that nobody can read is put aside."""
        rows = []
        notes: Any = self.client.hmget(self._keys.unacked, list(stale)) if stale else ()
        for tag, note in zip(stale, notes, strict=True):
            if note is None:
                rows.append(_Return(tag, [], b"", stale[tag]))
                continue
            try:
                message, exchange, routing_key = json.loads(note)
                lists, text = lists_of(message, exchange, routing_key), _redelivered(message)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                lists, text = [], _message_of(note) or note
            if not lists:
                lists = [self._keys.unacked + UNREADABLE]
                log.error("message.unreadable", kept_in=lists[0])
            rows.append(_Return(tag, lists, text, stale[tag]))
        return rows

    def _restore(self, rows: Sequence[_Return], *, is_next: bool, process: str) -> tuple[int, int]:
        """Move messages from unacked to their lists; gives the numbers of the moved and of those that a list has refused."""
        arguments = [part for row in rows for part in (row.tag, repr(row.score), row.text, len(row.lists))]
        moved, refused = self._scripts["restore"](
            keys=[*self._noting_keys, *(list_key for row in rows for list_key in row.lists)],
            args=["RPUSH" if is_next else "LPUSH", process, *arguments],
        )
        return int(moved), int(refused)

    @property
    def _noting_keys(self) -> list[str]:
        return [self._keys.unacked, self._keys.index, self._keys.owners]

    @property
    def _answer_key(self) -> str:
        return f"{self._keys.unacked}_answer.{self._process}"

    def _ring(self) -> None:
        if not self.bell.is_set():
            self.bell.set()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """One line when Redis goes away and one when it is back, however many calls notice."""
        try:
            yield
        except redis.RedisError as error:
            if self._away_since is None:
                self._away_since = time.monotonic()
                telemetry.WORKER_ACK_FAILURES.inc(len(self._owed))
                log.warning(
                    "broker.away", error=type(error).__name__, reason=secret.sanitized(str(error), 200), held=self.held
                )
            raise
        if self._away_since is not None:
            log.info("broker.back", away_seconds=round(time.monotonic() - self._away_since, 1), held=self.held)
            self._away_since = None
            self._well_since = time.monotonic()


def _redelivered(message: bytes | dict[str, Any]) -> bytes:
    """The message, marked as kombu marks one that was delivered before; as it is when nobody can read it."""
    try:
        content: dict[str, Any] = json.loads(message) if isinstance(message, bytes) else message
        if isinstance(content.get("headers"), dict):
            content["headers"]["redelivered"] = True
        info = content["properties"].get("delivery_info")
        if isinstance(info, dict):
            info["redelivered"] = True
        return json.dumps(content).encode()
    except (ValueError, RecursionError):
        return message if isinstance(message, bytes) else json.dumps(message).encode()


def _message_of(note: bytes) -> bytes:
    """The message in a note that cannot be read: what stands before exchange and routing key."""
    return note.removeprefix(b"[").rpartition(b',"')[0].rpartition(b',"')[0]


def _parts(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + MOST_AT_ONCE] for start in range(0, len(items), MOST_AT_ONCE))


def _source(name: str) -> str:
    return resources.files("worker_app.worker").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
