"""The gate's verbs on real stores: what people see of it, and what a clear does."""

import json
import os
import pwd
import socket
import subprocess
from typing import Any

import pytest
import redis
import structlog
from click.testing import CliRunner, Result

from tests.processes import DEV_HOPS, wait_for
from tests.seed import column, execute
from tests.waiting import deferred, github, published, queued
from worker_app import errors
from worker_app.cli import exits
from worker_app.cli.main import cli
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.gate.signals import Kind, Quota, RateSignal
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
KEYS = [
    "provider", "org", "org_id", "host", "bucket", "reason", "detail", "retry_in", "limit", "remaining", "reset_in", "conc",
    "live",
]  # fmt: skip
SAID = "You have exceeded a secondary rate limit"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, database_url: str, redis_url: str) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", redis_url)


def run(*words: str, typed: str | None = None) -> Result:
    with structlog.testing.capture_logs():  # the command's own process writes them to standard error
        result = CliRunner().invoke(cli, words, input=typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def json_of(*words: str) -> Any:
    return json.loads(run(*words, "--json").stdout)


def key_of(postgres: Postgres, name: str = "acme", host: str = "github.com") -> GateKey:
    made = github(postgres, name, host)
    return GateKey("github", str(made.org.id), host)


def ask(gate: Gate, key: GateKey, left: int) -> None:
    """One request, after which the provider says what is left of core."""
    with gate.slot(key, "repos.get") as permit:
        permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, left, 1800.0),)))


def test_list_names_organisations_and_shows_what_is_closed_first(postgres: Postgres, gate: Gate) -> None:
    acme, orbit = key_of(postgres), key_of(postgres, "orbit")
    ask(gate, acme, 4200)
    gate.backoff(orbit, 65.0, bucket="core", reason="secondary", detail=SAID)
    found = json_of("gate", "list")
    assert [list(item) for item in found] == [KEYS] * 4
    closed, *others = found
    assert {name: closed[name] for name in KEYS[:7]} == {
        "provider": "github", "org": "orbit", "org_id": orbit.org_id, "host": "github.com", "bucket": "core",
        "reason": "secondary", "detail": SAID,
    }  # fmt: skip
    assert 60 < closed["retry_in"] <= 65
    assert [(item["org"], item["bucket"]) for item in others] == [("acme", "*"), ("acme", "core"), ("orbit", "*")]
    assert (others[1]["limit"], others[1]["remaining"], others[1]["conc"], others[1]["live"]) == (5000, 4200, 20, 0)
    shown = run("gate", "list").stdout.splitlines()
    assert [
        word for word in ("github/orbit/github.com", "core", "1 min", SAID, "0 of 20") if word not in shown[1]
    ] == []
    assert "4200 of 5000" in shown[3]


def test_closed_alone_are_shown_where_that_is_asked_for(postgres: Postgres, gate: Gate) -> None:
    assert "no gate is known" in run("gate", "list", "--closed").stdout
    key = key_of(postgres)
    ask(gate, key, 10)
    assert "no gate is closed" in run("gate", "list", "--closed").stdout
    gate.backoff(key, 60.0, reason="burst")
    assert [item["bucket"] for item in json_of("gate", "list", "--closed")] == ["*"]


def test_key_of_an_organisation_that_is_not_ours_is_shown_by_its_id(gate: Gate) -> None:
    gate.backoff(GateKey("github", "elsewhere", "github.com"), 60.0, reason="burst")
    (found,) = json_of("gate", "list")
    assert (found["org"], found["org_id"]) == (None, "elsewhere")
    assert run("gate", "clear", "elsewhere", "--yes").stdout == "github/elsewhere/github.com is open again\n"


@pytest.mark.parametrize(
    "named", ["github/acme/ghe.acme.com", "acme/ghe.acme.com", "ghe.acme.com", "github/ghe.acme.com"]
)
def test_show_takes_a_key_of_which_parts_are_left_out(postgres: Postgres, gate: Gate, named: str) -> None:
    first, other = github(postgres), key_of(postgres, "orbit")
    key = GateKey("github", str(first.org.id), "ghe.acme.com")
    for one in (key, other):
        ask(gate, one, 17)
    found = json_of("gate", "show", named)
    assert [(item["host"], item["bucket"]) for item in found] == [("ghe.acme.com", "*"), ("ghe.acme.com", "core")]
    assert json_of("gate", "show", f"github/{first.org.id}/ghe.acme.com")[1]["remaining"] == 17


def test_name_that_fits_several_gates_lists_them(postgres: Postgres, gate: Gate) -> None:
    for name in ("acme", "orbit"):
        ask(gate, key_of(postgres, name), 17)
    with pytest.raises(errors.UsageError, match=r"github/acme/github\.com, github/orbit/github\.com; name one"):
        run("gate", "show", "github")
    assert {item["org"] for item in json_of("gate", "show", "orbit")} == {"orbit"}


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("gitlab", "no gate fits 'gitlab'"),
        ("gitea/acme/github.com", "provider is 'gitea': there are github, gitlab"),
        ("github/whose/github.com", "there is no organisation 'whose'"),
        ("github/acme/GitHub.com", "lower case"),
    ],
)
def test_name_that_fits_no_gate_is_wrong_usage(postgres: Postgres, named: str, words: str) -> None:
    github(postgres)
    with pytest.raises(errors.UsageError, match=words):
        run("gate", "show", named)


