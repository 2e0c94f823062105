"""The gate in an interpreter that gevent has patched, as the default pool of workers has it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration
NOTHING_LEFT = {"live": 0, "in_use": 0, "in_line": 0, "asleep": 0, "known_leases": 0, "outages": 0}


def told(checkout: Path, url: str, what: str) -> dict[str, Any]:
    """What a process full of greenlets saw."""
    command = [sys.executable, "-m", "gevent.monkey", "--module", "tests.integration.gate.greenlets", url, what]
    done = subprocess.run(
        command, cwd=checkout, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=28, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_s40_crowd_of_greenlets_goes_through_a_small_pool_and_who_waits_holds_no_connection(
    checkout: Path, redis_url: str
) -> None:
    seen = told(checkout, redis_url, "crowd")
    assert seen["done"] == seen["wanted"]
    assert seen["held_by_waiters"] <= 1
    assert {name: seen[name] for name in NOTHING_LEFT} == NOTHING_LEFT


def test_greenlet_that_is_killed_at_any_moment_leaves_nothing_behind(checkout: Path, redis_url: str) -> None:
    seen = told(checkout, redis_url, "kills")
    assert seen["killed"] > 50
    assert seen["done"] > 50
    assert {name: seen[name] for name in NOTHING_LEFT} == NOTHING_LEFT
