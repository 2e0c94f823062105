"""M2 at the size of its promise: four jobs at once, ten times, on an empty database and on one that lacks the newest revision."""

import pytest

from tests.integration.migrate import at_once, databases
from tests.integration.migrate.conftest import behind_url as behind_url
from worker_app.migrate import steps

REPETITIONS = 10


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("base", "pending"), [("empty_database_url", steps.postgres().newest), ("behind_url", 1)])
def test_forty_jobs_end_with_0_and_apply_each_revision_once(
    request: pytest.FixtureRequest, base: str, pending: int
) -> None:
    with databases.copies(request.getfixturevalue(base), REPETITIONS) as urls:
        found = at_once.run(urls)
    assert found == [at_once.Outcome([0, 0, 0, 0], [0, 0, 0, pending])] * REPETITIONS
    exits = [code for outcome in found for code in outcome.exits]
    told = f"{exits.count(0)} of {len(exits)} jobs ended with 0 on {base}; each of {pending} revisions was applied once"
    print(told)  # noqa: T201 - the figures of the promise
