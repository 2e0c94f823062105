"""Seams: the product's own functions, wrapped from outside, so that this process can kill itself at one exact moment.

Nothing of the product knows. A function that is no longer there ends the process with a traceback, and a point that is
never reached fails the test that waits for it.
"""

import functools
import json
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from sqlalchemy import text

from tests.chaos.dispatch import failover
from tests.chaos.dispatch.points import POINTS
from worker_app.jobs import Message
from worker_app.store import batches, runs, schedules
from worker_app.store.postgres import Postgres, Transaction
from worker_app.sync import dispatch

COMMIT = b"Q" + struct.pack("!I", 11) + b"COMMIT\0"  # what libpq sends; the answer is never read
CLAIMS = {"plan": "9-planning", "finish": "9-finishing", "compute": "9-computing"}


@dataclass(slots=True)
class Open:
    """What will be reached when the transaction of this thread ends, as (point, subjects)."""

    before_commit: list[tuple[str, list[str]]] = field(default_factory=list)
    at_commit: list[tuple[str, list[str]]] = field(default_factory=list)
    after_commit: list[tuple[str, list[str]]] = field(default_factory=list)


class Seams:
    """Kills this process when it comes to `point` for the `passage`th time; `is_stopped` freezes it there instead.

    Before that it writes `mark`, so that a kill can be told from any other end.
    """

    def __init__(self, mark: Path, point: str | None, passage: int, *, is_stopped: bool = False) -> None:
        assert point is None or point in POINTS, point
        self.mark = mark
        self.point = point
        self.passage = passage
        self.is_stopped = is_stopped
        self._passed = 0
        self._lock = threading.RLock()
        self._open = threading.local()

    def is_reached(self, point: str) -> bool:
        """Whether this passage is the one, or a later one where nothing was found to do at that one."""
        if point != self.point:
            return False
        with self._lock:
            self._passed += 1
            return self._passed >= self.passage

    def end(self, subjects: Sequence[str], act: Callable[[], object] = lambda: None) -> None:
        """Leave the mark, do what belongs to the point, and be gone. Of several threads the first one does."""
        with self._lock:
            content = {"point": self.point, "pid": os.getpid(), "at": time.time(), "subjects": list(subjects)}
            self.mark.write_text(json.dumps(content))
            act()
            if not self.is_stopped:
                os.kill(os.getpid(), signal.SIGKILL)
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # of another thread it would come a moment later
            self.point = None

    def come_to(self, point: str, subjects: Sequence[str]) -> None:
        """Pass a point that has nothing of its own to do."""
        if self.is_reached(point):
            self.end(subjects)

    @property
    def current(self) -> Open:
        """The transaction of this thread."""
        stack: list[Open] = self._open.stack
        return stack[-1]

    @contextmanager
    def noted(self) -> Iterator[Open]:
        """A transaction of this thread, as long as it lasts."""
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        opened = Open()
        self._open.stack.append(opened)
        try:
            yield opened
        finally:
            self._open.stack.pop()


def install(seams: Seams) -> None:
    """Wrap everything that stands between two points. Raises AttributeError for what is no longer there."""
    _wrap_transaction(seams)
    _wrap(seams, dispatch, "tick", _tick)
    _wrap(seams, schedules, "claim_due", _claim_due)
    _wrap(seams, schedules, "mint", _mint)
    _wrap(seams, runs, "claim", _claim_run)
    _wrap(seams, runs, "plan", _plan)
    _wrap(seams, batches, "claim", _claim_batch)
    _wrap(seams, batches, "checkpoint", _checkpoint)
    _wrap(seams, batches, "close", _close)


def publishing(
    seams: Seams,
    postgres: Postgres,
    client: redis.Redis,
    send: Callable[[Sequence[Message]], None],
) -> Callable[[Sequence[Message]], None]:
    """`send` with the points around it: the rows are claimed before, and still there after."""

    def publish(messages: Sequence[Message]) -> None:
        named = [message.dedupe for message in messages]
        seams.come_to("7-claimed", named)
        if seams.is_reached("13-failover") and (lost := failover.lose_commits(postgres, messages)):
            seams.end(lost, lambda: send(messages))
        send(messages)
        seams.come_to("8-published", named)
        if seams.is_reached("14-flushall"):
            seams.end(_waiting(postgres), client.flushall)

    return publish


def _wrap(seams: Seams, module: Any, name: str, around: Callable[..., Any]) -> None:
    """Let `around(seams, call, first, second, ...)` stand in for a function; `call` is it, with all that it was given."""
    original = getattr(module, name)

    @functools.wraps(original)
    def wrapped(*given: Any, **more: Any) -> Any:
        return around(seams, functools.partial(original, *given, **more), *given)

    setattr(module, name, wrapped)


