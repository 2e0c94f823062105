"""Every step of ClickHouse may be repeated, since a job that was killed repeats one, and takes nothing from older programs."""

import re

import pytest

from worker_app.migrate import steps
from worker_app.store.schema import Step

KNOWN = steps.clickhouse()
COMMENT = re.compile(r"--[^\n]*")
REPEATABLE = re.compile(
    r"(CREATE (TABLE|VIEW|MATERIALIZED VIEW|DICTIONARY) IF NOT EXISTS|DROP (TABLE|VIEW|DICTIONARY) IF EXISTS|"
    r"ALTER TABLE \w+ ((ADD|MODIFY|DROP|RENAME|CLEAR|COMMENT) (COLUMN|INDEX|CONSTRAINT|PROJECTION) IF (NOT )?EXISTS|"
    r"MODIFY (SETTING|TTL|COMMENT)))\b",
    re.IGNORECASE,
)
SWAPS = re.compile(r"\b(EXCHANGE|REPLACE) (TABLES|TABLE|PARTITION)\b", re.IGNORECASE)


def faults(statement: str) -> list[str]:
    """What is wrong with the text of a step, a word each."""
    text = COMMENT.sub("", statement).strip()
    found = {
        "several": ";" in text.rstrip(";"),
        "not repeatable": not REPEATABLE.match(text),
        "swap": bool(SWAPS.search(text)),
    }
    return [name for name, is_so in found.items() if is_so]


@pytest.mark.parametrize("step", KNOWN.steps, ids=lambda step: step.name)
def test_step_is_one_statement_that_may_be_repeated(step: Step) -> None:
    assert faults((KNOWN.folder / f"{step.name}.sql").read_text()) == []


def test_program_brings_the_table_of_metrics() -> None:
    assert [step.name for step in KNOWN.steps][:1] == ["0001_metric_daily"]
    assert KNOWN.steps[0].compatible_from == 1


@pytest.mark.parametrize(("statement", "fault"), [
    ("CREATE TABLE t (a Int8) ENGINE = Memory", "not repeatable"),
    ("ALTER TABLE t ADD COLUMN a Int8", "not repeatable"),
    ("INSERT INTO t SELECT 1", "not repeatable"),
    ("DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS u", "several"),
    ("EXCHANGE TABLES t AND u", "swap"),
])  # fmt: skip
def test_lint_refuses(statement: str, fault: str) -> None:
    assert fault in faults(statement)


@pytest.mark.parametrize("statement", [
    "-- why; it is so\nCREATE TABLE IF NOT EXISTS t (a Int8) ENGINE = MergeTree ORDER BY a;",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS a Int8 DEFAULT 0",
    "ALTER TABLE t MODIFY SETTING index_granularity = 1024",
])  # fmt: skip
def test_lint_lets_pass(statement: str) -> None:
    assert faults(statement) == []
