"""step.toml is read strictly: each mistake is one sentence that names the file and the key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MANIFESTS, MadeUpBook

from steplib import manifest
from steplib.errors import UserError
from steplib.manifest import Early, Inert, Later, Manifest, ParityRun

HEAD = MANIFESTS[1]

FULL = (
    HEAD
    + """
[[early]]
path = "minisgl/info.py"
owner = 16
reason = "linear layers ask for the rank"
whole = true
[[later]]
module = "minisgl.attention.base"
names = ["BaseAttnBackend"]
chapter = 5
[[inert]]
symbol = "minisgl/core.py::SamplingParams.ignore_eos"
chapter = 11
[parity]
models = ["tiny-qwen3"]
counters = ["cached_tokens"]
[[parity.runs]]
config = { page_size = 4 }
counters = ["pages"]
[main]
second_process = true
"""
)

MISTAKES = {
    "unknown_key": HEAD + 'modifes = ["minisgl/core.py"]\n',
    "unknown_key_far_from_any": HEAD + "zebra = 1\n",
    "unknown_key_inside": HEAD + "[parity]\nmodel = []\n",
    "missing_key": 'slug = "core-data-structures"\n',
    "missing_key_inside": HEAD + '[[early]]\npath = "minisgl/a.py"\nowner = 5\n',
    "wrong_type": HEAD.replace("number = 1", 'number = "1"'),
    "true_is_no_number": HEAD.replace("number = 1", "number = true"),
    "text_for_list": HEAD + 'modifies = "minisgl/core.py"\n',
    "wrong_type_inside": HEAD + 'modifies = ["minisgl/a.py", 3]\n',
    "value_for_table": HEAD + "parity = 3\n",
    "not_toml": HEAD + "creates\n",
    "other_folder": HEAD.replace("number = 1", "number = 4"),
    "path_outside": HEAD.replace("minisgl/core.py", "../core.py"),
    "path_of_another_file": HEAD.replace("minisgl/core.py", "other.py"),
    "listed_twice": HEAD + 'modifies = ["minisgl/core.py"]\n',
    "early_owner_before": HEAD + '[[early]]\npath = "minisgl/a.py"\nowner = 1\nreason = "r"\n',
    "later_chapter_before": HEAD + '[[later]]\nmodule = "minisgl.a"\nnames = ["A"]\nchapter = 0\n',
}


def test_every_key_is_read(made_up: MadeUpBook) -> None:
    assert manifest.load(made_up.manifest(1, FULL)) == Manifest(
        number=1,
        slug="core-data-structures",
        creates=("minisgl/__init__.py", "minisgl/core.py"),
        early=(Early("minisgl/info.py", 16, "linear layers ask for the rank", True),),
        later=(Later("minisgl.attention.base", ("BaseAttnBackend",), 5),),
        inert=(Inert("minisgl/core.py::SamplingParams.ignore_eos", 11),),
        parity=manifest.Parity(
            ("tiny-qwen3",), ("cached_tokens",), (ParityRun({"page_size": 4}, (), ("pages",)),)
        ),
        main=manifest.Main(second_process=True),
    )


def test_without_runs_there_is_one_with_no_settings(made_up: MadeUpBook) -> None:
    assert manifest.load(made_up.manifest(1, HEAD)).parity.runs == (ParityRun(),)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(
    made_up: MadeUpBook, golden: Callable[[str, str], None], mistake: str
) -> None:
    made_up.manifest(1, MISTAKES[mistake])
    with pytest.raises(UserError) as caught:
        made_up.load()
    golden(f"manifest_{mistake}", str(caught.value))


def test_a_missing_manifest_is_named(
    made_up: MadeUpBook, golden: Callable[[str, str], None]
) -> None:
    made_up.remove("steps/01-core-data-structures/step.toml")
    with pytest.raises(UserError) as caught:
        made_up.load()
    golden("manifest_missing_file", str(caught.value))


def test_a_parity_run_on_a_model_that_is_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "01-one"
    folder.mkdir()
    lines = [
        "number = 1",
        'slug = "one"',
        'creates = ["minisgl/one.py"]',
        "[parity]",
        'models = ["tiny-qwen3"]',
        'counters = ["steps"]',
        "[[parity.runs]]",
        "config = { page_size = 4 }",
        'models = ["tiny-qwn3"]',
    ]
    (folder / "step.toml").write_text("\n".join(lines))
    with pytest.raises(UserError, match='"tiny-qwn3", which is not in parity.models'):
        manifest.load(folder / "step.toml")
