from uuid import UUID

import pytest

from worker_app import errors
from worker_app.gate.key import GateKey, GateState
from worker_app.store.sources import Org
from worker_app.sync import gates
from worker_app.sync.explain_findings import countdown
from worker_app.sync.gates import GateView

ACME, ORBIT = Org(UUID(int=1), "acme", "UTC"), Org(UUID(int=2), "the orbit/labs", "UTC")
ORGS = [ACME, ORBIT]


def state(org: Org | str = ACME, host: str = "github.com", bucket: str = "*", **changes: object) -> GateState:
    given = {
        "reason": "", "detail": "", "retry_in": 0.0, "limit": None, "remaining": None, "reset_in": None, "conc": 20, "live": 0,
        **changes,
    }  # fmt: skip
    key = GateKey("github", str(org.id) if isinstance(org, Org) else org, host)
    return GateState(key=key, bucket=bucket, **given)  # type: ignore[arg-type]


def views(*states: GateState) -> list[GateView]:
    return gates.views(states, ORGS)


def test_what_is_closed_comes_first_and_the_longest_wait_on_top() -> None:
    found = views(
        state(bucket="core", retry_in=3.0),
        state(ORBIT),
        state(bucket="graphql", retry_in=60.0),
        state(bucket="*"),
    )
    assert [(view.org, view.bucket) for view in found] == [
        ("acme", "graphql"),
        ("acme", "core"),
        ("acme", "*"),
        ("the orbit/labs", "*"),
    ]


def test_organisation_that_is_not_ours_has_no_name() -> None:
    (found,) = views(state("elsewhere"))
    assert (found.org, found.name) == (None, "github/elsewhere/github.com")


def test_of_a_quota_that_has_come_back_since_nobody_knows_what_is_left() -> None:
    old, live = views(
        state(bucket="core", limit=5000, remaining=0, reset_in=0.0),
        state(bucket="graphql", limit=5000, remaining=0, reset_in=9.0),
    )
    assert (old.limit, old.remaining, old.reset_in) == (5000, None, None)
    assert (live.limit, live.remaining, live.reset_in) == (5000, 0, 9.0)


@pytest.mark.parametrize(
    "named",
    [
        "github/the orbit/labs/github.com",
        "the orbit/labs/github.com",
        "github/the orbit/labs",
        "the orbit/labs",
        str(ORBIT.id),
        f"github/{ORBIT.id}",
    ],
)
def test_key_is_named_by_parts_that_fit_it_alone(named: str) -> None:
    known = views(state(), state(ORBIT), state(ORBIT, bucket="core"))
    assert gates.key_named(named, known, ORGS) == GateKey("github", str(ORBIT.id), "github.com")


@pytest.mark.parametrize("named", ["github", "github.com", "github/github.com"])
def test_key_that_several_fit_is_not_guessed(named: str) -> None:
    with pytest.raises(errors.UsageError, match="several gates fit"):
        gates.key_named(named, views(state(), state(ORBIT)), ORGS)


@pytest.mark.parametrize("named", ["", "/", "acme", "github.com/github", "git", "acme/github"])
def test_key_that_none_fits_is_wrong_usage(named: str) -> None:
    with pytest.raises(errors.UsageError, match="no gate fits"):
        gates.key_named(named, views(state(ORBIT)), ORGS)


def test_key_that_is_written_in_full_need_not_be_known() -> None:
    assert gates.key_named("github/acme/ghe.acme.com", [], ORGS) == GateKey("github", str(ACME.id), "ghe.acme.com")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3.0, "0 s"), (0.0, "0 s"), (0.2, "1 s"), (58.0, "58 s"), (59.2, "1 min"), (125.0, "2 min 5 s"), (3600.0, "1 h"),
        (3605.0, "1 h 1 min"), (3780.0, "1 h 3 min"), (86400.0, "24 h"),
    ],
)  # fmt: skip
def test_countdown_is_what_a_person_reads_and_never_too_short_a_wait(seconds: float, shown: str) -> None:
    assert countdown(seconds) == shown
