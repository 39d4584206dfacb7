"""What keeps a child process honest. Runs inside the child, before any code under test.

The child may import the tree, the files of its scratch folder, the standard library and installed
packages; nothing else of the repository, and no transformers code that could answer in its place.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

_MODELING = re.compile(r"/transformers/(models/.*/modeling_[^/]*|generation/[^/]*)\.pyc?$")
_HARMLESS = re.compile(
    r"/generation/(__pycache__/)?(__init__|configuration_utils|logits_process)\.[^/]*$"
)
_MODELING_NAME = re.compile(r"transformers\.(models\..*\bmodeling_\w+|generation\.\w+)(\..*)?")
_TRIED_BY_ITSELF = "transformers.models.auto.modeling_auto"  # for docstrings; it goes without
_LISTS_SOURCES = "/transformers/utils/import_utils.py"  # reads each modeling file for its names
_PROCESS_EVENTS = frozenset(
    ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")
) | {"subprocess.Popen"}
_LOOKS = frozenset(
    ("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile",
     "gc.get_objects", "gc.get_referrers", "gc.get_referents")
)  # fmt: skip
_FRAMES = frozenset(("tb_frame", "gi_frame", "cr_frame", "ag_frame"))
_LOOKERS = ("/inspect.py", "/traceback.py")


class Refused(PermissionError):
    """The child may not do this. An OSError, so that optional look-ups just go without."""


class RefusedImport(ImportError):
    """The child may not import this."""


@dataclass
class Guard:
    """The rules of one child. All paths are real paths.

    tree: the only source of minisgl. scratch: the book's own files. root: the repository, whose
    other Python files are out of bounds. violations: what was tried in spite of the rules.
    """

    tree: str
    scratch: str
    root: str
    may_start_processes: bool = False
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tool = (
            "__init__.py",
            "apart.py",
            "apart_child.py",
            "child.py",
            "isolation.py",
            "jobs.py",
        )  # shown in tracebacks, and no secret
        self._readable = {str(Path(__file__).with_name(name)) for name in tool}
        self._is_looking = False
        places = (sys.prefix, sys.base_prefix)  # by their own names, too: one may be a link
        self._installed = tuple({*places, *map(os.path.realpath, places)})
        self._installed_below = tuple(place + os.sep for place in self._installed)
        self._tops = {"minisgl", *(path.stem for path in Path(self.tree).glob("*.py"))}

    def install(self) -> None:
        """Put the rules in force; they hold until the process ends."""
        sys.dont_write_bytecode = True
        foreign = [finder for finder in sys.meta_path if _is_editable(finder)]
        sys.meta_path[:] = [self, *(f for f in sys.meta_path if f not in foreign)]
        sys.path[:] = [self.scratch, self.tree, *filter(self._is_outside_root, sys.path)]
        self._refuse_shadows()
        sys.addaudithook(self.audit)

    def _is_outside_root(self, entry: str) -> bool:
        real = os.path.realpath(entry)
        return not _below(real, self.root) or any(_below(real, p) for p in self._installed)

    def _refuse_shadows(self) -> None:
        """A file of the tree or scratch folder may not hide an installed module."""
        for path in (*Path(self.tree).iterdir(), *Path(self.scratch).glob("*.py")):
            known = path.stem in sys.stdlib_module_names
            if path.stem != "minisgl" and (known or PathFinder.find_spec(path.stem, sys.path[2:])):
                raise RefusedImport(
                    f"{path.name} hides the installed module {path.stem!r}; rename it"
                )

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The first finder on sys.meta_path: names of the tree come from the tree or not at all."""
        if (stand_in := _stand_in(name)) is not None:
            return stand_in
        if _is_modeling(name):
            sentence = f"{name} can't be imported here; the engine may not be its own reference"
            if name == _TRIED_BY_ITSELF:
                raise RefusedImport(sentence)
            self._refuse(sentence, RefusedImport)
        if name.partition(".")[0] not in self._tops:
            return None
        spec = PathFinder.find_spec(name, path if path is not None else [self.tree])
        if spec is None:
            raise ModuleNotFoundError(f"the tree has no module {name!r}", name=name)
        if spec.origin and not _below(os.path.realpath(spec.origin), self.tree):
            self._refuse(
                f"module {name!r} would come from outside the tree: {spec.origin}", RefusedImport
            )
        return spec

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Python calls this for each opened file and each process start."""
        if event == "open" and isinstance(args[0], str | bytes):
            self._audit_open(os.fsdecode(args[0]))
        elif event in _LOOKS or (event == "object.__getattr__" and args[1] in _FRAMES):
            self._audit_look()
        elif event in _PROCESS_EVENTS and not self.may_start_processes:
            raise Refused(f"the chapter may not start a process ({event})")

    def _audit_open(self, path: str) -> None:
        real = path if self._is_installed(path) else os.path.realpath(path)
        if _below(real, os.path.join(self.root, ".cache")):
            self._refuse(f"{real} can't be opened here; the reference's answers lie there")
        if not real.endswith((".py", ".pyc")) or real in self._readable:
            return
        if _MODELING.search(real) and not _HARMLESS.search(real):
            if not sys._getframe(2).f_code.co_filename.endswith(_LISTS_SOURCES):
                self._refuse(
                    f"{_short(real)} can't be opened here; the engine may not be its own reference"
                )
        elif not (_below(real, self.tree) or _below(real, self.scratch)) and (
            "/minisgl/" in real or not self._is_outside_root(real)
        ):
            self._refuse(f"{real} lies outside the tree and can't be opened here")

    def _is_installed(self, path: str) -> bool:
        """Plainly so as it is written: there are thousands, and a real path costs system calls."""
        return path.startswith(self._installed_below) and "/../" not in path

    def _audit_look(self) -> None:
        """An answer may not find what was measured in the frames of the check that calls it."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            frame: FrameType | None = sys._getframe(2)
        finally:
            self._is_looking = False
        while frame is not None:
            file = frame.f_code.co_filename
            if file == os.path.join(self.scratch, "answer.py"):
                self._refuse("answer.py looks at frames or objects that are not its own")
            if file.startswith((self.scratch, *self._installed)) and not file.endswith(_LOOKERS):
                return
            frame = frame.f_back

    def _refuse(self, sentence: str, error: type[Exception] = Refused) -> NoReturn:
        self.violations.append(sentence)
        raise error(sentence)

    def modules(self) -> dict[str, list[str]]:
        """For each loaded module of the tree its path below the tree and its sha256.

        A module of the repository from any other place is added to the violations.
        """
        found = {}
        for name, module in sorted(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str):
                continue
            if self._is_installed(file) and name.partition(".")[0] not in self._tops:
                continue
            real = os.path.realpath(file)
            if real in self._readable:
                continue
            if _below(real, self.tree):
                digest = hashlib.sha256(Path(real).read_bytes()).hexdigest()
                found[name] = [Path(real).relative_to(self.tree).as_posix(), digest]
            elif name.partition(".")[0] in self._tops or not (
                _below(real, self.scratch) or self._is_outside_root(real)
            ):
                self.violations.append(f"module {name!r} was loaded from outside the tree: {real}")
        return found


