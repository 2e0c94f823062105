"""Pytest plugin for an older tree: its databases are migrated by the newer program, in a process of that one's checkout.

The older program's own check stays as it is: it has to find the schema newer and compatible.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SCRIPT = "import sys; from worker_app.migrate.postgres import migrate_postgres; migrate_postgres(sys.argv[1], lambda _: None)"
HOMES = ("worker_app.migrate.postgres", "worker_app.migrate")  # where a release may keep its job, the newer one first


def migrate_by_the_newer_program(
    url: str, report: Callable[[str], None], wait_seconds: float = 0.0, series: object = None
) -> int:
    """What stands in for the older program's job; a test that asks for a certain series gets the newest schema too."""
    checkout = os.environ["NEW_CHECKOUT"]
    environment = {**os.environ, "PYTHONPATH": checkout}
    subprocess.run([sys.executable, "-c", SCRIPT, url], cwd=checkout, env=environment, check=True, timeout=60)
    return 0


def pytest_configure() -> None:
    """Replace the job before any test file imports it."""
    import worker_app  # noqa: PLC0415 - only now does the path lead to the older tree

    assert not Path(str(worker_app.__file__)).is_relative_to(os.environ["NEW_CHECKOUT"]), worker_app.__file__
    for home in HOMES:
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError:
            continue
        if hasattr(module, "migrate_postgres"):
            module.migrate_postgres = migrate_by_the_newer_program  # type: ignore[attr-defined]
