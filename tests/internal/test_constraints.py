"""constraints.txt has a tried release of whatever pyproject.toml asks for."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement
from packaging.version import Version

from steplib.paths import ROOT


def test_what_is_asked_for_has_an_upper_end_and_agrees() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = map(Requirement, [*project["dependencies"], *extras["dev"], *extras["site"]])
    rows = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    kept = {it.name: it for it in map(Requirement, (r for r in rows if r and r[0] != "#"))}
    for requirement in asked:
        tried = kept[requirement.name]
        assert any(part.operator == "<" for part in tried.specifier), tried
        (least,) = [Version(p.version) for p in tried.specifier if p.operator == ">="]
        assert requirement.specifier.contains(least), f"{tried}, and asked for is {requirement}"
