"""Forward references: every way to name what a later chapter brings is found."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from made_up_book import MANIFESTS, NAMES, MadeUpBook, shown

from steplib.static import forward_references

Golden = Callable[[str, str], None]
KEPT = "steps/01-core-data-structures/files/minisgl/core.py"
LATER = '[[later]]\nmodule = "%s"\nnames = ["%s"]\nchapter = 2\n'
TYPING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from minisgl.%s import %s\n"

FORWARD = {
    "plain": "import minisgl.ops\n",
    "plain_with_alias": "import minisgl.ops as o\n",
    "from_package": "from minisgl import ops\n",
    "from_module": "from minisgl.ops import double\n",
    "relative_import": "from .ops import double\n",
    "relative_import_of_module": "from . import ops\n",
    "inside_function": "def lazy() -> None:\n    from minisgl.ops import double\n",
    "inside_try": "try:\n    import minisgl.ops\nexcept ImportError:\n    pass\n",
    "by_string": "import importlib\nimportlib.import_module('minisgl.ops')\n",
    "by_relative_string": "import importlib\nimportlib.import_module('.ops', __package__)\n",
    "by_relative_string_nowhere": "import importlib\nimportlib.import_module('.no', __package__)\n",
    "by_dunder_import": "__import__('minisgl.ops')\n",
    "by_find_spec": "from importlib.util import find_spec\nfind_spec('minisgl.ops')\n",
    "by_computed_name": "from importlib import import_module\nimport_module('minisgl.' + 'ops')\n",
    "by_formatted_name": "from importlib import import_module\nimport_module(f'minisgl.{1}')\n",
    "by_registry": "BACKENDS = {'ops': 'minisgl.ops:double'}\n",
    "by_relative_registry": (
        "from importlib import import_module\nTABLE = {'ops': '.ops'}\n"
        "def load(name: str) -> None:\n    import_module(TABLE[name], __package__)\n"
    ),
    "by_executed_text": "exec('import minisgl.ops')\n",
    "by_attribute": "import minisgl\ndef f() -> None:\n    minisgl.ops.double(1)\n",
    "symbol": "from minisgl.core import added\n",
    "symbol_by_attribute": "import minisgl.core\ndef f() -> None:\n    minisgl.core.added()\n",
    "symbol_by_alias": "from minisgl import core\ndef f() -> None:\n    core.added()\n",
    "symbol_nowhere": "from minisgl.core import never\n",
    "typing_without_entry": TYPING % ("ops", "double"),
    "syntax_error": "def f(:\n",
}


@pytest.mark.parametrize("kind", FORWARD)
def test_a_forward_reference_in_the_tree(made_up: MadeUpBook, golden: Golden, kind: str) -> None:
    made_up.append(KEPT, FORWARD[kind])
    golden(f"static_{kind}", shown(forward_references(made_up.load(), 1)))


@pytest.mark.parametrize(
    "path",
    [
        f"steps/{NAMES[1]}/main.py",
        f"steps/{NAMES[1]}/examples/one.py",
        "tests/test_ch01_core.py",
        "steps/book.py",
    ],
)
def test_a_forward_reference_beside_the_tree(made_up: MadeUpBook, path: str) -> None:
    made_up.write(path, "def probe(seed: int) -> None:\n    from minisgl.core import added\n")
    assert [p.where for p in forward_references(made_up.load(), 1)] == [f"{path}:2"]
    assert forward_references(made_up.load(), 2) == []


def test_the_engine_of_chapter_00_may_not_import_the_package(made_up: MadeUpBook) -> None:
    made_up.append(f"steps/{NAMES[0]}/files/minimal_engine.py", "import minisgl.core\n")
    assert len(forward_references(made_up.load(), 0)) == 1
    assert forward_references(made_up.load(), 1) == []


def test_a_module_of_the_finished_package_does_not_answer(
    made_up: MadeUpBook, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when minisgl is installed, here by way of the path: the tree alone counts."""
    monkeypatch.setattr(sys, "path", [str(made_up.root), *sys.path])
    assert (made_up.root / "minisgl/ops.py").is_file()
    made_up.append(KEPT, "import minisgl.ops\n")
    golden("static_plain", shown(forward_references(made_up.load(), 1)))


