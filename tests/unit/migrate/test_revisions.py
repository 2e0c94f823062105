"""Every revision obeys expand, then contract: an older program serves on while it is applied and afterwards."""

from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from tests.unit.migrate import revision_lint
from worker_app import errors
from worker_app.migrate import steps
from worker_app.migrate.postgres import configuration
from worker_app.store.schema import Step

KNOWN = steps.postgres()


@pytest.mark.parametrize("step", KNOWN.steps, ids=lambda step: step.name)
def test_revision_neither_blocks_nor_breaks_an_older_program(step: Step) -> None:
    has_raised = step.compatible_from == step.number > 1
    assert revision_lint.faults(revision_lint.written(KNOWN, step.number), has_raised=has_raised) == []


@pytest.mark.parametrize("statement", [
    "CREATE INDEX a ON orgs (tz)",
    "CREATE UNIQUE INDEX a ON public.orgs (tz)",
    "CREATE INDEX CONCURRENTLY a ON orgs (tz)",
    "ALTER TABLE orgs ADD COLUMN a integer NOT NULL",
    "ALTER TABLE orgs ADD COLUMN a integer, ADD COLUMN b numeric(3, 1) NOT NULL",
    "ALTER TABLE orgs ADD COLUMN a uuid DEFAULT gen_random_uuid()",
    "ALTER TABLE orgs ALTER COLUMN tz TYPE varchar(3)",
    "ALTER TABLE orgs ALTER COLUMN tz SET DATA TYPE varchar(3)",
    "ALTER TABLE orgs ALTER tz SET NOT NULL",
    "ALTER TABLE orgs ADD CHECK (tz <> '')",
    "ALTER TABLE orgs ADD CONSTRAINT a UNIQUE (tz)",
    "ALTER TABLE orgs DROP COLUMN tz",
    "ALTER TABLE orgs DROP tz",
    "ALTER TABLE orgs RENAME TO companies",
    "ALTER TABLE orgs RENAME COLUMN tz TO zone",
    "DROP TABLE orgs",
])  # fmt: skip
def test_lint_refuses(statement: str) -> None:
    assert len(revision_lint.faults(f"BEGIN; {statement};", has_raised=False)) == 1


@pytest.mark.parametrize("sql", [
    "CREATE TABLE a (id uuid NOT NULL); CREATE INDEX b ON a (id); ALTER TABLE a ALTER id TYPE text",
    "DROP INDEX CONCURRENTLY IF EXISTS a; CREATE INDEX CONCURRENTLY a ON orgs (tz)",
    "ALTER TABLE orgs ADD COLUMN a integer NOT NULL DEFAULT 0, ADD COLUMN b timestamptz DEFAULT now()",
    "ALTER TABLE orgs ADD CONSTRAINT a CHECK (tz <> '') NOT VALID",
    "ALTER TABLE orgs ADD CONSTRAINT a UNIQUE USING INDEX b",
    "ALTER TABLE orgs DROP CONSTRAINT a",
])  # fmt: skip
def test_lint_lets_pass(sql: str) -> None:
    assert revision_lint.faults(sql, has_raised=False) == []


def test_lint_lets_a_revision_take_away_that_shuts_out_older_programs() -> None:
    assert revision_lint.faults("ALTER TABLE orgs DROP COLUMN tz", has_raised=True) == []


def test_revisions_have_one_head_and_follow_each_other_by_number() -> None:
    scripts = ScriptDirectory.from_config(configuration(KNOWN))
    assert scripts.get_heads() == [f"{KNOWN.newest:04}"]
    for script in scripts.walk_revisions():
        before = int(script.revision) - 1
        assert script.down_revision == (f"{before:04}" if before else None)
        assert Path(script.path).stem.startswith(f"{script.revision}_")


def test_every_revision_says_which_programs_it_suits() -> None:
    assert list(steps.POSTGRES_COMPATIBLE_FROM) == [step.number for step in KNOWN.steps]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("0001_a", "0001_b"), "there are two"),
        (("0001_a", "0003_c"), "one is missing before it"),
        (("0002_b",), "one is missing before it"),
    ],
)
def test_files_with_one_number_twice_or_a_gap_are_refused(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    for name in names:
        (tmp_path / f"{name}.sql").write_text("SELECT 1")
    with pytest.raises(errors.SettingsError, match=said):
        steps.read("clickhouse", tmp_path, ".sql", {})


def test_step_that_names_no_older_program_suits_none(tmp_path: Path) -> None:
    for name in ("0001_a", "0002_b"):
        (tmp_path / f"{name}.sql").write_text("SELECT 1")
    assert [step.compatible_from for step in steps.read("postgres", tmp_path, ".sql", {1: 1}).steps] == [1, 2]
