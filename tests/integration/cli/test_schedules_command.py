"""`dev-hops schedules` as people and programs use it, on a real Postgres."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.seed import Seed, column, execute, schedule, seed
from worker_app import errors
from worker_app.cli.main import cli
from worker_app.store import schedules, sources
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
DAILY = ("--cron", "30 6 * * *")


@pytest.fixture
def made(postgres: Postgres, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Seed:
    """An organisation with a source, and an environment that names its database."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    return seed(postgres, tz="Europe/Berlin")


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["schedules", *arguments])


def text_of(*arguments: str) -> str:
    result = invoked(*arguments)
    assert result.exception is None, result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def json_of(*arguments: str) -> Any:
    return json.loads(text_of(*arguments, "--json"))


def refusal(*arguments: str) -> str:
    result = invoked(*arguments)
    assert isinstance(result.exception, errors.UsageError), result.output
    return str(result.exception)


def test_source_alone_is_synced_on_the_clock_of_its_organisation(made: Seed) -> None:
    added = json_of("add", "app", *DAILY)
    assert (added["kind"], added["sources"], added["tz"]) == ("sync", ["/srv/app"], "Europe/Berlin")
    assert (added["overlap"], added["catchup"], added["catchup_max"]) == ("skip", "latest", 24)
    assert (added["catchup_window_seconds"], added["max_jitter_seconds"]) == (604_800, 0)


def test_every_policy_can_be_given(made: Seed) -> None:
    added = json_of(
        "add", "app", *DAILY, "--overlap", "allow", "--catchup", "all", "--catchup-max", "5", "--catchup-window", "36h",
        "--jitter", "90", "--tz", "UTC",
    )  # fmt: skip
    assert (added["overlap"], added["catchup"], added["catchup_max"]) == ("allow", "all", 5)
    assert (added["catchup_window_seconds"], added["max_jitter_seconds"], added["tz"]) == (129_600, 90, "UTC")
    assert json_of("add", "app", *DAILY, "--overlap", "cancel_other")["overlap"] == "cancel_other"


def test_provider_in_place_of_a_source_is_every_source_of_it(made: Seed) -> None:
    added = json_of("add", "--provider", "git", "--org", "acme", *DAILY)
    assert (added["provider"], added["source_ids"]) == ("git", [])


def test_metrics_and_a_report_are_of_an_organisation(made: Seed) -> None:
    assert json_of("add", "--kind", "metrics", *DAILY)["kind"] == "metrics"
    report = json_of("add", "--kind", "report", "--template", "sync-health", "--cron", "0 6 * * 1")
    assert (report["kind"], report["template"], report["period_days"]) == ("report", "sync-health", 7)
    thirty = json_of("add", "--kind", "report", "--template", "sync-health", "--period-days", "30", *DAILY)
    assert thirty["period_days"] == 30


def test_organisation_has_to_be_named_where_there_are_several(made: Seed, postgres: Postgres) -> None:
    seed(postgres, "orbit", path="/srv/other")
    assert "name one with --org" in refusal("add", "--kind", "metrics", *DAILY)
    assert json_of("add", "--kind", "metrics", "--org", "orbit", *DAILY)["org"] == "orbit"
    assert json_of("add", "other", *DAILY)["org"] == "orbit"
    assert "there is no source 'other'" in refusal("add", "other", "--org", "acme", *DAILY)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "SOURCE is missing: name a source, or give --provider"),
        (["app", "--provider", "git"], "--provider is 'git' beside SOURCE 'app': leave one of them out"),
        (
            ["app", "--kind", "metrics"],
            "SOURCE is 'app' and --kind is metrics, of a whole organisation: give --org instead",
        ),
        (["--kind", "report", "--provider", "git"], "--provider is 'git' and --kind is report"),
        (["app", "--template", "sync-health"], "--template is 'sync-health' and --kind is sync: leave it out"),
        (["--kind", "metrics", "--period-days", "0"], "--period-days is 0 and --kind is metrics"),
        (["--kind", "report"], "--template is missing for --kind report: give sync-health"),
        (["--kind", "report", "--template", "pnl"], "template is 'pnl': give sync-health"),
        (["--kind", "report", "--template", "sync-health", "--period-days", "0"], "period-days is 0: give 1 to 366"),
        (["app", "--catchup-max", "3"], "--catchup-max is 3 and --catchup is latest, which mints one run at most"),
        (["app", "--catchup", "all"], "catchup is all and overlap is skip"),
        (["app", "--catchup", "all", "--overlap", "allow", "--catchup-max", "0"], "catchup-max is 0: give 1 to 100"),
        (
            ["app", "--catchup-window", "2w"],
            "--catchup-window is '2w': give a number and d, h or m, like 7d, 36h or 90m",
        ),
        (["app", "--catchup-window", "-1h"], "--catchup-window is '-1h'"),
        (["app", "--catchup-window", "9m"], "catchup-window is 540 s: give 10m to 7d"),
        (["app", "--catchup-window", "8d"], "catchup-window is 691200 s"),
        (["app", "--catchup-window", "999999d"], "catchup-window is 86399913600 s"),
        (["app", "--jitter", "86401"], "jitter is 86401: give 0 to 86400"),
        (["app", "--tz", "Berlin"], "time zone is 'Berlin'"),
        (["--provider", "gti"], "provider is 'gti': there are git"),
    ],
)
def test_options_that_say_nothing_together_are_refused_and_nothing_is_written(
    made: Seed, postgres: Postgres, arguments: list[str], words: str
) -> None:
    assert words in refusal("add", *arguments, *DAILY)
    assert column(postgres, "SELECT count(*) FROM scheduled_jobs") == [0]


