"""Credentials in real workers: whose token a request carries, and that nothing stands in for one that does not open."""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count, pairwise

import pytest

from tests.integration.worker.limited import HOST, IMPATIENT, Stage
from tests.processes import Service, wait_for
from tests.seed import Seed, execute
from worker_app import key_ring
from worker_app.credentials import adding
from worker_app.credentials.kinds import GitHubToken
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.log import Entry
from worker_app.demo.recipe import Recipe
from worker_app.demo.server import Latency
from worker_app.secret import Secret
from worker_app.store.postgres import Postgres
from worker_app.vault import RingKeys, Vault

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

WATCHED = (sys.executable, "-m", "celery", "--app", "tests.integration.worker.watched")
OWN = "WRITTEN_BY_THE_TEST"  # the one variable that the watched app writes itself: so its watch is seen to work
ORGANISATIONS, REPOSITORIES_EACH, SLOTS = 20, 5, 20
DATASETS = ("review_comments", "pipeline_runs")  # two batches of each repository: 200 in all
TINY = {"pull_requests": 1, "comments_per_pull": 1, "issues": 1, "pushes": 1, "runs": 1, "deployments": 1}
LONG = Recipe(seed=7, repositories=1, pull_requests=30, comments_per_pull=4, issues=4, pushes=4, runs=4, deployments=4)
OVER = "UPDATE sync_runs SET state = 'succeeded'"  # nobody here takes the message that would close them
IN_PATH = re.compile(r"/repositories/([0-9]+)|/repos/([^/]+/[^/?]+)")

Staged = Callable[..., Stage]


@pytest.fixture
def staged(service: Service, postgres: Postgres) -> Iterator[Staged]:
    """Makes the stage of a test: `staged(recipe, program, **options of FakeGitHub)`."""
    with ExitStack() as ends:

        def make(recipe: Recipe, program: tuple[str, ...] = IMPATIENT, **options: object) -> Stage:
            fake = ends.enter_context(FakeGitHub(generate(recipe), **options))  # type: ignore[arg-type]
            return Stage(replace(service, program=program), postgres, fake)

        yield make


def test_c8_interleaved_batches_of_many_organisations_carry_their_own_token(staged: Staged) -> None:
    tokens = {f"org-{number}": f"ghp_org{number}secret" for number in range(ORGANISATIONS)}
    recipe = Recipe(seed=9, repositories=ORGANISATIONS * REPOSITORIES_EACH, **TINY)  # type: ignore[arg-type]
    stage = staged(recipe, WATCHED, tokens=tokens, latency=Latency(0.02))
    names = [repository.full_name for repository in stage.fake.world.repositories.values()]
    owned = {name: names[at::ORGANISATIONS] for at, name in enumerate(tokens)}
    teams = [stage.org(name, token, owned[name]) for name, token in tokens.items()]
    ids = stage.queue([made for round_ in zip(*teams, strict=True) for made in round_], *DATASETS)
    assert len(ids) == 200
    with stage.worker("w", slots=SLOTS) as worker:
        stage.wait_for_states(ids, "succeeded")
        written = [line["name"] for line in worker.lines if line["event"] == "environment.written"]
    asked, by_id = (
        stage.fake.log.entries(),
        {item.id: item.full_name for item in stage.fake.world.repositories.values()},
    )
    assert written == [OWN]
    assert {(entry.credential, repository(entry, by_id)) for entry in asked} == {
        (team, name) for team, names in owned.items() for name in names
    }
    changes = sum(one.credential != other.credential for one, other in pairwise(asked))
    assert changes > len(asked) / 2  # they were interleaved indeed


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_c3_credential_that_does_not_open_is_replaced_by_nothing(staged: Staged, pool: str) -> None:
    tokens = {"own": "ghp_ownsecret", "variable": "ghp_variablesecret", "netrc": "ghp_netrcsecret"}
    stage = staged(LONG, tokens=tokens)
    ids = stage.queue(stage.org("acme", tokens["own"]), *DATASETS)
    execute(stage.postgres, "UPDATE org_credentials SET ciphertext = wrapped_dek")
    with stage.worker("w", pool, 4, **strangers(stage, tokens)) as worker:
        stage.wait_for_states(ids, "failed")
        wait_for(lambda: len(refusals(worker.lines)) == len(ids), "both are told")
    assert {(row["error_class"], row["attempt"]) for row in stage.rows(ids)} == {("CredentialUndecryptable", 0)}
    assert stage.fake.log.entries() == []