class _ModelRefuser:
    """Refuses the same modules while nothing but libraries are imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if (stand_in := _stand_in(name)) is not None:
            return stand_in
        if _is_modeling(name):
            raise RefusedImport(name)
        return None


@contextmanager
def models_refused() -> Iterator[None]:
    """Import libraries inside, and no modeling code comes along; they do without it."""
    refuser = _ModelRefuser()
    sys.meta_path.insert(0, refuser)
    try:
        yield
    finally:
        sys.meta_path.remove(refuser)


class _EmptyMixin(Loader):
    """Makes transformers.generation.utils with nothing in it but the name that is asked for."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["GenerationMixin"] = type("GenerationMixin", (), {})


def _stand_in(name: str) -> ModuleSpec | None:
    """Up to transformers 5.17, AutoTokenizer's module takes the mixin's name and never uses it."""
    factory = sys.modules.get("transformers.models.auto.auto_factory")
    is_asking = getattr(getattr(factory, "__spec__", None), "_initializing", False)
    if name != "transformers.generation.utils" or not is_asking:
        return None
    return ModuleSpec(name, _EmptyMixin())


def _is_modeling(name: str) -> bool:
    # Up to transformers 5.17, the settings of generation import the logits processors.
    is_config = name.endswith((".configuration_utils", ".logits_process"))
    return _MODELING_NAME.fullmatch(name) is not None and not is_config


def load(name: str, file: Path) -> ModuleType:
    """Import one file of the scratch folder under `name`."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _is_editable(finder: object) -> bool:
    return getattr(finder, "__module__", "").startswith("__editable__")


def _short(path: str) -> str:
    return path[path.rindex("/transformers/") + 1 :]
