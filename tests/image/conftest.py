"""The image on real stores: one Redis and one Postgres container a session, migrated once by the image itself."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.containers import IMAGE, Container, DockerError, Yard, docker, refuse, require_docker, wait_for, yard
from tests.image.stage import PASSWORD, TEMPLATE, Stage, Stores, opened

_numbers = count(1)
_notes: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Containers take their time on a loaded machine: four minutes for each test of this folder."""
    for item in items:
        if item.path.parent.name == "image":
            item.add_marker(pytest.mark.timeout(240))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was measured."""
    for line in _notes:
        terminalreporter.write_line(f"image: {line}")


@pytest.fixture(scope="session")
def note() -> Callable[[str], None]:
    """Adds a line to the summary of the run."""
    return _notes.append


@pytest.fixture(scope="session")
def images() -> Iterator[Yard]:
    """A network for containers of the image. Skips without an engine or without the image."""
    require_docker()
    try:
        docker("image", "inspect", IMAGE)
    except DockerError:
        refuse(f"there is no image {IMAGE}: build it by `docker build --tag {IMAGE} .`, or name one in DEV_HOPS_IMAGE")
    with yard() as made:
        yield made


def _answers(container: Container, *command: str) -> Callable[[], bool]:
    return lambda: container.exit_code_of(*command) == 0


@pytest.fixture(scope="session")
def stores(images: Yard) -> Stores:
    """Redis and Postgres with a migrated template, under a password that a URL has to quote."""
    keeps_all = ("--requirepass", PASSWORD, "--maxmemory-policy", "noeviction", "--protected-mode", "no")
    made = Stores(
        redis=images.run("redis:8", "redis-server", "--bind", "0.0.0.0", *keeps_all, name="redis"),
        postgres=images.run(
            "postgres:17",
            "postgres",
            *("-c", "fsync=off", "-c", "max_connections=300"),
            name="postgres",
            environment={"POSTGRES_USER": "dev-hops", "POSTGRES_PASSWORD": PASSWORD, "POSTGRES_DB": TEMPLATE},
        ),
    )
    ready = _answers(
        made.postgres, "psql", "-qXh", made.postgres.name, f"--dbname={made.database_url(TEMPLATE)}", "-c", ""
    )
    wait_for(ready, "Postgres takes connections")
    environment = {"DATABASE_URL": made.database_url(TEMPLATE)}
    code, said = images.finished(IMAGE, "migrate", "postgres", name="migrate", environment=environment)
    assert code == 0, said
    return made


@pytest.fixture
def stage(images: Yard, stores: Stores) -> Iterator[Stage]:
    """Databases of the test's own, and the roles that it starts on them."""
    yield from opened(images, stores, next(_numbers) % 16)