def test_c3_token_of_the_environment_is_sent_neither_beside_a_credential_nor_without_one(staged: Staged) -> None:
    tokens = {"own": "ghp_ownsecret", "variable": "ghp_variablesecret", "netrc": "ghp_netrcsecret"}
    stage, seen = staged(LONG, tokens=tokens), set[str | None]()
    stage.fake.before_each_answer(lambda request: seen.add(request.headers.get("authorization")))
    made = stage.org("acme", tokens["own"])
    with stage.worker("w", "gevent", 4, **strangers(stage, tokens)):
        signed = stage.queue(made, "pipeline_runs")
        stage.wait_for_states(signed, "succeeded")
        assert seen == {f"Bearer {tokens['own']}"}
        seen.clear()
        execute(stage.postgres, OVER)
        execute(stage.postgres, "UPDATE sources SET credential_id = NULL")
        unsigned = stage.queue(made, "deployments")
        wait_for(lambda: stage.states(unsigned) <= {"succeeded", "failed"}, "the batch has ended")
    assert seen <= {None}
    assert {entry.credential for entry in stage.fake.log.entries()} == {"own", None}


def test_s6_version_of_the_plan_outlives_the_worker_and_a_replacement(staged: Staged) -> None:
    tokens = {"old": "ghp_oldsecret", "new": "ghp_newsecret"}
    stage = staged(LONG, tokens=tokens, latency=Latency(0.05))
    under_way, seen = threading.Event(), count(1)
    stage.fake.before_each_answer(lambda _: under_way.set() if next(seen) == 3 else None)
    made = stage.org("acme", tokens["old"])
    ids = stage.queue(made, *DATASETS, "work_items", "deployments")
    with stage.worker("first", slots=1) as first:
        assert under_way.wait(20)
        replace_credential(stage, made[0], tokens["new"])
        os.killpg(first.process.pid, signal.SIGKILL)
        first.process.wait(10)
    assert stage.states(ids) > {"queued"}
    with stage.worker("second", slots=1):
        stage.wait_for_states(ids, "succeeded")
        assert {entry.credential for entry in stage.fake.log.entries()} == {"old"}
        execute(stage.postgres, OVER)
        stage.fake.log.clear()
        stage.wait_for_states(stage.queue(made, "work_items"), "succeeded")
    assert {entry.credential for entry in stage.fake.log.entries()} == {"new"}


def strangers(stage: Stage, tokens: dict[str, str]) -> dict[str, str]:
    """A netrc file in the worker's home, and the variables in which people keep tokens."""
    netrc = stage.service.folder / ".netrc"
    netrc.write_text(f"default login stranger password {tokens['netrc']}\n")
    netrc.chmod(0o600)
    names = ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_PAT", "GITHUB_OAUTH_TOKEN")
    return {"NETRC": str(netrc), **dict.fromkeys(names, tokens["variable"])}


def replace_credential(stage: Stage, made: Seed, text: str) -> None:
    """Give the credential of an organisation its next version."""
    sealer = Vault(RingKeys(key_ring.parse(stage.keys)))
    with stage.postgres.transaction() as tx:
        adding.add(
            tx, sealer, GitHubToken(HOST, Secret(text)),
            org_id=made.org.id, name="fake", created_by="a test", replaces=True,
        )  # fmt: skip


def refusals(lines: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    return [line for line in lines if line["event"] == "credential.refused"]


def repository(entry: Entry, by_id: dict[int, str]) -> str:
    """Which repository a request is about, by its path or its variables."""
    if found := IN_PATH.match(entry.path):
        return by_id[int(found[1])] if found[1] else found[2]
    assert isinstance(entry.body, dict)
    variables = entry.body["variables"]
    return f"{variables['owner']}/{variables['name']}"
