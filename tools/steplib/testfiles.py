"""A test file's pairs, found by reading it; nothing of it is run."""

from __future__ import annotations

import ast
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from steplib.errors import UserError

_FAKES = {"stub_engine", "stub_frontend", "stub_http", "stub_online", "stub_processes"}
_IMPORTABLE = {"torch", "numpy", "pairs", "__future__"} | _FAKES | sys.stdlib_module_names


@dataclass(frozen=True)
class Pair:
    """One behavior: probe_NAME and judge_NAME. seed: what both get; bugs: ids it covers."""

    name: str
    line: int
    bugs: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())


@dataclass(frozen=True)
class TestFile:
    """A test file as it is written, without importing it."""

    __test__ = False

    path: Path
    pairs: tuple[Pair, ...]


def read(path: Path) -> TestFile:
    """The pairs of a test file; UserError when half of a pair is missing, or for a bad import."""
    module = _parsed(path)
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    _check_names(module, path.name)
    halves = {
        half: {n.removeprefix(half) for n in functions if n.startswith(half)}
        for half in ("probe_", "judge_")
    }
    for name in sorted(halves["probe_"] ^ halves["judge_"]):
        missing = "judge_" if name in halves["probe_"] else "probe_"
        raise UserError(f"{path.name}: {missing}{name} is missing; a test is a pair.")
    _check_imports(module, functions, path.name)
    probes = [node for name, node in functions.items() if name.startswith("probe_")]
    return TestFile(path, tuple(_pair(node) for node in probes))


def check_fake(path: Path) -> None:
    """UserError for a file of tests/fakes that isn't Python, or imports the code under test."""
    _check_imports(_parsed(path), {}, path.name, inside="a function")


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.name} is missing; write it.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path.name} is not UTF-8 text; save it as UTF-8.") from None
    except ValueError as error:
        raise UserError(f"{path.name}: {error}; mend it.") from None
    except SyntaxError as error:
        raise UserError(f"{path.name}:{error.lineno}: {error.msg}; mend that line.") from None


def _check_names(module: ast.Module, file: str) -> None:
    """A test that is no pair would never run, nor the first of two with one name."""
    seen = set()
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith(("test_", "Test")):
            raise UserError(
                f"{file}:{node.lineno}: {node.name} would never run; make it a pair of "
                "probe_ and judge_, or move it to tests/internal/."
            )
        if node.name in seen:
            raise UserError(f"{file}:{node.lineno}: {node.name} is there twice; rename one.")
        seen.add(node.name)


def _pair(node: ast.FunctionDef) -> Pair:
    bugs = [
        constant.value
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("public_bug")
        for constant in mark.args
        if isinstance(constant, ast.Constant)
    ]
    return Pair(node.name.removeprefix("probe_"), node.lineno, tuple(map(str, bugs)))


def _check_imports(
    module: ast.Module, functions: dict[str, ast.FunctionDef], file: str, inside: str = "a probe"
) -> None:
    judges = [node for name, node in functions.items() if name.startswith("judge_")]
    for node in [*module.body, *(inner for judge in judges for inner in ast.walk(judge))]:
        for name in _imported(node):
            if name.partition(".")[0] not in _IMPORTABLE:
                raise UserError(
                    f"{file}:{node.lineno}: {name} may only be imported inside {inside}; "  # type: ignore[attr-defined]
                    "the tool's own process never runs the code under test."
                )


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []
