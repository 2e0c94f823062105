from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.project import Project, project
from tests.containers import IMAGE, DockerError, docker, refuse, require_docker


@pytest.fixture(scope="session")
def images() -> None:
    """An engine and the images of compose.yaml; skips where they are not, and fails there when CI=true."""
    require_docker()
    for image in (IMAGE, "redis:8", "postgres:17"):
        try:
            docker("image", "inspect", image)
        except DockerError:
            refuse(f"needs the image {image}: `make image`, or docker pull")


@pytest.fixture
def fleet(tmp_path: Path, images: None) -> Iterator[Project]:
    """A project that is not up yet."""
    with project(tmp_path) as made:
        yield made
