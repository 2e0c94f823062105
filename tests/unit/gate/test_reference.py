import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
PAGE = TOP / "docs" / "reference" / "gate.md"


def test_every_field_of_the_state_is_described() -> None:
    head = (TOP / "worker_app" / "gate" / "_state.lua").read_text(encoding="utf-8").partition("local STATE")[0]
    made = set(re.findall(r"\b([A-Za-z]+):b\b", head)) | set(re.findall(r"\b(t|e|conc) (?:last|moment|learned)", head))
    assert len(made) > 15
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`([A-Za-z]+)(?::B)?`", row)}
    assert made - described == set()


def test_every_field_that_a_script_writes_stands_in_its_head() -> None:
    folder = TOP / "worker_app" / "gate"
    head = (folder / "_state.lua").read_text(encoding="utf-8").partition("local STATE")[0]
    told = set(re.findall(r"\b([A-Za-z]+):b\b", head))
    used = {name for path in folder.glob("*.lua") for name in re.findall(r"'([A-Za-z]+):'", path.read_text("utf-8"))}
    assert used - told == set()