def test_gate_of_which_nothing_is_known_is_open(postgres: Postgres) -> None:
    github(postgres)
    assert "it is open" in run("gate", "show", "github/acme/github.com").stdout
    assert json_of("gate", "show", "github/acme/github.com") == []


def test_clear_opens_the_gate_and_lets_its_batches_go_on(postgres: Postgres, gate: Gate) -> None:
    made = github(postgres)
    key = GateKey("github", str(made.org.id), "github.com")
    deferred(postgres, made, "commits", "work_items")
    gate.backoff(key, 3600.0, reason="secondary", detail=SAID)
    assert not gate.check(key).allowed
    done = json_of("gate", "clear", "acme")
    assert done == {"gate": "github/acme/github.com", "bucket": "*", "windows": 1, "batches": 2}
    assert column(postgres, "SELECT not_before <= now() + interval '30 seconds' FROM sync_batches") == [True, True]
    assert json_of("gate", "list", "--closed") == []


def test_clear_prints_one_document_and_writes_its_author_into_the_log(
    postgres: Postgres, gate: Gate, database_url: str, redis_url: str
) -> None:
    gate.backoff(key_of(postgres), 3600.0, reason="secondary")
    environment = {"PATH": os.environ["PATH"], "DATABASE_URL": database_url, "REDIS_URL": redis_url}
    command = [DEV_HOPS, "gate", "clear", "github", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=25, check=True)
    assert json.loads(done.stdout)["windows"] == 1
    author = f"by={pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"
    assert [line for line in done.stderr.splitlines() if "gate.cleared_by_hand" in line and author in line]


def test_process_that_knew_the_window_hears_of_the_clear(postgres: Postgres, gate: Gate) -> None:
    key = key_of(postgres)
    gate.backoff(key, 3600.0, reason="secondary")
    run("gate", "clear", "acme", "--yes")
    wait_for(lambda: gate.check(key).allowed, "the window is forgotten", 5)
    gate.permit(key, "repos.get").end()


def test_clear_of_one_bucket_leaves_the_others_closed(postgres: Postgres, gate: Gate) -> None:
    key = key_of(postgres)
    for bucket in ("core", "graphql"):
        gate.backoff(key, 600.0, bucket=bucket, reason="primary")
    assert json_of("gate", "clear", "acme", "--bucket", "core")["windows"] == 1
    assert [item["bucket"] for item in json_of("gate", "list", "--closed")] == ["graphql"]


def test_clear_of_an_open_gate_says_that_nothing_was_closed(postgres: Postgres, gate: Gate) -> None:
    ask(gate, key_of(postgres), 17)
    assert run("gate", "clear", "acme").stdout == "nothing of github/acme/github.com was closed\n"
    assert json_of("gate", "clear", "github/acme/github.com") == {
        "gate": "github/acme/github.com", "bucket": "*", "windows": 0, "batches": 0,
    }  # fmt: skip


def test_clear_of_what_an_emptied_redis_forgot_still_lets_batches_go_on(postgres: Postgres) -> None:
    deferred(postgres, github(postgres), "commits")
    said = run("gate", "clear", "github/acme/github.com").stdout
    assert said == "nothing of github/acme/github.com was closed; 1 deferred batch goes on within 30 s\n"


def test_clear_asks_first_and_an_answer_of_no_changes_nothing(postgres: Postgres, gate: Gate) -> None:
    gate.backoff(key_of(postgres), 3600.0, reason="secondary", detail=SAID)
    refused = CliRunner().invoke(cli, ["gate", "clear", "acme"], input="n\n")
    assert refused.exit_code == 1
    assert f"github/acme/github.com is closed for 1 h (secondary: {SAID})" in refused.stderr
    assert len(json_of("gate", "list", "--closed")) == 1
    assert "is open again" in run("gate", "clear", "acme", typed="y\n").stdout
    assert json_of("gate", "list", "--closed") == []


def test_bucket_that_the_provider_does_not_have_is_wrong_usage(postgres: Postgres, gate: Gate) -> None:
    gate.backoff(key_of(postgres), 3600.0, reason="secondary")
    with pytest.raises(errors.UsageError, match="bucket is 'cor': github has auth, core"):
        run("gate", "clear", "acme", "--bucket", "cor", "--yes")
    assert len(json_of("gate", "list", "--closed")) == 1


@pytest.mark.parametrize("words", [("list",), ("show", "github"), ("clear", "github", "--yes")])
def test_redis_that_is_away_is_said_with_its_remedy(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(errors.StoreAway, match="look at REDIS_URL") as told:
        run("gate", *words)
    assert exits.exit_code(told.value) == 75


def test_queues_show_what_a_closed_gate_holds_back(postgres: Postgres, gate: Gate, redis_client: redis.Redis) -> None:
    made = github(postgres)
    key = GateKey("github", str(made.org.id), "github.com")
    queued(postgres, made, "work_items", "commits")
    execute(postgres, "DELETE FROM task_outbox WHERE task <> 'run_sync_batch'")
    assert published(postgres, redis_client) == 2
    of_github = {item["queue"]: item for item in json_of("queues")}["sync.github"]
    assert (of_github["ready"], of_github["held"]) == (2, 0)
    gate.backoff(key, 600.0, bucket="core", reason="primary")
    of_github = {item["queue"]: item for item in json_of("queues")}["sync.github"]
    assert (of_github["ready"], of_github["held"]) == (2, 1)
