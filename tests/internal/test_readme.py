"""What the README and chapter 15's page tell a user to run works as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minisgl.server.options import make_parser
from service.running import running_server

ROOT = Path(__file__).resolve().parents[2]
MODEL = "smollm2-135m"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "chapters" / "15-api-server.md"
ADDRESS = "http://127.0.0.1:1919"

pytestmark = pytest.mark.skipif(
    not (ROOT / "models" / MODEL / "config.json").is_file(),
    reason=f"{MODEL} isn't here (python tools/steps.py models fetch {MODEL})",
)


def examples(page: Path, language: str, *words: str) -> list[str]:
    """The code blocks of a page that have these words."""
    found = re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    return [code for code in found if all(word in code for word in words)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a server of the README's model answers."""
    with running_server(model=MODEL) as server:
        yield server.url


def test_the_example_of_the_engine_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    [example] = examples(README, "python", "LLM(")
    exec(compile(example, "README.md", "exec"), {})
    assert "Paris" in capsys.readouterr().out


@pytest.mark.parametrize("page", [README, PAGE], ids=["README", "chapter 15"])
def test_the_example_of_openai_s_client_runs(
    page: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = examples(page, "python", "OpenAI(")
    assert ADDRESS in example
    exec(compile(example.replace(ADDRESS, address), page.name, "exec"), {})
    assert "Paris" in capsys.readouterr().out


@pytest.mark.parametrize("page", [README, PAGE], ids=["README", "chapter 15"])
def test_the_example_of_curl_runs(page: Path, address: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl isn't here")
    [example] = examples(page, "console", "$ curl")
    assert ADDRESS in example
    command = example.removeprefix("$ ").replace(ADDRESS, address)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert '"object":"chat.completion"' in done.stdout, done.stderr


@pytest.mark.parametrize("page", [README, PAGE, ROOT / "Makefile"], ids=lambda page: page.name)
def test_each_command_has_options_that_the_server_takes(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    calls = re.findall(r"-m minisgl (--.*)|make serve ARGS=\"(.*?)\"", text)
    assert calls
    for words in [(call or arguments).partition("#")[0].split("`")[0] for call, arguments in calls]:
        if not {"--help", "$(ARGS)"} & set(words.split()):
            make_parser().parse_args(words.split())


def test_make_serves_the_model_of_the_examples() -> None:
    target = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nserve:")[2]
    assert f"-m minisgl --model {MODEL} $(ARGS)" in target.partition("\n\n")[0]


def rows(page: Path) -> dict[str, str]:
    """Of the page's table of options, the default for all names of each option."""
    table = page.read_text(encoding="utf-8").partition("### Options")[2].partition("\n\n!!!")[0]
    found = re.findall(r"^\| (`--.*?`) \| .* \| (.*?) \|$", table, re.M)
    return {names.replace("`", ""): default for names, default in found}


def test_the_table_of_options_is_the_parser_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINISGL_API_KEY", raising=False)
    shown = rows(PAGE)
    actions = [each for each in make_parser()._actions if "--help" not in each.option_strings]
    assert list(shown) == [", ".join(each.option_strings) for each in actions]
    for action, default in zip(actions, shown.values(), strict=True):
        if action.default is None or action.default is False or action.default == "":
            assert "`" not in default, action.option_strings
        else:
            value = action.default
            shown_as = f"{value:g}" if isinstance(value, float) else str(value)
            assert default == f"`{shown_as}`", action.option_strings