SOUND = {
    "what the tree has": "from minisgl.core import first\nimport minisgl.core as c\nc.first()\n",
    "a submodule": "from minisgl import core\ncore.last()\n",
    "a re-exported name": "from minisgl import first\n",
    "a starred name": "from minisgl.star import first\n",
    "other packages": "import os.path\nfrom collections import abc\nabc.Set\n",
    "a local name like a module": "from minisgl import core\ndef f(core: str) -> str:\n"
    "    return core.upper()\n",
    "words in a docstring": 'def f() -> None:\n    """minisgl.ops"""\n',
    "a text with a dot": "from importlib import import_module\nSUFFIX = '.safetensors'\n"
    "import_module(SUFFIX)\n",
    "a computed name elsewhere": "import importlib\nimportlib.import_module(f'torch_{1}')\n",
    "its own global": "def f() -> None:\n    global made\n    made = 1\n",
    "a made attribute": "from minisgl.lazy import made_on_demand\n",
}


@pytest.mark.parametrize("kind", SOUND)
def test_no_false_alarm(made_up: MadeUpBook, kind: str) -> None:
    listed = '"minisgl/core.py", "minisgl/star.py", "minisgl/lazy.py"'
    made_up.manifest(1, MANIFESTS[1].replace('"minisgl/core.py"', listed))
    made_up.write("minisgl/__init__.py", "from minisgl.core import first as first\n")
    made_up.write("minisgl/star.py", "from minisgl.core import *\n")
    made_up.write(
        "minisgl/lazy.py",
        "def __getattr__(name: str) -> int:\n"
        "    if name == 'made_on_demand':\n        return 1\n    raise AttributeError(name)\n",
    )
    made_up.append(KEPT, SOUND[kind])
    assert forward_references(made_up.load(), 1) == []


@pytest.mark.parametrize(("module", "name"), [("ops", "double"), ("core", "added")])
def test_a_listed_name_may_be_used_for_typing(made_up: MadeUpBook, module: str, name: str) -> None:
    made_up.append(KEPT, TYPING % (module, name))
    made_up.manifest(1, MANIFESTS[1] + LATER % (f"minisgl.{module}", name))
    assert forward_references(made_up.load(), 1) == []


def test_a_listed_name_may_not_be_used_at_run_time(made_up: MadeUpBook) -> None:
    made_up.append(KEPT, "from minisgl.ops import double\n")
    made_up.manifest(1, MANIFESTS[1] + LATER % ("minisgl.ops", "double"))
    assert f"{KEPT}:11" in [p.where for p in forward_references(made_up.load(), 1)]


def test_a_name_for_typing_is_not_there_at_run_time(made_up: MadeUpBook) -> None:
    made_up.append(KEPT, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\n")
    made_up.write(f"steps/{NAMES[1]}/main.py", "from minisgl.core import os\n")
    assert len(forward_references(made_up.load(), 1)) == 1


def test_two_modules_that_take_a_name_from_each_other_have_none(made_up: MadeUpBook) -> None:
    made_up.append(KEPT, "from minisgl import added\n")
    made_up.write("minisgl/__init__.py", "from minisgl.core import added\n")
    assert len(forward_references(made_up.load(), 1)) == 2
    assert forward_references(made_up.load(), 2) == []


def test_what_a_function_imports_is_no_name_of_its_module(made_up: MadeUpBook) -> None:
    made_up.write("minisgl/__init__.py", "def f() -> None:\n    from minisgl.core import first\n")
    made_up.append(KEPT, "from minisgl import first\n")
    assert [p.where for p in forward_references(made_up.load(), 1)] == [f"{KEPT}:11"]


def test_an_entry_that_nothing_needs_is_named(made_up: MadeUpBook, golden: Golden) -> None:
    made_up.manifest(1, MANIFESTS[1] + LATER % ("minisgl.ops", "double"))
    golden("static_stale_later_entry", shown(forward_references(made_up.load(), 1)))


def test_an_entry_holds_until_its_chapter(made_up: MadeUpBook) -> None:
    made_up.append("minisgl/core.py", TYPING % ("ops", "missing"))
    made_up.append(KEPT, TYPING % ("ops", "missing"))
    made_up.manifest(1, MANIFESTS[1] + LATER % ("minisgl.ops", "missing"))
    assert forward_references(made_up.load(), 1) == []
    assert len(forward_references(made_up.load(), 2)) == 1
