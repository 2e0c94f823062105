"""M2: jobs that start at the same moment all succeed, and each revision is applied once."""

import pytest

from tests.integration.migrate import at_once, databases
from worker_app.migrate import steps

pytestmark = pytest.mark.integration

REPETITIONS = 3  # ten of them in tests/chaos/migrate


@pytest.mark.parametrize(("base", "pending"), [("empty_database_url", steps.postgres().newest), ("behind_url", 1)])
def test_four_jobs_at_once_apply_each_revision_once(request: pytest.FixtureRequest, base: str, pending: int) -> None:
    with databases.copies(request.getfixturevalue(base), REPETITIONS) as urls:
        found = at_once.run(urls)
    assert found == [at_once.Outcome([0, 0, 0, 0], [0, 0, 0, pending])] * REPETITIONS