@pytest.mark.parametrize(
    "arguments", [["--kind", "backfill"], ["--overlap", "queue"], ["--catchup", "some"], ["--jitter", "x"]]
)
def test_word_that_is_no_choice_is_wrong_usage(made: Seed, arguments: list[str]) -> None:
    assert invoked("add", "app", *DAILY, *arguments).exit_code == 2


def test_line_that_cannot_be_is_refused_with_one_that_fits(made: Seed) -> None:
    assert "`*/5 9-17 * * 1-5`" in refusal("add", "app", "--cron", "*/2 9-17 * * 1-5")
    assert "`0 0 28 2 *`" in refusal("add", "app", "--cron", "0 0 30 2 *")


def test_list_says_what_each_schedule_is_of(made: Seed) -> None:
    text_of("add", "app", *DAILY)
    text_of("add", "--provider", "git", *DAILY)
    text_of("add", "--kind", "metrics", *DAILY)
    text_of("add", "--kind", "report", "--template", "sync-health", *DAILY)
    listed = text_of("list")
    for kind, what in (
        ("sync", "/srv/app"),
        ("sync", "every git source of acme"),
        ("metrics", "acme"),
        ("report", "sync-health of acme, 7 days"),
    ):
        assert re.search(rf"^\w{{8}}  {kind} +{what}  ", listed, re.MULTILINE), listed


def test_list_names_a_source_that_is_gone(made: Seed, postgres: Postgres) -> None:
    text_of("add", "app", *DAILY)
    execute(postgres, "DELETE FROM sources")
    assert "a source that is gone" in text_of("list")


def test_show_tells_policies_next_slots_and_clock_changes(made: Seed) -> None:
    added = json_of(
        "add", "app", "--cron", "30 2 * * *", "--overlap", "buffer_one", "--catchup-window", "90m", "--jitter", "60"
    )
    shown = text_of("show", added["id"])
    for words in (
        "sync  /srv/app",
        "state  active",
        "line  30 2 * * *, in Europe/Berlin",
        "overlap  buffer_one: a slot that meets an active run waits for its end; a newer one takes its place",
        "catch-up  latest: the newest missed slot runs, the others are counted; none older than 90m",
        "jitter  a run begins up to 60 s later, the same for the same slot",
        "+01:00 to +02:00: 02:30 does not exist on this day: it runs at 03:00+02:00",
        "+02:00 to +01:00: runs once at 02:30+02:00; the second 02:30 (+01:00) has no slot",
    ):
        assert words in shown, shown
    assert len(re.findall(r"\d{4}-\d\d-\d\d \d\d:30:00Z  \d{4}-\d\d-\d\dT02:30\+0[12]:00 Europe/Berlin", shown)) >= 2


