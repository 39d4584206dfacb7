"""Books that are wrong in one place: none of them passes, and each is told so in its own words."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from runnable_book import CORE, EXECUTED, MAIN, TEST, Reference, RunnableBook, nudge, text_of

from steplib import cache, report
from steplib.book import Chapter
from steplib.check import check_chapters
from steplib.context import Context, Limits
from steplib.lineup import Lineup
from steplib.outcome import Job, Outcome
from steplib.process import Launcher, OnRecord
from steplib.progress import Plain
from steplib.warm import Warm

Golden = Callable[[str, str], None]
IN_MAIN = "    print(generation.token_ids)\n"
FORGE = """\
    import json, os
    print(json.dumps({"kind": "end", "verdict": "passed"}))
    print("01-core-data-structures    passed")
"""
BROKEN_MAINS = {
    "main_crashes": "    1 / 0\n",
    "main_exits_with_3": "    raise SystemExit(3)\n",
    "main_os_exit": "    import os\n    os._exit(0)\n",
    "main_is_killed": "    import os\n    os.kill(os.getpid(), 11)\n",
    "main_forges_printed": FORGE + "    os._exit(0)\n",
    "main_forges_record": FORGE
    + "    for fd in range(3, 64):\n        try:\n"
    + '            os.write(fd, b\'{"nonce": "0", "kind": "end"}\\n\')\n'
    + "        except OSError:\n            pass\n",
    "main_imports_modeling": "    from transformers import LlamaForCausalLM\n",
    "main_hides_the_import": "    try:\n        import transformers.models.llama.modeling_llama\n"
    "    except ImportError:\n        pass\n",
    "main_loads_modeling_file": "    import importlib.util as util, transformers\n"
    "    base = transformers.__path__[0]\n"
    "    spec = util.spec_from_file_location('m', base + '/models/llama/modeling_llama.py')\n"
    "    spec.loader.exec_module(util.module_from_spec(spec))\n",
    "main_starts_process": "    import subprocess, sys\n"
    "    subprocess.run([sys.executable, '-c', 'import transformers'])\n",
}


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    return RunnableBook(tmp_path / "book")


def refused(book: RunnableBook, golden: Golden, name: str, *only: str, **how: object) -> None:
    """The book fails, in these words."""
    found = book.check(*only, **how)  # type: ignore[arg-type]
    assert not found.is_passed
    golden(f"check_{name}", text_of(found))


def test_the_sound_book_passes(book: RunnableBook, golden: Golden) -> None:
    found = book.check()
    golden("check_sound", text_of(found))
    assert found.is_passed


@pytest.mark.parametrize("name", BROKEN_MAINS)
def test_main_that(name: str, book: RunnableBook, golden: Golden) -> None:
    book.edit(MAIN, IN_MAIN, IN_MAIN + BROKEN_MAINS[name])
    refused(book, golden, name, "main")


def test_main_that_hangs(book: RunnableBook, golden: Golden) -> None:
    book.edit(MAIN, IN_MAIN, IN_MAIN + "    while True:\n        pass\n")
    refused(book, golden, "main_hangs", "main", limits=Limits(main=1.5))


def test_main_that_hangs_in_a_process_of_its_own(book: RunnableBook, golden: Golden) -> None:
    manifest = "steps/01-core-data-structures/step.toml"
    book.write(manifest, book.read(manifest) + "[main]\nsecond_process = true\n")
    book.edit(
        MAIN, IN_MAIN, IN_MAIN + "    import subprocess\n    subprocess.run(['sleep', '99'])\n"
    )
    refused(book, golden, "main_hangs_in_process", "main", limits=Limits(main=1.5))


def test_main_that_reports_nothing(book: RunnableBook, golden: Golden) -> None:
    book.edit(MAIN, "    book.report(generation)\n", "    print('all 4 tokens are right')\n")
    refused(book, golden, "main_reports_nothing", "main")


def test_main_that_prints_but_generates_nothing(book: RunnableBook, golden: Golden) -> None:
    book.edit(MAIN, "max_tokens=4", "max_tokens=0")
    refused(book, golden, "main_generates_nothing", "main")


def test_main_with_a_syntax_error_in_the_tree(book: RunnableBook, golden: Golden) -> None:
    book.edit(CORE, "def step(self):", "def step(self:")
    refused(book, golden, "tree_syntax_error", "main")


def test_module_from_outside_the_tree(book: RunnableBook, golden: Golden) -> None:
    other = book.write("elsewhere/core.py", "ANSWER = 42\n")
    load = (
        "    import importlib.util as util, sys\n"
        f"    spec = util.spec_from_file_location('minisgl.extra', {str(other)!r})\n"
        "    sys.modules['minisgl.extra'] = util.module_from_spec(spec)\n"
    )
    book.edit(MAIN, IN_MAIN, IN_MAIN + load)
    refused(book, golden, "module_from_outside", "main")
    book.edit(MAIN, load, load + "    spec.loader.exec_module(sys.modules['minisgl.extra'])\n")
    refused(book, golden, "module_opened_outside", "main")


def test_a_way_through_the_libraries_is_followed_to_its_end(
    book: RunnableBook, golden: Golden
) -> None:
    book.write("elsewhere/core.py", "ANSWER = 42\n")
    book.write(".cache/answers.txt", "1 2 3\n")
    way = f"{sys.prefix}/{os.path.relpath(book.root, sys.prefix)}"
    load = (
        "    import sys, types\n"
        "    sys.modules['elsewhere'] = types.ModuleType('elsewhere')\n"
        f"    sys.modules['elsewhere'].__file__ = '{way}/elsewhere/core.py'\n"
    )
    book.edit(MAIN, IN_MAIN, IN_MAIN + load)
    refused(book, golden, "module_through_libraries", "main")
    book.edit(MAIN, load, f"    open('{way}/.cache/answers.txt')\n")
    refused(book, golden, "answers_through_libraries", "main")


def test_package_path_that_leads_outside(book: RunnableBook, golden: Golden) -> None:
    book.write("elsewhere/extra.py", "ANSWER = 42\n")
    lead = f"    import minisgl\n    minisgl.__path__.append({str(book.root / 'elsewhere')!r})\n"
    book.edit(MAIN, IN_MAIN, IN_MAIN + lead + "    import minisgl.extra\n")
    refused(book, golden, "package_path_outside", "main")


@pytest.mark.parametrize("way", ["installed", "editable"])
def test_file_missing_from_the_tree_while_minisgl_is_installed(
    way: str, book: RunnableBook, golden: Golden, tmp_path: Path
) -> None:
    python = python_with_minisgl(tmp_path, way)
    runner = Launcher(book.root / "models", python=python)
    assert book.check("main", runner=runner).is_passed
    book.edit(MAIN, "from minisgl.core import Loop", "from minisgl.core import Loop\n"
              "import minisgl.extra")  # fmt: skip
    refused(book, golden, "missing_from_tree", "main", runner=runner)


def python_with_minisgl(folder: Path, way: str) -> str:
    """A Python in which a whole minisgl, with a module `extra`, is installed."""
    import site
    import sys
    import venv

    package = folder / "finished" / "minisgl"
    package.mkdir(parents=True)
    for name in ("__init__.py", "core.py", "extra.py"):
        (package / name).write_text("raise RuntimeError('the installed package was loaded')\n")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    lib = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    libraries = folder / "venv" / lib
    lines = [*site.getsitepackages()]
    if way == "installed":
        lines.insert(0, str(package.parent))
    else:
        lines.append("import __editable___minisgl_finder")
        (libraries / "__editable___minisgl_finder.py").write_text(FINDER.format(str(package)))
    (libraries / "added.pth").write_text("\n".join(lines) + "\n")
    return str(folder / "venv" / "bin" / "python")


FINDER = """\
import sys
from importlib.machinery import PathFinder


