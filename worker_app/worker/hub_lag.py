"""Hub lag: how late the hub is, and the name of the line that holds it.

A greenlet measures: it wants to run every half second and looks how late it is. While something holds the hub no greenlet
runs, no log line comes out and no probe is answered, so a thread of the system watches that greenlet and writes the one
line that names the holder, while it holds. That thread may touch nothing that gevent has patched, which rules out logging
and structlog: their locks belong to the hub.
"""

import contextlib
import itertools
import json
import os
import sys
import sysconfig
import time
import traceback
from _thread import LockType
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Generic, Literal, TypeVar

import gevent
import structlog
from gevent import monkey

from worker_app import telemetry

TICK_SECONDS = 0.5  # fine enough to see what a person would call a stall; two wake-ups a second cost nothing
BLOCKED_SECONDS = 5.0  # no task of ours computes that long between two waits; the alert stands at the same figure
LAG_WINDOW_SECONDS = (
    60.0  # a blocked process answers no scrape: the figure has to stand until the next one, 15 to 60 s on
)
BLOCK_WINDOW_SECONDS = 600.0  # long enough for a person who was called and asks the doctor
STACK_FRAMES = 40  # about 6 KB; container runtimes cut lines at 16 KB
IDLE_SHARE = 0.1  # a process that used less of a CPU than this while its watcher got no turn was itself stopped
STANDARD_ERROR = 2  # where our logs go
REMEDY = "let it wait now and then, or move CPU work to the heavy fleet"
PAUSE = (
    "no thread of the process had a turn: it was stopped, out of CPU, or in C code that waits and holds the interpreter"
)
OURS = f"{Path(telemetry.__file__).parent}{os.sep}"  # in the image it lies among the libraries
LIBRARIES = ("<frozen", *{sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

_new_lock = monkey.get_original("_thread", "allocate_lock")
_thread_id = monkey.get_original("_thread", "get_ident")
_start_thread = monkey.get_original("_thread", "start_new_thread")

log = structlog.get_logger(__name__)
T = TypeVar("T")


class Recent(Generic[T]):
    """What was seen in the last `window_seconds`, by the monotonic clock that the caller passes in."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._seen: deque[tuple[float, T]] = deque()

    def add(self, now: float, value: T) -> None:
        """Remember `value`, and forget what is too old."""
        self._seen.append((now, value))
        self._forget(now)

    def values(self, now: float) -> list[T]:
        """What is not too old, oldest first."""
        self._forget(now)
        return [value for _, value in self._seen]

    def _forget(self, now: float) -> None:
        while self._seen and now - self._seen[0][0] > self._window_seconds:
            self._seen.popleft()


class HubLag:
    """Measures the hub of this thread and names what holds it for more than `blocked_seconds`, one line per blockage.

    C code that keeps the interpreter to itself, a regular expression for example, is named when it lets go.
    A process that was stopped as a whole is told from a blocked one by the CPU time that it used; nobody is blamed for it.
    """

    def __init__(
        self,
        log_format: Literal["json", "text"],
        *,
        blocked_seconds: float = BLOCKED_SECONDS,
        stream: int = STANDARD_ERROR,
    ) -> None:
        self._log_format = log_format
        self._blocked_seconds = blocked_seconds
        self._stream = stream
        self._tick_seconds = min(TICK_SECONDS, blocked_seconds / 10)
        self._ticked_at = 0.0  # written by the greenlet alone
        self._named: tuple[float, str] | None = None  # the tick that a blockage began after, where; by the thread alone
        self._lags: Recent[float] = Recent(LAG_WINDOW_SECONDS)
        self._blocks: Recent[tuple[float, str]] = Recent(BLOCK_WINDOW_SECONDS)
        self._ticker: gevent.Greenlet[..., None] | None = None
        self._over: LockType = _new_lock()  # held while the thread is to run

    def start(self) -> None:
        """Begin. Call it in the thread of the hub, after patching.

        A process that gevent has not patched has no hub that a task could hold: there, as in the parent of a prefork pool,
        this does nothing and the gauge stays at 0.
        """
        if self._ticker is not None or not monkey.is_module_patched("time"):
            return
        self._ticked_at = time.monotonic()
        self._over = _new_lock()
        self._over.acquire()
        self._ticker = gevent.spawn(self._tick)
        _start_thread(self._watch, (_thread_id(), self._over))

    def stop(self) -> None:
        """End. May be called in a signal handler, and when it never began."""
        if self._ticker is None:
            return
        self._over.release()
        self._ticker.kill(block=False)
        self._ticker = None

    def worst(self) -> tuple[float, str] | None:
        """The longest blockage of the last ten minutes: seconds, and `file:line in function`; None when there was none."""
        return max(self._blocks.values(time.monotonic()), default=None)

    def presence(self) -> dict[str, object]:
        """The fields of the presence key that tell others of `worst`; empty when there is nothing to tell."""
        worst = self.worst()
        return {} if worst is None else {"hub_lag_seconds": round(worst[0], 1), "hub_blocked_in": worst[1]}

    def _tick(self) -> None:
        while True:
            gevent.sleep(self._tick_seconds)
            now, named = time.monotonic(), self._named
            last, self._ticked_at = self._ticked_at, now
            lag = max(0.0, now - last - self._tick_seconds)
            self._lags.add(now, lag)
            telemetry.WORKER_HUB_LAG.set(max(self._lags.values(now)))
            if named is not None and named[0] == last:
                self._blocks.add(now, (lag, named[1]))
                log.warning("hub.free", seconds=round(lag, 1), where=named[1])
            elif lag > self._blocked_seconds:
                log.warning("hub.paused", seconds=round(lag, 1), reason=PAUSE)

    def _watch(self, hub_thread: int, over: LockType) -> None:
        """The body of the thread: unpatched locks, clocks and writes only."""
        looked_at, cpu_seconds, excused_until = time.monotonic(), time.process_time(), 0.0
        while not over.acquire(timeout=self._tick_seconds):
            now, cpu_now, ticked_at = time.monotonic(), time.process_time(), self._ticked_at
            if was_stopped(now - looked_at, cpu_now - cpu_seconds, most_seconds=self._blocked_seconds / 2):
                excused_until = now
            looked_at, cpu_seconds = now, cpu_now
            lag = now - max(ticked_at + self._tick_seconds, excused_until)
            if lag > self._blocked_seconds and (self._named is None or self._named[0] != ticked_at):
                self._name(sys._current_frames()[hub_thread], lag, ticked_at)

    def _name(self, frame: FrameType, lag: float, ticked_at: float) -> None:
        """Say what holds the hub since the tick at `ticked_at`. Files are read last: until then the hub gets no turn."""
        frames = [
            traceback.FrameSummary(item.f_code.co_filename, line, item.f_code.co_name, lookup_line=False)
            for item, line in itertools.islice(traceback.walk_stack(frame), STACK_FRAMES)
        ][::-1]
        place = where(frames)
        if self._ticked_at != ticked_at:
            return  # it is free since
        self._named = (ticked_at, place)
        stack = "".join(traceback.StackSummary.from_list(frames).format()).rstrip()
        rest = blocked_line(self._log_format, datetime.now(UTC), lag, place, stack).encode(errors="replace")
        with contextlib.suppress(OSError):  # standard error is closed or full: the gauge and the doctor still tell
            while rest:
                rest = rest[os.write(self._stream, rest) :]


def was_stopped(gap_seconds: float, cpu_seconds: float, *, most_seconds: float) -> bool:
    """Whether a thread that got no turn for `gap_seconds` lived in a process that was stopped: nobody used its CPU."""
    return gap_seconds > most_seconds and cpu_seconds < gap_seconds * IDLE_SHARE


def where(frames: Sequence[traceback.FrameSummary], libraries: tuple[str, ...] = LIBRARIES) -> str:
    """`file:line in function` of the innermost frame, those of libraries left out unless there is nothing else.

    Our own code counts as none, wherever it is installed; of a path the last folder is shown.
    """
    own = [item for item in frames if item.filename.startswith(OURS) or not item.filename.startswith(libraries)]
    innermost = (own or frames)[-1]
    return f"{'/'.join(Path(innermost.filename).parts[-2:])}:{innermost.lineno} in {innermost.name}"


def blocked_line(log_format: Literal["json", "text"], now: datetime, lag: float, place: str, stack: str) -> str:
    """The line of a blockage as worker_app.logs would have written it."""
    timestamp, seconds = now.isoformat().replace("+00:00", "Z"), round(lag, 1)
    if log_format == "text":
        head = f"{timestamp} [error    ] hub.blocked [{__name__}] remedy='{REMEDY}' seconds={seconds} where='{place}'"
        return f"{head}\n{stack}\n"
    fields = {
        "seconds": seconds,
        "where": place,
        "stack": stack,
        "remedy": REMEDY,
        "event": "hub.blocked",
        "logger": __name__,
        "level": "error",
        "timestamp": timestamp,
    }
    return json.dumps(fields) + "\n"
