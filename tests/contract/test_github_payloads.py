"""What is kept beside the tests is what the scripts make of the packages, with the licence."""

from pathlib import Path

import pytest

import worker_app.demo
from tests.github_description import PAYLOADS, WHOLE
from tests.payloads.github import fetch, reduce_graphql, reduce_openapi

pytestmark = pytest.mark.skipif(not WHOLE.exists(), reason="the packages are not in .cache: make contract-test")
SCHEMA = Path(worker_app.demo.__file__).parent / "github.graphql"
BYTES_MOST = 1_000_000


@pytest.mark.parametrize(
    ("package", "make", "kept"),
    [
        ("openapi", reduce_openapi.main, PAYLOADS / "openapi.json"),
        ("graphql-schema", reduce_graphql.main, SCHEMA),
    ],
)
def test_kept_description_is_what_the_script_makes(package: str, make: object, kept: Path, tmp_path: Path) -> None:
    assert callable(make)
    make(WHOLE / package, tmp_path / kept.name)
    assert (tmp_path / kept.name).read_text() == kept.read_text()
    licence = kept.with_suffix(".LICENSE")
    assert (tmp_path / licence.name).read_text() == licence.read_text()
    assert kept.stat().st_size < BYTES_MOST


@pytest.mark.parametrize("scenario", fetch.RECORDED)
def test_kept_recording_is_that_of_the_package(scenario: str) -> None:
    source = WHOLE / "fixtures" / "scenarios" / "api.github.com" / scenario / "normalized-fixture.json"
    assert (PAYLOADS / "recorded" / f"{scenario}.json").read_text() == source.read_text()