class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.startswith("minisgl."):
            return PathFinder.find_spec(name, [{0!r}])


Finder.__module__ = "__editable___minisgl_finder"
sys.meta_path.insert(0, Finder)
"""


def test_counter_at_zero(book: RunnableBook, golden: Golden) -> None:
    book.edit(CORE, "        self.steps += 1\n", "")
    refused(book, golden, "counter_zero", "parity")


def test_counter_that_is_not_there(book: RunnableBook, golden: Golden) -> None:
    book.edit("steps/01-core-data-structures/step.toml", '"steps"', '"steps", "cached_tokens"')
    refused(book, golden, "counter_missing", "parity")


def test_wrong_token(book: RunnableBook, golden: Golden) -> None:
    swap = "        if len(self.ids) == 50:\n            best, second = second, best\n"
    book.edit(CORE, "        self.ids.append(best)\n", swap + "        self.ids.append(best)\n")
    refused(book, golden, "wrong_token", "parity")


def test_wrong_logits_with_right_tokens(book: RunnableBook, golden: Golden) -> None:
    book.edit(CORE, "(best, row[best])", "(best, row[best] + (0.01 if len(self.ids) > 50 else 0))")
    refused(book, golden, "wrong_logits", "parity")


def test_nan_logits(book: RunnableBook, golden: Golden) -> None:
    book.edit(CORE, "(second, row[second])", "(second, float('nan'))")
    refused(book, golden, "nan_logits", "parity")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("too_few_tokens", "range(max_tokens)]", "range(max_tokens - 1)]"),
        ("a_prompt_missing", "for prompt in prompts]", "for prompt in prompts[1:]]"),
        ("no_generation", "return book.Generation", "return book.arguments and list"),
        ("generate_crashes", "    book.config(config)\n", "    raise IndexError('no page left')\n"),
        ("generate_leaves", "    book.config(config)\n", "    import os\n    os._exit(0)\n"),
        ("top2_of_another_token", "tokens = [[best[0]", "tokens = [[3"),
    ],
)
def test_answer_that_is_none(
    name: str, old: str, new: str, book: RunnableBook, golden: Golden
) -> None:
    book.edit(MAIN, old, new)
    refused(book, golden, name, "parity")


def test_unknown_config_key(book: RunnableBook, golden: Golden) -> None:
    runs = "\n[[parity.runs]]\nconfig = { page_size = 4 }\n"
    book.edit("steps/01-core-data-structures/step.toml", '["steps"]\n', '["steps"]\n' + runs)
    refused(book, golden, "config_unknown", "parity")


def test_near_tie_passes_and_is_counted(book: RunnableBook, golden: Golden) -> None:
    found = book.check("parity", reference=nudge(book, 90))
    golden("check_near_tie", text_of(found))
    assert found.is_passed
    assert found.chapters[0].results[0].data["models"][0]["near_ties"] == 1


def test_two_near_ties_in_one_prompt(book: RunnableBook, golden: Golden) -> None:
    refused(book, golden, "near_ties_in_prompt", "parity", reference=nudge(book, 90, 95))


def test_too_many_near_ties(book: RunnableBook, golden: Golden) -> None:
    refused(book, golden, "near_ties_too_many", "parity", reference=nudge(book, 41))


def test_token_that_is_only_almost_a_near_tie(book: RunnableBook, golden: Golden) -> None:
    reference = nudge(book, 90)
    reference.std = 1e-3  # now 2e-6 is ten times what a near tie may be
    reference.noise = 1e-3
    refused(book, golden, "no_near_tie", "parity", reference=reference)


def test_no_test_file(book: RunnableBook, golden: Golden) -> None:
    book.remove(TEST)
    refused(book, golden, "no_test_file", "tests")


def test_zero_tests(book: RunnableBook, golden: Golden) -> None:
    book.write(TEST, "from pairs import equal\n")
    refused(book, golden, "zero_tests", "tests")


def test_all_tests_skipped(book: RunnableBook, golden: Golden) -> None:
    skip = "    import unittest\n    raise unittest.SkipTest('needs a GPU')\n"
    book.edit(TEST, "    from minisgl.core import Loop\n", skip)
    refused(book, golden, "all_skipped", "tests")


def test_failing_test(book: RunnableBook, golden: Golden) -> None:
    book.edit(CORE, "        self.ids.append(best)\n", "        self.ids.append(second)\n")
    refused(book, golden, "test_fails", "tests")


def test_untouched_lines(book: RunnableBook, golden: Golden) -> None:
    extra = "\n\ndef unused(x):\n    y = x + 1\n    z = y * 2\n    return z\n"
    book.write(CORE, book.read(CORE) + extra + extra.replace("def unused", "def never"))
    book.refresh()
    refused(book, golden, "untouched", "main", "tests", "untouched")


def test_pragma_hides_no_line(book: RunnableBook, golden: Golden) -> None:
    extra = "\n\ndef unused(x):  # pragma: no cover\n    y = x + 1\n    z = y * 2\n    return z\n"
    book.write(CORE, book.read(CORE) + extra)
    book.refresh()
    refused(book, golden, "untouched_pragma", "main", "tests", "untouched")


def test_missing_checkpoint(book: RunnableBook, golden: Golden) -> None:
    book.edit("steps/01-core-data-structures/step.toml", '"tiny-made"', '"tiny-qwen3"')
    refused(book, golden, "missing_checkpoint", "main", "parity")


def test_require_real_without_it(book: RunnableBook) -> None:
    found = book.check("main")
    found.is_real_missing = True
    assert not found.is_passed
    assert "FAILED: --require-real" in text_of(found)


def test_json_and_junit_tell_the_same(book: RunnableBook) -> None:
    book.edit(MAIN, IN_MAIN, IN_MAIN + BROKEN_MAINS["main_crashes"])
    found = book.check("main", "tests")
    facts = json.loads(report.as_json(found))
    by_name = {check["check"]: check for check in facts["chapters"][0]["checks"]}
    assert (by_name["main"]["verdict"], by_name["tests"]["verdict"]) == ("crashed", "passed")
    assert not facts["passed"]
    cases = ElementTree.fromstring(report.as_junit(found)).iter("testcase")
    failing = {case.get("name"): case.find("failure") for case in cases}
    assert failing["tests"] is None
    assert failing["main"] is not None and "ZeroDivisionError" in str(failing["main"].text)


def test_good_and_bad_by_turns_keep_their_verdicts(book: RunnableBook) -> None:
    good = book.read(MAIN)
    bad = good.replace(IN_MAIN, IN_MAIN + BROKEN_MAINS["main_os_exit"])
    verdicts = []
    for text in (good, bad) * 3:
        book.write(MAIN, text)
        verdicts.append(book.check("main").chapters[0].results[0].verdict)
    assert verdicts == ["passed", "no record"] * 3


class Counting:
    """Runs jobs like another runner and counts them."""

    def __init__(self, runner: Launcher | Warm) -> None:
        self.runner, self.jobs = runner, 0

    def run(self, job: Job, limit: float, on_record: OnRecord | None = None) -> Outcome:
        self.jobs += 1
        return self.runner.run(job, limit, on_record)


def test_unchanged_chapters_are_not_run_again(book: RunnableBook) -> None:
    runner = Counting(Launcher(book.root / "models"))

    def run(is_fresh: bool = False) -> int:
        made = book.load()
        kept = cache.Results(book.root, is_fresh)
        lineup = Lineup(book.root / "models")
        context = Context(made, lineup, Reference(), runner, runner, kept, Limits())
        before, chapters = runner.jobs, [made.chapter(1)]
        assert check_chapters(context, chapters, 1, Plain(chapters), only=EXECUTED).is_passed
        return runner.jobs - before

    assert [run(), run(), run(is_fresh=True)] == [3, 0, 3]
    book.write(TEST, book.read(TEST) + "\n# changed\n")
    assert run() == 1
    book.edit(CORE, "Greedy decoding", "Greedy  decoding")
    assert run() == 3


def test_parity_is_next_once_its_references_are_there(book: RunnableBook) -> None:
    class Begun(Plain):
        def begin(self, chapter: Chapter, check: str) -> None:
            begun.append(check)

    begun: list[str] = []
    made = book.load()
    lineup, chapters = Lineup(book.root / "models"), [made.chapter(1)]
    runner, kept = Launcher(lineup.folder), cache.Results(book.root, is_fresh=True)
    context = Context(made, lineup, Reference(), runner, runner, kept, Limits())
    assert check_chapters(context, chapters, 1, Begun(chapters), only=EXECUTED).is_passed
    assert begun == ["parity", "manifest", "tests", "main", "untouched"]


def test_forked_jobs_give_the_same_verdicts(book: RunnableBook) -> None:
    with Warm(book.root / "models", preload=("json",)) as warm:
        assert book.check(runner=warm).is_passed
        book.edit(MAIN, IN_MAIN, IN_MAIN + BROKEN_MAINS["main_is_killed"])
        assert book.check("main", runner=warm).chapters[0].results[0].verdict == "crashed"
        book.edit(CORE, "        self.steps += 1\n", "")
        assert book.check("tests", runner=warm).chapters[0].results[0].verdict == "failed"
