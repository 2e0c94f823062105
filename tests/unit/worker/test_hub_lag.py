import json
import re
import subprocess
import sys
import sysconfig
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from worker_app.worker import hub_lag
from worker_app.worker.hub_lag import HubLag, Recent

MOST_RUNS = 3
# A process whose hub is held for a second at a time. What holds it writes a mark when it lets go.
PROCESS = """
import os
import re
import subprocess
import time

import gevent

from worker_app import logs, telemetry
from worker_app.worker.hub_lag import HubLag


def spin(token):
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        pass


def match(token):
    took, length = 0.0, 20
    while took < 0.5:  # C code that keeps the interpreter to itself, each time twice as long
        began, length = time.monotonic(), length + 1
        re.match("(a+)+$", "a" * length + "b")
        took = time.monotonic() - began


def stop(token):
    subprocess.run(["sh", "-c", f"kill -STOP {os.getpid()}; sleep 1; kill -CONT {os.getpid()}"], check=True)


logs.configure("INFO", "json")
lag = HubLag("json", blocked_seconds=0.3)
lag.start()
for hold in (spin, spin, match, stop):
    gevent.sleep(0.2)
    hold(token=chr(115) * 20)
    os.write(2, f"{hold.__name__} is over\\n".encode())
gevent.sleep(0.2)
print(*lag.worst(), telemetry.WORKER_HUB_LAG.collect()[0].samples[0].value, lag.presence(), sep="|")
lag.stop()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The process, when it is over. A machine that itself stood still meanwhile is told of as well: then it runs again."""
    path = tmp_path_factory.mktemp("held") / "held.py"
    path.write_text(PROCESS)
    command = [sys.executable, "-m", "gevent.monkey", str(path)]
    top = Path(__file__).parents[3]
    for _ in range(MOST_RUNS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=True, cwd=top)
        if done.stderr.count("hub.paused") == 1:  # the stop that the process asks for
            break
    return done


@pytest.fixture
def lines(told: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Its log lines and marks, a mark being a line that is no document."""
    return [json.loads(text) if text.startswith("{") else {"event": text} for text in told.stderr.splitlines()]


def of(lines: list[dict[str, Any]], function: str) -> list[str]:
    """The events that name `function`, in their order."""
    return [line["event"] for line in lines if function in line.get("where", line["event"])]


def test_held_hub_is_named_once_while_it_is_held_and_told_of_when_it_is_free(lines: list[dict[str, Any]]) -> None:
    assert of(lines, "spin") == ["hub.blocked", "spin is over", "hub.free"] * 2


def test_line_of_a_held_hub_says_how_long_where_and_by_which_way(lines: list[dict[str, Any]]) -> None:
    blocked = next(line for line in lines if line["event"] == "hub.blocked")
    free = next(line for line in lines if line["event"] == "hub.free")
    assert 0.3 <= blocked["seconds"] < 1.0 <= free["seconds"] + 0.1
    assert re.fullmatch(r"held\d*/held\.py:1\d in spin", blocked["where"])
    assert free["where"] == blocked["where"]
    assert "hold(token=chr(115) * 20)" in blocked["stack"]
    assert blocked["stack"].splitlines()[-2].endswith("in spin")
    assert {"logger", "level", "timestamp"} <= blocked.keys() & free.keys()


def test_line_of_a_held_hub_says_no_value_of_a_variable(told: subprocess.CompletedProcess[str]) -> None:
    assert "hub.blocked" in told.stderr
    assert "s" * 20 not in told.stderr


def test_c_code_that_holds_the_interpreter_is_named_too(lines: list[dict[str, Any]]) -> None:
    assert sorted(of(lines, "match")) == ["hub.blocked", "hub.free", "match is over"]


def test_nobody_is_blamed_for_a_process_that_was_stopped(lines: list[dict[str, Any]]) -> None:
    assert of(lines, "stop") == ["stop is over"]
    (paused,) = [line for line in lines if line["event"] == "hub.paused"]
    assert paused["seconds"] >= 0.8


def test_worst_blockage_is_remembered_for_gauge_and_presence(
    told: subprocess.CompletedProcess[str], lines: list[dict[str, Any]]
) -> None:
    seconds, where, gauge, presence = told.stdout.strip().split("|")
    assert float(gauge) >= float(seconds) >= 0.9
    longest = max(line["seconds"] for line in lines if line["event"] == "hub.free")
    assert round(float(seconds), 1) == longest
    assert where in [line["where"] for line in lines if line["event"] == "hub.free" and line["seconds"] == longest]
    assert presence == str({"hub_lag_seconds": round(float(seconds), 1), "hub_blocked_in": where})


def test_process_that_was_stopped_is_told_from_one_that_holds_its_hub() -> None:
    assert hub_lag.was_stopped(25.0, 0.1, most_seconds=2.5)
    assert not hub_lag.was_stopped(25.0, 24.0, most_seconds=2.5)  # C code that held the interpreter
    assert not hub_lag.was_stopped(0.5, 0.0, most_seconds=2.5)  # a wait that holds the hub: the watcher had its turns


def test_recent_forgets_what_is_older_than_its_window() -> None:
    recent: Recent[float] = Recent(60.0)
    recent.add(0.0, 6.0)
    recent.add(50.0, 1.0)
    assert max(recent.values(60.0)) == 6.0
    assert recent.values(61.0) == [1.0]
    assert recent.values(200.0) == []


def frame(path: str, name: str) -> traceback.FrameSummary:
    return traceback.FrameSummary(path, 7, name, lookup_line=False, line="")


def test_place_is_the_innermost_line_that_is_of_no_library() -> None:
    standard, installed = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
    stack = [
        frame(f"{installed}/celery/app/trace.py", "trace_task"),
        frame("/srv/shop/tasks.py", "total"),
        frame(f"{standard}/re.py", "match"),
        frame("<frozen os>", "walk"),
    ]
    assert hub_lag.where(stack) == "shop/tasks.py:7 in total"
    assert hub_lag.where(stack[:1]) == "app/trace.py:7 in trace_task"


def test_our_own_code_is_no_library_where_it_is_installed() -> None:
    ours = Path(hub_lag.__file__).parents[1]
    stack = [frame(f"{ours}/sync/batch.py", "run"), frame(f"{ours.parent}/redis/client.py", "get")]
    assert hub_lag.where(stack, libraries=(f"{ours.parent}/",)) == "sync/batch.py:7 in run"


def test_line_has_the_shape_of_our_logs() -> None:
    now = datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC)
    document = json.loads(hub_lag.blocked_line("json", now, 6.21, "a/b.py:7 in f", "  File"))
    assert document["timestamp"] == "2026-05-01T12:00:00.000005Z"
    assert (document["level"], document["seconds"], document["stack"]) == ("error", 6.2, "  File")
    text = hub_lag.blocked_line("text", now, 6.21, "a/b.py:7 in f", "  File")
    assert text.startswith("2026-05-01T12:00:00.000005Z [error    ] hub.blocked [worker_app.worker.hub_lag] ")
    assert text.endswith("seconds=6.2 where='a/b.py:7 in f'\n  File\n")


def test_process_without_a_hub_is_left_alone() -> None:
    code = (
        "import os\n"
        "from worker_app.worker.hub_lag import HubLag\n"
        "lag = HubLag('json')\n"
        "lag.start()\n"
        "print(lag.worst(), lag.presence(), len(os.listdir('/proc/self/task')))\n"
        "lag.stop()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "None {} 1\n"
    assert done.stderr == ""


def test_watch_that_never_began_may_be_ended() -> None:
    HubLag("json").stop()
