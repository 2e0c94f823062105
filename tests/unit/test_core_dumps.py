import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import worker_app

PROGRAM = """
import os, resource, sys
if sys.argv[1] == "forbid":
    from worker_app import core_dumps
    core_dumps.forbid()
print(*resource.getrlimit(resource.RLIMIT_CORE))
child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "import os; os.abort()"])
_, status = os.waitpid(child, 0)
print(os.WIFSIGNALED(status), os.WCOREDUMP(status))
"""
PIPED = Path("/proc/sys/kernel/core_pattern").read_text().startswith("|")


def run(how: str, hard: int, folder: Path) -> list[str]:
    """The limits of a process, and whether its child that aborts was killed and dumped."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        cwd=folder,
        env={"PATH": os.defpath, "PYTHONPATH": str(Path(worker_app.__file__).parent.parent)},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("hard", "limit"), [(resource.getrlimit(resource.RLIMIT_CORE)[1], "1 1"), (4096 * 1024, "1 1"), (0, "0 0")]
)
def test_child_that_aborts_dumps_no_core(tmp_path: Path, hard: int, limit: str) -> None:
    if hard == 0 and limit == "1 1":
        pytest.skip("the hard limit of this machine is 0 already")
    assert run("forbid", hard, tmp_path) == [limit, "True False"]
    assert list(tmp_path.iterdir()) == []


def test_limit_is_what_stops_the_dump(tmp_path: Path) -> None:
    highest = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if PIPED or highest == 0 or not os.access(tmp_path, os.W_OK):
        pytest.skip("this machine dumps into no file of ours")
    limits, ended = run("allow", highest, tmp_path)
    if ended != "True True":
        pytest.skip("this machine dumps no core at all")
    assert limits != "1 1"


def test_every_role_forbids_them() -> None:
    top = Path(worker_app.__file__).parent
    for entry in ("celery.py", "flower.py", "cli/main.py", "api/server.py"):
        assert "core_dumps.forbid()" in (top / entry).read_text(), entry
