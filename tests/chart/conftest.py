"""The tools of these tests: where one is missing its tests are skipped with the reason, and fail under CI."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from tests.chart import helm, npm_folder


def _missing(reason: object) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(str(reason))
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def reason_without_helm() -> str:
    """Why there is no helm; empty where there is one."""
    try:
        helm.program()
    except helm.NoHelm as reason:
        return str(reason)
    return ""


@pytest.fixture(autouse=True)
def helm_program(request: pytest.FixtureRequest) -> None:
    """A helm, for every test whose module asks it."""
    if helm in vars(request.module).values() and (reason := request.getfixturevalue("reason_without_helm")):
        _missing(reason)


@pytest.fixture(scope="session")
def validators() -> Path:
    """The `node_modules` with what knows custom resources."""
    if shutil.which("node") is None:
        _missing("there is no node on PATH, which runs the validators of custom resources")
    try:
        return npm_folder.installed("validators")
    except npm_folder.NotInstalled as reason:
        _missing(reason)