def _wrap_transaction(seams: Seams) -> None:
    original = Postgres.transaction

    @contextmanager
    def transaction(self: Postgres) -> Iterator[Transaction]:
        with seams.noted() as opened:
            with original(self) as tx:
                yield tx
                for point, subjects in opened.before_commit:
                    seams.come_to(point, subjects)
                for point, subjects in opened.at_commit:
                    if seams.is_reached(point):
                        seams.end(subjects, functools.partial(_send_commit, tx, is_whole=not point.endswith("torn")))
            for point, subjects in opened.after_commit:
                seams.come_to(point, subjects)

    Postgres.transaction = transaction  # type: ignore[method-assign]


def _send_commit(tx: Transaction, *, is_whole: bool) -> None:
    """Put COMMIT on the wire past the driver, so that nobody is there for its answer; or only the first bytes of it."""
    connection: Any = tx.connection.dbapi_connection
    assert not connection.info.ssl_in_use, "the wire is encrypted: COMMIT cannot be written past libpq"
    message = COMMIT if is_whole else COMMIT[:7]
    assert os.write(connection.fileno(), message) == len(message)


def _tick(seams: Seams, call: Callable[[], Any], postgres: Postgres, *_: Any) -> Any:
    if seams.point == "1-tick-taken":
        with postgres.transaction() as tx:
            due = tx.execute(text("SELECT id::text FROM scheduled_jobs WHERE next_run_at <= now()")).scalars().all()
        if due:
            seams.come_to("1-tick-taken", due)
    return call()


def _claim_due(seams: Seams, call: Callable[[], Any], *_: Any) -> Any:
    now, due = call()
    if due:
        seams.come_to("2-locked", [str(job.id) for job in due])
    return now, due


def _mint(seams: Seams, call: Callable[[], Any], _: Transaction, slots: Any, *__: Any) -> Any:
    job_ids = sorted({str(slot.job_id) for slot in slots})
    if not job_ids:
        return call()
    seams.come_to("3-computed", job_ids)
    minted = call()
    opened = seams.current
    opened.before_commit.append(("4-written", job_ids))
    opened.at_commit += [("5-commit-sent", job_ids), ("5-commit-torn", job_ids)]
    opened.after_commit.append(("6-committed", [f"run/{slot.run_id}/dispatch/1" for slot in slots if slot.is_minted]))
    return minted


def _claim_run(
    seams: Seams, call: Callable[[], Any], _: Transaction, run_id: Any, __: Any, step: str, *___: Any
) -> Any:
    claimed = call()
    if claimed is not None:
        opened, point = seams.current, CLAIMS[step]
        (opened.before_commit if point == "9-finishing" else opened.after_commit).append((point, [str(run_id)]))
    return claimed


def _plan(seams: Seams, call: Callable[[], Any], _: Transaction, run: Any, *__: Any) -> Any:
    armed = call()
    seams.current.before_commit.append(("10-planned", [str(run.id)]))
    return armed


def _claim_batch(seams: Seams, call: Callable[[], Any], _: Transaction, batch_id: Any, *__: Any) -> Any:
    claimed = call()
    if claimed is not None:
        seams.current.after_commit.append(("11-claimed", [str(batch_id)]))
    return claimed


def _checkpoint(seams: Seams, call: Callable[[], Any], _: Transaction, batch: Any, *__: Any) -> Any:
    answer = call()
    seams.current.before_commit.append(("11-page-open", [str(batch.id)]))
    seams.current.after_commit.append(("11-page", [str(batch.id)]))
    return answer


def _close(seams: Seams, call: Callable[[], Any], tx: Transaction, batch_id: Any, *_: Any) -> Any:
    is_closed = call()
    if not is_closed:
        return is_closed
    seams.current.before_commit.append(("11-closed", [str(batch_id)]))
    if seams.point in ("11-last", "12-finishing", "12-commit-sent"):
        run = tx.execute(
            text(
                "SELECT r.id, r.state, r.batches_total - r.batches_done - r.batches_failed AS open "
                "FROM sync_runs r JOIN sync_batches b ON b.run_id = r.id WHERE b.id = :id"
            ),
            {"id": batch_id},
        ).one()
        if run.open < 2:
            seams.current.before_commit.append(("11-last", [str(batch_id)]))
        if run.state == "finishing":
            seams.current.at_commit.append(("12-commit-sent", [str(run.id)]))
            seams.current.after_commit.append(("12-finishing", [str(run.id)]))
    return is_closed


def _waiting(postgres: Postgres) -> list[str]:
    """Everything that has nothing but a message in Redis: what the outbox still owes is not lost with Redis."""
    with postgres.transaction() as tx:
        found = tx.execute(
            text(
                "SELECT id FROM (SELECT id::text FROM sync_runs WHERE state = 'queued' UNION ALL "
                "SELECT id::text FROM sync_batches WHERE state = 'queued') w WHERE id NOT IN ("
                "SELECT coalesce(kwargs ->> 'run_id', kwargs ->> 'batch_id') FROM task_outbox "
                "WHERE claimed_until IS NULL OR claimed_until < now())"
            )
        )
        return list(found.scalars())
