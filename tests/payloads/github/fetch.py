"""Take GitHub's whole description from npm into `.cache/npm`: `python -m tests.payloads.github.fetch`.

With `--reduce` the parts that are kept in this repository are written anew as well. Nothing is fetched that is there already.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.payloads.github import reduce_graphql, reduce_openapi

VERSIONS = {
    "openapi": "23.0.2",
    "graphql-schema": "15.26.1",
    "fixtures": "23.1.2",
}  # of @octokit, all under the MIT licence
ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "npm"
HERE = Path(__file__).parent
RECORDED = (
    "get-repository",
    "paginate-issues",
    "rename-repository",
)  # scenarios of @octokit/fixtures that concern what we read
WANTED = re.compile(
    r"package/(package\.json|LICENSE.*|generated/api\.github\.com\.json|schema\.graphql|scenarios/.*\.json)"
)
TIMEOUT_SECONDS = 300


def fetch(name: str, version: str) -> Path:
    """The folder of that package, unpacked."""
    folder = CACHE / name
    manifest = folder / "package.json"
    if manifest.exists() and json.loads(manifest.read_text())["version"] == version:
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", f"@octokit/{name}@{version}", "--silent", "--pack-destination", scratch]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as packed:
            wanted = [member for member in packed.getmembers() if WANTED.fullmatch(member.name)]
            packed.extractall(scratch, wanted, filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(scratch) / "package", folder)
    return folder


def reduce(packages: dict[str, Path]) -> None:
    """Write the parts that are kept here and in the package."""
    reduce_openapi.main(packages["openapi"], HERE / "openapi.json")
    reduce_graphql.main(packages["graphql-schema"], ROOT / "worker_app" / "demo" / "github.graphql")
    for scenario in RECORDED:
        source = packages["fixtures"] / "scenarios" / "api.github.com" / scenario / "normalized-fixture.json"
        shutil.copyfile(source, HERE / "recorded" / f"{scenario}.json")
    shutil.copyfile(packages["fixtures"] / "LICENSE.md", HERE / "recorded" / "LICENSE")


def main() -> None:
    """Fetch, and reduce where that is asked for."""
    packages = {name: fetch(name, version) for name, version in VERSIONS.items()}
    if "--reduce" in sys.argv:
        reduce(packages)


if __name__ == "__main__":
    main()
