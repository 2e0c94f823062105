import pytest

from tests.integration.credentials.sealed import resolver_of
from worker_app.credentials.resolver import CredentialResolver
from worker_app.store.postgres import Postgres


@pytest.fixture
def resolver(postgres: Postgres) -> CredentialResolver:
    return resolver_of(postgres)
