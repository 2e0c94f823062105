from uuid import uuid4

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests import seed
from tests.integration.api.test_resources import detail
from tests.integration.api.test_status import fail, start
from tests.waiting import deferred, github
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
NOBODY = "7891b252-7fcd-4a32-9708-618ec5b068ae"


def ids(answer: TestResponse) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json or ()]


def ended(postgres: Postgres, made: seed.Seed, count: int, *, at: str = "now()") -> list[str]:
    """Runs of the source that are over, all made at one moment."""
    made_ids = [uuid4() for _ in range(count)]
    for run_id in made_ids:
        seed.execute(
            postgres,
            "INSERT INTO sync_runs (id, org_id, kind, provider, source_id, trigger, state, deadline_at, created_at) "
            f"VALUES (:id, :org, 'sync', 'git', :source, 'manual', 'succeeded', now(), {at})",
            id=run_id,
            org=made.org.id,
            source=made.source.id,
        )
    return sorted(map(str, made_ids))


def pages(friend: FlaskClient, path: str) -> list[list[str]]:
    """Every page of a list, by the links that lead from one to the next."""
    found: list[list[str]] = []
    while path:
        answer = friend.get(path)
        found.append(ids(answer))
        link = answer.headers.get("Link", "")
        assert not link or link.endswith('>; rel="next"')
        path = link.removesuffix('>; rel="next"').removeprefix("<")
    return found


