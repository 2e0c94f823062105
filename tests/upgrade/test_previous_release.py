"""Expand, then contract: the program before the newest revision works on the schema after it."""

import re
from pathlib import Path

import pytest

from tests.upgrade import old_program
from worker_app.migrate import steps

SELECTION = ("tests/integration/store", "tests/integration/sync", "tests/integration/metrics")

# Tests of the older tree that speak of the schema or of the job, and not of what the older program does on the schema.
ABOUT_THE_SCHEMA = (
    "tests/integration/store/test_schema.py",  # takes its own revisions up and down
    "tests/integration/store/test_postgres.py::test_every_key_of_a_tenants_table_begins_with_its_organisation",  # lists tables
    "tests/integration/sync/test_engine.py::test_migration_computes_the_slots_of_an_older_engine_anew",  # what its job says
)


@pytest.mark.timeout(900)
def test_older_program_passes_its_tests_on_the_newer_schema(tmp_path: Path) -> None:
    newest = steps.postgres().folder / f"{steps.postgres().steps[-1].name}.py"
    commit = old_program.commit_before(newest)
    if commit is None:
        pytest.skip(f"this checkout has no commit before {newest.name}: fetch the whole history")
    if steps.postgres().steps[-1].compatible_from == steps.postgres().newest:
        pytest.skip(f"{newest.name} shuts out older programs: they are not deployed beside it")
    old_program.unpack(commit, tmp_path)
    left_out = [f"--deselect={name}" for name in ABOUT_THE_SCHEMA]
    done = old_program.run_tests(tmp_path, *SELECTION, *left_out)
    print(f"{commit[:7]} on schema {steps.postgres().newest}: {done.stdout.strip().splitlines()[-1]}")  # noqa: T201 - what was proved
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)
