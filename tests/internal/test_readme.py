"""The README's example of use runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_in_the_readme_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (ROOT / "models" / "smollm2-135m" / "config.json").is_file():
        pytest.skip("smollm2-135m isn't here (python tools/steps.py models fetch smollm2-135m)")
    monkeypatch.chdir(ROOT)
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    exec(compile(example, "README.md", "exec"), {})
    assert "Paris" in capsys.readouterr().out
