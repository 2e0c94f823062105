"""Deliveries: the messages that this process has taken from Redis and not settled yet, and the only way to and from there.

They belong to the process, not to a connection: while Redis is away tasks go on, what they settle is owed and paid when it
is back, and nothing that runs is given to somebody else. Keys and their content are kombu's, so that a worker of stock
Celery may take over what this one leaves, and the other way round. Every
call has a deadline, and under gevent none holds the hub.
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

from worker_app import telemetry

CONNECTIONS = 4  # the consumer's, and one for who gives back, renews or sweeps at the same time
ANSWER_SECONDS = 5.0  # of Redis; a call that has no answer by then is asked for again
MOST_AT_ONCE = 100  # messages of one script: it holds all of Redis while it runs
RENEWALS = 4  # within one visibility timeout, so that three may be lost
SCRIPTS = ("exchange", "restore", "renew")

ListsOf = Callable[[dict[str, Any], str, str], Sequence[str]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that was taken."""

    list_key: str  # where it stood
    text: str  # as it stood there, JSON


@dataclass(frozen=True, slots=True)
class Keys:
    """kombu's keys of the messages that are taken and not settled."""

    unacked: str = "unacked"
    index: str = "unacked_index"


class Deliveries:
    """What one process has taken. `open` comes first; then every method may be called from any greenlet."""

    def __init__(self) -> None:
        self.bell = threading.Event()  # rings when who waits for messages should look again
        self.is_taking = True
        self.is_over = False  # nobody waits for messages any more
        self.last_taken_at = time.monotonic()
        self._keys = Keys()
        self._client: redis.Redis | None = None
        self._scripts: dict[str, Any] = {}
        self._held: dict[str, Delivery] = {}
        self._owed: dict[str, None] = {}  # settled tags of which Redis does not know, in order
        self._returning: dict[str, bool] = {}  # held tags that are to be put back; whether as the next ones
        self._call = 0
        self._name = uuid4().hex
        self._is_answer_lost = False
        self._renewed_at = time.monotonic()
        self._away_since: float | None = None
        self._turn = (
            threading.RLock()
        )  # one exchange at a time: the next one must know whether the last one was answered

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

    @property
    def _answer_key(self) -> str:
        return f"{self._keys.unacked}_answer.{self._name}"

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
        most = min(most, MOST_AT_ONCE) if self.is_taking else 0
        if not most and not self._is_answer_lost:
            self.pay()
            return []
        with self._turn, self._noted():
            self._return()
            found = self._recall() if self._is_answer_lost else self._take(lists, most, life_seconds)
            self._held.update(found)
        if found:
            self.last_taken_at = time.monotonic()
        if not self.is_taking:
            self._put_back(found)
            return []
        return found

    def pay(self) -> None:
        """Tell Redis all that it does not know. Raises RedisError; it is owed still then."""
        with self._turn, self._noted():
            if self._is_answer_lost and not self.is_taking:
                found = self._recall()
                self._held.update(found)
                self._put_back(found)
            self._return()
            while settled := list(self._owed)[:MOST_AT_ONCE]:
                self._run("exchange", [self._keys.unacked, self._keys.index, self._answer_key], [0, 0, 1, *settled])
                self._forget(settled)

    def _take(self, lists: Sequence[str], most: int, life_seconds: int) -> list[tuple[str, Delivery]]:
        settled = list(self._owed)[:MOST_AT_ONCE]
        self._call += 1
        self._is_answer_lost = True
        keys = [self._keys.unacked, self._keys.index, self._answer_key, *lists]
        answer = self._run("exchange", keys, [most, self._call, life_seconds, *settled])
        self._is_answer_lost = False
        self._forget(settled)
        found = []
        for list_key, tag, message in zip(*[iter(map(_text, answer))] * 3, strict=True):
            if tag:
                found.append((tag, Delivery(list_key, message)))
            else:
                log.error("message.unreadable", queue=list_key, kept_in=f"{list_key}:unreadable")
        return found

    def _put_back(self, found: Sequence[tuple[str, Delivery]]) -> None:
        for tag, _ in found:
            self.give_back_later(tag, is_next=True)

    def _forget(self, settled: Sequence[str]) -> None:
        for tag in settled:
            self._owed.pop(tag, None)

    def _run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return self._scripts[script](keys=keys, args=arguments)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """One line when Redis goes away and one when it is back, however many calls notice."""
        try:
            yield
        except redis.RedisError as error:
            if self._away_since is None:
                self._away_since = time.monotonic()
                log.warning("broker.away", error=type(error).__name__, reason=str(error)[:200], held=self.held)
            raise
        if self._away_since is not None:
            log.info("broker.back", away_seconds=round(time.monotonic() - self._away_since, 1), held=self.held)
            self._away_since = None

    def _recall(self) -> list[tuple[str, Delivery]]:
        """What the last exchange took, if it ran and only its answer was lost."""
        answer = self.client.get(self._answer_key)
        call, names = json.loads(_text(answer)) if answer else ("0", [])
        pairs = list(zip(*[iter(names)] * 2, strict=True)) if int(call) == self._call else []
        notes = self.client.hmget(self._keys.unacked, [tag for _, tag in pairs]) if pairs else []
        self._is_answer_lost = False
        return [
            (tag, Delivery(list_key, json.dumps(json.loads(_text(note))[0])))
            for (list_key, tag), note in zip(pairs, notes, strict=True)
            if note and tag not in self._held
        ]

    def hold(self, tag: str, delivery: Delivery) -> None:
        """Take charge of a message that was taken another way and is noted in unacked."""
        self._held[tag] = delivery

    def settle(self, tag: str) -> None:
        """This message is done. Redis hears of it with the next exchange."""
        if self._held.pop(tag, None) is not None:
            self._returning.pop(tag, None)
            self._owed[tag] = None
            self._ring()

    def give_back_later(self, tag: str, *, is_next: bool = False) -> None:
        """Put this message back with the next exchange, marked redelivered: as the last one of its list, or the next."""
        if tag in self._held:
            self._returning[tag] = is_next
            self._ring()

    def set_aside(self, tag: str) -> None:
        """Move a message that nobody can work on out of the way, to LIST:unreadable, with the next exchange."""
        if delivery := self._held.get(tag):
            self._held[tag] = Delivery(f"{delivery.list_key}:unreadable", delivery.text)
            self.give_back_later(tag)

    def _return(self) -> None:
        for is_next in (True, False):
            tags = [tag for tag, wanted in self._returning.items() if wanted is is_next]
            for part in _parts(tags):
                rows = [(tag, self._held[tag]) for tag in part if tag in self._held]
                self._restore([(tag, item.list_key, _redelivered(item.text)) for tag, item in rows], is_next=is_next)
                for tag in part:
                    self._returning.pop(tag, None)
                    self._held.pop(tag, None)

    def give_back_all(self) -> None:
        """Put back all that is held, with the next exchange."""
        self._returning = dict.fromkeys(self._held, True) | self._returning

    def tend(self, visibility_seconds: float, lists_of: ListsOf) -> int:
        """Pay, renew what is held when it is time, and sweep. Gives the number of messages that were put back.

        Call it every few seconds. `lists_of` says for (message, exchange, routing key) which lists it goes to. Raises
        RedisError.
        """
        self.pay()
        if time.monotonic() - self._renewed_at >= visibility_seconds / RENEWALS:
            self.renew()
            self._renewed_at = time.monotonic()
        if count := self.sweep(visibility_seconds, lists_of):
            telemetry.WORKER_RECOVERED.inc(count)
            log.warning("messages.recovered", count=count, unsettled_for_seconds=visibility_seconds)
        return count

    def _ring(self) -> None:
        if not self.bell.is_set():
            self.bell.set()

    def renew(self) -> None:
        """Say that all that is held is still being worked on. Raises RedisError."""
        for part in _parts(list(self._held)):
            self._run("renew", [self._keys.index], part)

    def sweep(self, visibility_seconds: float, lists_of: ListsOf) -> int:
        """Put back what nobody has settled or renewed for `visibility_seconds`, whoever took it. Raises RedisError."""
        seconds, micros = self.client.time()
        until = seconds + micros / 1e6 - visibility_seconds
        done = 0
        while tags := [tag for tag in self._older_than(until) if tag not in self._held]:
            found = []
            for tag, note in zip(tags, self.client.hmget(self._keys.unacked, tags), strict=True):
                found += self._restorable(tag, note, lists_of)
            done += self._restore(found, is_next=True) if found else 0
            stale = set(tags) - {tag for tag, _, _ in found}
            if stale:
                self.client.zrem(self._keys.index, *stale)
        return done

    def _older_than(self, until: float) -> list[str]:
        found: Any = self.client.zrangebyscore(self._keys.index, "-inf", until, 0, MOST_AT_ONCE)
        return [_text(tag) for tag in found]

    def _restorable(self, tag: str, note: bytes | str | None, lists_of: ListsOf) -> list[tuple[str, str, str]]:
        if note is None:
            return []
        message, exchange, routing_key = json.loads(note)
        return [(tag, list_key, _redelivered(message)) for list_key in lists_of(message, exchange, routing_key)]

    def _restore(self, rows: Sequence[tuple[str, str, str]], *, is_next: bool) -> int:
        """Move rows of (tag, list, text) from unacked to their lists."""
        arguments = [text for tag, _, message in rows for text in (tag, message)]
        keys = [self._keys.unacked, self._keys.index, *(list_key for _, list_key, _ in rows)]
        return int(self._run("restore", keys, ["RPUSH" if is_next else "LPUSH", *arguments]))


def _redelivered(message: str | dict[str, Any]) -> str:
    """The message, marked as kombu marks one that was delivered before."""
    content: dict[str, Any] = json.loads(message) if isinstance(message, str) else message
    if isinstance(content.get("headers"), dict):
        content["headers"]["redelivered"] = True
    info = content["properties"].get("delivery_info")
    if isinstance(info, dict):
        info["redelivered"] = True
    return json.dumps(content)


def _parts(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + MOST_AT_ONCE] for start in range(0, len(items), MOST_AT_ONCE))


def _source(name: str) -> str:
    return resources.files("worker_app.worker").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
