"""The status page in a real browser: wide and narrow, light and dark, without scripts, and held against WCAG 2.2 AA."""

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tests import axe, browser, seed
from tests.browser import Browser, Tab
from tests.integration.api import test_server
from tests.integration.api.test_server import Door
from tests.integration.api.test_status import fail, present, start
from tests.integration.api.visitors import TOKEN
from tests.waiting import deferred, github
from worker_app import jobs, runtime
from worker_app.embedded.stores import StoreAddresses
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.gate.signals import Kind, Quota, RateSignal
from worker_app.jobs import NewBatch
from worker_app.store import runs, schedules, sources
from worker_app.store.postgres import Postgres, single_connection

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(90)]
LONG_NAME = "https://git.example.org/platform/a-very-long-group-name/the-repository-with-the-longest-name-of-all.git"
SCREENS = [(1280, 900, "light"), (1280, 900, "dark"), (360, 800, "dark"), (320, 700, "light")]


@pytest.fixture(scope="module")
def postgres(stores: StoreAddresses, template: str) -> Iterator[Postgres]:
    """A pool on a database that the tests of this file share: they only read."""
    engine = single_connection(stores.database_url, application_name="tests")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE shown TEMPLATE {template}"))
    pool = Postgres(
        make_url(stores.database_url).set(database="shown").render_as_string(hide_password=False), pool_size=5
    )
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def broker(stores: StoreAddresses) -> Iterator[redis.Redis]:
    """A client of an emptied Redis."""
    client = runtime.redis_client(stores.redis_url, connections=2)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(scope="module")
def busy(postgres: Postgres, broker: redis.Redis, stores: StoreAddresses) -> None:
    """A service on which everything that the page can show happens at once."""
    acme, orbit = seed.seed(postgres, path="https://git.example.org/acme/rocket.git"), github(postgres, "orbit")
    other = seed.seed(postgres, "newcomer", path=LONG_NAME)
    fail(
        postgres,
        start(postgres, seed.seed(postgres, "tin-shed", path="/srv/git/ledger"), total=900, records=310),
        "git on git.example.org: the remote hung up after 310 of 900 objects; the next try begins where this one stood",
    )
    start(postgres, acme, total=48_000, records=310)
    seed.execute(postgres, "UPDATE sync_batches SET records = 31000 WHERE records = 310 AND state = 'running'")
    seed.execute(postgres, "UPDATE sync_runs SET started_at = now() - interval '4 minutes' WHERE state = 'running'")
    deferred(postgres, orbit, "commits", "work_items", "reviews", seconds=552)
    _planned(postgres, other)
    _schedules(postgres, acme, orbit)
    _gates(stores.redis_url, orbit, acme)
    broker.lpush(
        "metrics", *(json.dumps({"headers": {"enqueued_at": time.time() - 95}, "kwargs": {}}) for _ in range(3))
    )


def _planned(postgres: Postgres, made: seed.Seed) -> None:
    """A run of which one batch waits for a free slot and two for the first."""
    run_id, owner = seed.manual_run(postgres, made), uuid4()
    new = [NewBatch(jobs.batch_id(run_id, made.source.id, name), made.source.id, name, "sync.git") for name in "abc"]
    with postgres.transaction() as tx:
        run = runs.claim(tx, run_id, owner, "plan", 300)
        assert run is not None
        runs.lock_cap(tx, made.org.id, "git")
        runs.plan(tx, run, owner, new, cap=1)


def _schedules(postgres: Postgres, acme: seed.Seed, orbit: seed.Seed) -> None:
    seed.schedule(postgres, acme, due=timedelta(minutes=-10))
    broken = seed.schedule(postgres, orbit, cron="0 2 30 2 *", source_ids=(orbit.source.id,), provider="github")
    with postgres.transaction() as tx:
        schedules.quarantine(tx, broken, "the line '0 2 30 2 *' names no day that there is within 5 years")
        sources.set_state(tx, orbit.org.id, orbit.source.id, "sso_required", "the organisation asks for SAML sign-on")


def _gates(redis_url: str, orbit: seed.Seed, acme: seed.Seed) -> None:
    gate = Gate.from_url(redis_url)
    closed, open_key = (GateKey("github", str(made.org.id), "github.com") for made in (orbit, acme))
    gate.backoff(closed, 552.0, bucket="core", reason="primary", detail="API rate limit exceeded for installation")
    with gate.slot(open_key, "repos.get") as permit:
        permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4200, 1800.0),)))
    gate.close()


