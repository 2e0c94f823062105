import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click.testing
import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests import seed
from tests.integration.api.test_resources import detail
from tests.integration.api.visitors import with_token
from worker_app.cli.main import cli
from worker_app.store import schedules
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
NOBODY = "7891b252-7fcd-4a32-9708-618ec5b068ae"


def add(friend: FlaskClient, **order: Any) -> dict[str, Any]:
    answer = friend.post("/schedules", json={"source": "/srv/app", "cron": "*/15 * * * *", **order})
    assert answer.status_code == 201, answer.text
    assert answer.json is not None
    assert answer.headers["Location"] == f"/schedules/{answer.json['id']}"
    found: dict[str, Any] = answer.json
    return found


def test_schedule_is_added_and_shown_as_on_the_command_line(
    friend: FlaskClient, postgres: Postgres, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed.seed(postgres)
    added = add(friend, tz="Europe/Berlin", max_jitter_seconds=30)
    assert (added["cron_source"], added["tz"], added["max_jitter_seconds"]) == ("*/15 * * * *", "Europe/Berlin", 30)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", redis_url)
    for path, command in (("", ["show"]), ("/next?count=5", ["next"])):
        printed = click.testing.CliRunner().invoke(
            cli, ["schedules", *command, added["id"], "--json"], catch_exceptions=False
        )
        answer = friend.get(f"/schedules/{added['id']}{path}")
        assert answer.status_code == 200
        assert json.loads(answer.text) == json.loads(printed.stdout)


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        ({"source": None, "provider": "git"}, "sync"),
        ({"source": None, "kind": "metrics", "org": "acme"}, "metrics"),
        ({"source": None, "kind": "report", "template": "sync-health", "period_days": 30}, "report"),
        (
            {"kind": "sync", "catchup": "all", "overlap": "allow", "catchup_max": 3, "catchup_window_seconds": 3600},
            "sync",
        ),
    ],
)
def test_schedule_of_every_kind_is_added(
    friend: FlaskClient, postgres: Postgres, order: dict[str, Any], kind: str
) -> None:
    seed.seed(postgres)
    added = add(friend, **order)
    assert added["kind"] == kind
    for name in ("period_days", "template", "catchup_max", "catchup_window_seconds"):
        assert name not in order or added[name] == order[name]


def test_schedule_is_paused_resumed_and_removed(friend: FlaskClient, postgres: Postgres) -> None:
    seed.seed(postgres)
    path = f"/schedules/{add(friend)['id']}"
    for _ in range(2):
        paused = friend.post(f"{path}/pause").json or {}
        assert (paused["enabled"], paused["next_run_at"]) == (False, None)
    assert (friend.get(path).json or {})["next"] == []
    resumed = friend.post(f"{path}/resume").json or {}
    assert resumed["enabled"]
    assert resumed["next_run_at"] is not None
    assert friend.delete(path).json == resumed
    assert friend.delete(path).status_code == 404
    assert (friend.get("/schedules").json) == []


def test_resume_ends_a_quarantine(friend: FlaskClient, postgres: Postgres) -> None:
    job_id = seed.schedule(postgres, seed.seed(postgres))
    with postgres.transaction() as tx:
        schedules.quarantine(tx, job_id, "no slot within 5 years")
    assert (friend.post(f"/schedules/{job_id}/resume").json or {})["fault"] is None


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("GET", "/next")]
)
def test_unknown_schedule_is_a_404_that_names_it(friend: FlaskClient, method: str, path: str) -> None:
    answer = friend.open(f"/schedules/{NOBODY}{path}", method=method)
    assert answer.status_code == 404
    assert f"schedule_id is {NOBODY}: there is no such schedule" in detail(answer)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"cron": None}, "cron is None: give a cron line"),
        ({"cron": "every day"}, "every day"),
        ({"cron": "* * * * *", "tz": "Mars/Base"}, "time zone is 'Mars/Base'"),
        ({"tz": ""}, "time zone is ''"),
        ({"source": None}, "source is missing: name a source, or give provider"),
        ({"source": "nope"}, "source is 'nope': there is no source"),
        ({"source": "", "org": "acme"}, "source is ''"),
        ({"org": "whose"}, "org is 'whose'"),
        ({"provider": "git"}, "provider is 'git' beside source"),
        ({"source": None, "provider": "svn"}, "provider is 'svn': there are"),
        ({"kind": "backup"}, "kind is 'backup': give sync, metrics or report, or leave it out"),
        ({"kind": "metrics"}, "source is '/srv/app' and kind is metrics"),
        ({"template": "sync-health"}, "template is 'sync-health' and kind is sync"),
        ({"source": None, "kind": "report"}, "template is missing for kind report"),
        ({"source": None, "kind": "report", "template": "x"}, "template is 'x': give sync-health, or leave it out"),
        ({"catchup_max": 5}, "catchup_max is 5 and catchup is latest"),
        ({"catchup": "all"}, "catchup is all and overlap is skip"),
        ({"catchup_window_seconds": 30}, "catchup_window_seconds is 30: give a whole number from 600 to 604800"),
        ({"max_jitter_seconds": True}, "max_jitter_seconds is True: give a whole number"),
        ({"max_jitter_seconds": 1.5}, "max_jitter_seconds is 1.5: give a whole number"),
        ({"max_jitter_seconds": "60"}, "max_jitter_seconds is '60': give a whole number"),
        ({"jitter": 3}, "jitter is no field here: there are cron, source"),
    ],
)
def test_wrong_order_is_a_400_that_names_the_field(
    friend: FlaskClient, postgres: Postgres, order: dict[str, Any], words: str
) -> None:
    seed.seed(postgres)
    answer = friend.post("/schedules", json={"source": "/srv/app", "cron": "*/15 * * * *", **order})
    assert answer.status_code == 400
    assert words in detail(answer)
    assert seed.column(postgres, "SELECT count(*) FROM scheduled_jobs") == [0]


def test_same_key_twice_is_one_schedule_also_at_once(app: Flask, friend: FlaskClient, postgres: Postgres) -> None:
    seed.seed(postgres)

    def order(cron: str) -> tuple[int, str]:
        answer = with_token(app).post(
            "/schedules", json={"source": "/srv/app", "cron": cron}, headers={"Idempotency-Key": "rollout-7"}
        )
        return answer.status_code, (answer.json or {}).get("id") or detail(answer)

    with ThreadPoolExecutor(4) as several:
        answers = set(several.map(order, ["H/15 * * * *"] * 4))
    assert len(answers) == 1
    assert answers.pop()[0] == 201
    assert seed.column(postgres, "SELECT count(*) FROM scheduled_jobs") == [1]
    status, said = order("0 3 * * *")
    assert (status, "is another one; give another idempotency key" in said) == (409, True)
