"""axe-core, which finds faults of accessibility in a page: from npm, held against a pinned digest, kept in `.cache/npm`."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.browser import Tab, refuse

VERSION = "4.14.1"  # under the MPL; used by tests alone, never shipped
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "npm"
TIMEOUT_SECONDS = 60
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def script() -> str:
    """The text of axe-core; skips where npm is missing or reaches no registry."""
    archive = CACHE / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        _fetch(archive)
    content = archive.read_bytes()
    assert base64.b64encode(hashlib.sha512(content).digest()).decode() == SHA512, f"{archive} is not what was pinned"
    with tarfile.open(archive) as packed:
        found = packed.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


def _fetch(archive: Path) -> None:
    if shutil.which("npm") is None:
        refuse("no npm is installed, which brings axe-core")
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", scratch]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        if done.returncode:
            refuse(f"npm does not bring axe-core: {done.stderr.strip()[-200:]}")
        archive.parent.mkdir(parents=True, exist_ok=True)
        (packed,) = Path(scratch).glob("*.tgz")
        shutil.move(packed, archive)


def violations(page: Tab, *, without: tuple[str, ...] = ()) -> list[str]:
    """What the page breaks of WCAG 2.2 A and AA, one line each, all rules but `without`."""
    page.ask(f"{script()}; undefined")
    rules = ", ".join(f"'{name}': {{enabled: false}}" for name in without)
    found: dict[str, Any] = page.ask(
        f"axe.run(document, {{runOnly: {LEVELS}, rules: {{{rules}}}}}).then(found => ({{passed: found.passes.length, "
        "violations: found.violations.map(rule => ({id: rule.id, nodes: rule.nodes.map(node => "
        "node.target.join(' ') + ': ' + node.failureSummary)})) }))"
    )
    assert found["passed"] > 10, "axe has looked at next to nothing"
    return [f"{rule['id']}: {node}" for rule in found["violations"] for node in rule["nodes"]]