@pytest.fixture(scope="module")
def door(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, stores: StoreAddresses, busy: None
) -> Iterator[Door]:
    """A process of the API over the busy service."""
    url = make_url(stores.database_url).set(database="shown").render_as_string(hide_password=False)
    started = test_server.start(tmp_path_factory.mktemp("door"), url, stores.redis_url)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with browser.running(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def page(chromium: Browser, door: Door, broker: redis.Redis) -> Iterator[Tab]:
    """A page in which nobody has signed in, and workers that are there."""
    present(broker, "worker@a", "worker", 20, {"sync.git": 3, "sync": 1})
    present(broker, "worker@b", "worker", 20, {"sync.github": 2})
    present(broker, "ingest@a", "worker-ingest", 1, {})
    with browser.tab(chromium) as opened:
        yield opened


def address(door: Door, path: str = "/status") -> str:
    return f"http://127.0.0.1:{door.port}{path}"


def sign_in(page: Tab, door: Door) -> None:
    """Fill the form in and send it, as a person does; the page runs no script for it."""
    page.tell("Emulation.setScriptExecutionDisabled", value=True)
    page.open(address(door))
    page.focus("input[name=token]")
    page.tell("Input.insertText", text=TOKEN)
    page.browser.events.clear()
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    page.tell("Input.dispatchKeyEvent", type="keyDown", **enter)
    page.browser.wait_for("Page.loadEventFired", page.session)
    page.tell("Emulation.setScriptExecutionDisabled", value=False)


def overflowing(page: Tab) -> list[str]:
    """What stands out of the page to the right; what scrolls within the page does not."""
    if page.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth"):
        return []
    found: list[str] = page.ask(
        "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)"
        ".map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40))"
    )
    return found or ["the page"]


def test_page_shows_all_that_happens_without_scripts(page: Tab, door: Door) -> None:
    sign_in(page, door)
    page.tell("Emulation.setScriptExecutionDisabled", value=True)
    page.open(address(door, "/status?refresh=off"))
    page.tell("Emulation.setScriptExecutionDisabled", value=False)
    shown = re.sub(r"\s+", " ", page.ask("document.body.innerText"))
    for words in (
        "64 %", "31 000 of 48 000 records", "min left", "batches 0 of 3",
        "3 batches wait for the gate of github on github.com (core), on again in ",
        "2 batches wait for others of the same provider and organisation to end", "1 batch waits for a free slot",
        "the remote hung up after 310 of 900 objects", "API rate limit exceeded for installation", "4 200 of 5 000",
        "6 of 40 slots in use", "no worker",
    ):  # fmt: skip
        assert words.lower() in shown.replace("\u202f", " ").lower(), words
    bars = page.ask("[...document.querySelectorAll('progress')].map(e => [e.ariaLabel, e.value, e.max])")
    assert ["records read of acme/rocket", 31000, 48000] in bars
    assert all(label for label, _, _ in bars)


def test_page_fits_every_screen_and_breaks_no_rule_of_accessibility(page: Tab, door: Door, tmp_path: Path) -> None:
    sign_in(page, door)
    faults = {}
    for width, height, scheme in SCREENS:
        page.show(width, height, scheme)
        page.open(address(door, "/status?refresh=off"))
        page.picture(tmp_path / f"status-{width}-{scheme}.png")
        faults[width, scheme] = overflowing(page) + axe.violations(page)
    assert faults == {(width, scheme): [] for width, _, scheme in SCREENS}


def test_page_that_loads_itself_again_breaks_no_other_rule(page: Tab, door: Door) -> None:
    sign_in(page, door)
    page.open(address(door))
    # The rule is against pages that nobody can stop; the first link of this one does that.
    assert axe.violations(page, without=("meta-refresh",)) == []
    assert page.ask("document.querySelector('a').getAttribute('href')") == "?refresh=off"


def test_sign_in_breaks_no_rule_of_accessibility(page: Tab, door: Door) -> None:
    for scheme in ("light", "dark"):
        page.show(320, 700, scheme)
        page.open(address(door))
        page.drawn()
        assert page.ask("document.activeElement.name") == "token"
        assert overflowing(page) + axe.violations(page) == []


def test_page_has_its_headings_in_order_and_a_visible_focus(page: Tab, door: Door) -> None:
    sign_in(page, door)
    page.open(address(door, "/status?refresh=off"))
    levels = page.ask("[...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.ask("[...document.querySelectorAll('table')].every(e => e.caption && e.querySelector('th[scope=col]'))")
    assert page.ask("document.querySelectorAll('header, main, nav').length") == 3
    page.tell("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert page.ask("document.activeElement.tagName") == "A"
    assert page.ask("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    # Nothing moves, so there is nothing to still for those who ask for less motion.
    assert page.ask("document.getAnimations().length") == 0
    assert page.ask("[...document.querySelectorAll('*')].every(e => getComputedStyle(e).transitionDuration === '0s')")