def test_runs_come_in_pages_that_miss_none(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    same_moment = ended(postgres, made, 3, at="'2026-06-01T12:00:00.000001Z'")
    older = ended(postgres, made, 1, at="'2026-06-01T12:00:00Z'")
    assert pages(friend, "/runs?limit=2") == [same_moment[:2], [same_moment[2], *older]]
    assert pages(friend, "/runs?limit=3") == [same_moment, older]
    assert pages(friend, "/runs?limit=4") == [[*same_moment, *older]]


def test_page_is_not_moved_by_what_was_added_meanwhile(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    before = ended(postgres, made, 4, at="'2026-06-01T12:00:00Z'")
    first = friend.get("/runs?limit=2&org=acme")
    ended(postgres, made, 2)
    assert ids(friend.get(first.headers["Link"][1:].partition(">")[0])) == before[2:]
    assert "org=acme" in first.headers["Link"]


@pytest.mark.parametrize("cursor", ["", "x", "%00", "A" * 31, "A" * 33, "!" * 32, "f" + "_" * 31, "ü" * 8])
def test_cursor_that_nobody_gave_out_is_a_400(friend: FlaskClient, cursor: str) -> None:
    answer = friend.get(f"/runs?cursor={cursor}")
    assert answer.status_code == 400
    assert "cursor is " in detail(answer)
    assert "take it from the Link header" in detail(answer)


def test_runs_are_chosen_by_state_as_it_is_shown(friend: FlaskClient, postgres: Postgres) -> None:
    waiting, busy, new = github(postgres, "orbit"), seed.seed(postgres), seed.seed(postgres, "newcomer")
    deferred(postgres, waiting, "commits")
    running = start(postgres, busy, total=10, records=2)
    queued = seed.manual_run(postgres, new)
    over = ended(postgres, new, 1)
    every = {run["id"]: run["state"] for run in friend.get("/runs").json or ()}
    for state in ("queued", "running", "deferred", "succeeded", "failed"):
        assert set(ids(friend.get(f"/runs?state={state}"))) == {run for run, shown in every.items() if shown == state}
    assert sorted(every.values()) == ["deferred", "queued", "running", "succeeded"]
    assert {str(running.run_id), str(queued), *over} < set(every)


def test_runs_are_chosen_by_source(friend: FlaskClient, postgres: Postgres) -> None:
    acme, orbit = seed.seed(postgres), seed.seed(postgres, "orbit", path="/srv/web")
    mine, other = start(postgres, acme, total=1, records=0).run_id, seed.manual_run(postgres, orbit)
    seed.execute(
        postgres, "UPDATE sync_runs SET source_id = NULL WHERE id = :id", id=mine
    )  # as a schedule's run of many
    assert ids(friend.get(f"/runs?source={acme.source.id}")) == [str(mine)]
    assert ids(friend.get("/runs?source=srv/web&org=orbit")) == [str(other)]
    answer = friend.get("/runs?source=web&org=acme")
    assert (answer.status_code, "source is 'web'" in detail(answer)) == (400, True)


def test_batches_tell_what_they_wait_for(friend: FlaskClient, postgres: Postgres) -> None:
    batch_ids = deferred(postgres, github(postgres), "commits", "work_items", seconds=600)
    (run_id,) = ids(friend.get("/runs"))
    found = friend.get(f"/runs/{run_id}/batches").json or []
    assert {item["id"] for item in found} == set(map(str, batch_ids))
    assert {item["state"] for item in found} == {"deferred"}
    assert found[0]["defer_reason"]["gate"] == "github on github.com"
    assert found[0]["not_before"] > found[0]["created_at"]
    assert [len(page) for page in pages(friend, f"/runs/{run_id}/batches?limit=1")] == [1, 1]


def test_batch_that_failed_tells_why(friend: FlaskClient, postgres: Postgres) -> None:
    batch = start(postgres, seed.seed(postgres), total=48, records=31)
    fail(postgres, batch, "the remote said no")
    (found,) = friend.get(f"/runs/{batch.run_id}/batches").json or []
    assert (found["state"], found["error"]) == ("failed", "the remote said no")
    assert (found["records"], found["expected"], found["pages"]) == (31, 48, 1)


def test_retry_opens_the_failed_batches_and_no_other(friend: FlaskClient, postgres: Postgres) -> None:
    batch = start(postgres, seed.seed(postgres), total=48, records=31)
    fail(postgres, batch, "the remote said no")
    answer = friend.post(f"/runs/{batch.run_id}/retry")
    assert answer.status_code == 202
    assert answer.json is not None
    assert (answer.json["id"], answer.json["state"], answer.json["error"]) == (str(batch.run_id), "running", None)
    assert seed.column(postgres, "SELECT state FROM sync_batches") == ["queued"]
    again = friend.post(f"/runs/{batch.run_id}/retry")
    assert (again.status_code, "it is not over yet" in detail(again)) == (409, True)


def test_retry_of_a_run_of_which_nothing_failed_is_a_409(friend: FlaskClient, postgres: Postgres) -> None:
    (run_id,) = ended(postgres, seed.seed(postgres), 1)
    answer = friend.post(f"/runs/{run_id}/retry")
    assert (answer.status_code, "nothing of it failed" in detail(answer)) == (409, True)


def test_cancel_ends_what_has_not_begun(friend: FlaskClient, postgres: Postgres) -> None:
    run_id = seed.manual_run(postgres, seed.seed(postgres))
    answer = friend.post(f"/runs/{run_id}/cancel")
    assert answer.status_code == 202
    assert answer.json is not None
    assert answer.json["state"] == "cancelled"
    again = friend.post(f"/runs/{run_id}/cancel")
    assert (again.status_code, "nothing of it left to cancel" in detail(again)) == (409, True)


def test_cancel_of_a_running_batch_ends_after_its_page(friend: FlaskClient, postgres: Postgres) -> None:
    batch = start(postgres, seed.seed(postgres), total=48, records=31)
    answer = friend.post(f"/runs/{batch.run_id}/cancel")
    assert (answer.status_code, answer.json and answer.json["state"]) == (202, "running")
    assert seed.column(postgres, "SELECT cancel_requested_at IS NOT NULL FROM sync_runs") == [True]


def test_explain_gives_the_decisive_reason_first(friend: FlaskClient, postgres: Postgres) -> None:
    deferred(postgres, github(postgres), "commits")
    (run_id,) = ids(friend.get("/runs"))
    answer = friend.get(f"/runs/{run_id}/explain")
    assert answer.status_code == 200
    assert answer.json is not None
    assert (answer.json["what"], answer.json["id"], answer.json["batches"]) == ("run", run_id, {"deferred": 1})
    assert answer.json["findings"][0]["code"] == "gate"
    assert "the gate of github on github.com is closed" in answer.json["answer"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/batches"), ("GET", "/explain"), ("POST", "/cancel"), ("POST", "/retry")],
)
def test_unknown_run_is_a_404_that_names_it(friend: FlaskClient, method: str, path: str) -> None:
    answer = friend.open(f"/runs/{NOBODY}{path}", method=method)
    assert answer.status_code == 404
    assert f"run_id is {NOBODY}: there is no such run" in detail(answer)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/runs?state=done", "state is 'done': give queued, planning, running"),
        ("/runs?limit=1&limit=2", "limit is there 2 times: give it once"),
        (f"/runs/{NOBODY}?full=1", "full is no parameter here: there are none"),
        (f"/runs/{NOBODY}/batches?limit=0", "limit is '0': give a whole number from 1 to 1000"),
    ],
)
def test_wrong_parameter_of_a_run_is_a_400(friend: FlaskClient, path: str, words: str) -> None:
    answer = friend.get(path)
    assert (answer.status_code, words in detail(answer)) == (400, True)


def test_order_with_a_parameter_is_a_400(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    answer = friend.post("/syncs?wait=1", json={"source": str(made.source.id)})
    assert (answer.status_code, "wait is no parameter here" in detail(answer)) == (400, True)
    assert seed.column(postgres, "SELECT count(*) FROM sync_runs") == [0]


def test_body_that_is_nested_without_end_is_a_400(friend: FlaskClient) -> None:
    answer = friend.post("/syncs", data="[" * 200_000, content_type="application/json")
    assert (answer.status_code, "nested too deeply" in detail(answer)) == (400, True)