def test_show_as_json_is_the_schedule_with_next_slots_and_clock_changes(made: Seed) -> None:
    added = json_of("add", "app", *DAILY)
    shown = json_of("show", added["id"])
    assert shown == {**added, "next": shown["next"], "clock_changes": shown["clock_changes"]}
    assert shown["next"][0]["utc"] == added["next_run_at"]
    assert [slot["local"][10:16] for slot in shown["next"]] == ["T06:30"] * 3
    assert [list(change) for change in shown["clock_changes"]] == [
        ["at", "offset_before", "offset_after", "effect"]
    ] * 2


def test_show_of_a_drawn_line_tells_what_was_drawn(made: Seed) -> None:
    added = json_of("add", "app", "--cron", "H 3 * * *")
    assert f"line  H 3 * * *, which is {added['cron']} here, in Europe/Berlin" in text_of("show", added["id"])


def test_show_of_a_paused_schedule_says_so(made: Seed) -> None:
    added = json_of("add", "app", *DAILY)
    assert "is paused" in text_of("pause", added["id"])
    shown = text_of("show", added["id"])
    assert f"paused; `dev-hops schedules resume {added['id'][:8]}` lets it go on" in shown
    assert "none while it is paused" in shown
    assert json_of("show", added["id"])["next"] == []


def test_show_of_a_schedule_with_a_fault_tells_reason_and_remedy(made: Seed, postgres: Postgres) -> None:
    job_id = schedule(postgres, made, tz="Mars/Olympus")
    with postgres.transaction() as tx:
        schedules.quarantine(tx, job_id, "no such zone")
    shown = text_of("show", str(job_id))
    assert re.search(
        r"set aside after 1 fault in a row, tried again at .*Z: no such zone; `dev-hops schedules edit \S{8}`", shown
    )
    assert "none: time zone is 'Mars/Olympus'" in shown
    assert (json_of("show", str(job_id))["fault"], json_of("show", str(job_id))["next"]) == ("no such zone", [])
    assert "no such zone" in text_of("list")


def test_show_tells_of_a_slot_that_waits_and_of_one_that_is_due(made: Seed, postgres: Postgres) -> None:
    job_id = schedule(postgres, made)
    execute(postgres, "UPDATE scheduled_jobs SET buffered_slot = next_run_at")
    shown = text_of("show", str(job_id))
    assert "state  due since" in shown
    assert re.search(r"waiting  slot .*Z, for the active run to end", shown)
    assert json_of("show", str(job_id))["buffered_slot"] == json_of("show", str(job_id))["next_run_at"]


def test_next_shows_slots_on_both_clocks(made: Seed) -> None:
    added = json_of("add", "app", *DAILY)
    assert len(json_of("next", added["id"], "--count", "7")) == 7
    assert re.search(r"Z +\d{4}-\d\d-\d\dT06:30\+0[12]:00 Europe/Berlin", text_of("next", added["id"]))


def test_edit_changes_what_is_named(made: Seed) -> None:
    before = json_of("add", "app", *DAILY)
    after = json_of(
        "edit", before["id"][:8], "--overlap", "allow", "--catchup", "all", "--catchup-max", "3", "--jitter", "60"
    )
    changed = {"overlap": "allow", "catchup": "all", "catchup_max": 3, "max_jitter_seconds": 60}
    assert after == {**before, **changed}
    said = text_of("edit", "app", "--cron", "0 7 * * *", "--tz", "UTC", "--catchup-window", "36h")
    assert re.fullmatch(r"schedule \S+ is changed; its next slot is \S+ 07:00:00Z\n", said)
    assert json_of("show", "app")["catchup_window_seconds"] == 129_600


def test_edit_of_nothing_and_to_what_cannot_be_is_refused(made: Seed) -> None:
    before = json_of("add", "app", *DAILY)
    assert "nothing is named to be changed: give --cron" in refusal("edit", "app")
    assert "two slots" in refusal("edit", "app", "--cron", "* * * * *")
    assert "--catchup-window is '9'" in refusal("edit", "app", "--catchup-window", "9")
    assert "there is no schedule 'nothing'" in refusal("edit", "nothing", "--tz", "UTC")
    shown = json_of("show", "app")
    assert {name: shown[name] for name in before} == before


def test_removed_schedule_is_gone(made: Seed, postgres: Postgres) -> None:
    added = json_of("add", "app", *DAILY)
    assert "removed" in text_of("remove", added["id"])
    assert "there is no schedule" in refusal("show", added["id"])
    with postgres.transaction() as tx:
        assert len(sources.sources(tx)) == 1
