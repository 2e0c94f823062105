"""A source of a code host, which the tests of the record store share."""

import pytest

from tests.seed import Seed
from worker_app.store import sources
from worker_app.store.postgres import Postgres


@pytest.fixture
def api(postgres: Postgres) -> Seed:
    """The organisation acme with the source acme/api, whose identity is a number above 2^31."""
    with postgres.transaction() as tx:
        org = sources.add_org(tx, "acme", "UTC")
        return Seed(org, sources.add_source(tx, org.id, "github", "github.com", "acme/api", "2310943199"))
