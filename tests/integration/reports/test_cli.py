import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests.seed import seed
from worker_app import errors
from worker_app.cli.main import cli
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)


def reports(*arguments: str) -> str:
    """What `dev-hops reports` prints on standard output."""
    result = CliRunner().invoke(cli, ["reports", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def json_of(*arguments: str) -> Any:
    return json.loads(reports(*arguments, "--json"))


def test_run_prints_what_it_stores_and_nothing_else(postgres: Postgres) -> None:
    seed(postgres)
    printed = reports("run", "sync-health", "--from", "2026-06-01", "--to", "2026-06-07")
    assert printed.startswith("# Sync health of acme\n\n2026-06-01 to 2026-06-07, days in UTC;")
    assert printed == reports("show")
    shown = json_of("show")
    assert shown["body_markdown"] == printed
    assert list(shown) == [
        "id", "org", "scheduled_job_id", "template", "period_from", "period_to", "input_watermark", "rendered_at",
        "body_markdown", "body",
    ]  # fmt: skip


def test_show_gives_the_newest_or_the_one_whose_id_begins_so(postgres: Postgres) -> None:
    seed(postgres)
    first = json_of("run", "sync-health", "--from", "2026-06-01", "--to", "2026-06-07")
    second = json_of("run", "sync-health", "--from", "2026-06-02", "--to", "2026-06-08")
    assert json_of("show")["id"] == second["id"]
    assert json_of("show", first["id"][:8].upper())["id"] == first["id"]
    assert [item["id"] for item in json_of("list", "--limit", "5")] == [second["id"], first["id"]]
    assert "body" not in json_of("list")[0]
    assert first["id"][:8] in reports("list")


def test_organisations_are_told_apart(postgres: Postgres) -> None:
    seed(postgres)
    seed(postgres, "other", path="/srv/other")
    json_of("run", "sync-health", "--org", "acme")
    assert json_of("list", "--org", "other") == []
    with pytest.raises(errors.UsageError, match="no report yet"):
        reports("show", "--org", "other")
    with pytest.raises(errors.UsageError, match="name one with --org"):
        reports("run", "sync-health")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "%"], "no report has an id that begins with '%'"),
        (["run", "dora-monthly"], "template is 'dora-monthly': there is sync-health"),
        (["run", "sync-health", "--to", "2999-01-01"], "to is 2999-01-01, and today is"),
    ],
)
def test_what_cannot_be_is_said_with_its_remedy(postgres: Postgres, arguments: list[str], message: str) -> None:
    seed(postgres)
    with pytest.raises(errors.UsageError, match=message):
        reports(*arguments)


def test_empty_list_says_how_to_begin(postgres: Postgres) -> None:
    assert "dev-hops reports run sync-health" in reports("list")
