"""What a child does for its parent: run a main, call generate, run probes. Data only, no verdicts.

Runs inside the child; imports nothing of the tool but isolation and apart.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest import SkipTest

from steplib import apart
from steplib.isolation import Guard, load

Send = Callable[..., None]
CUT = b"\0"
"""Ends a line that a killed job may have begun: no record ends so, whoever reads passes it over."""


def channel(fd: int, nonce: str) -> Send:
    """A function that sends one record to the parent, signed with the job's secret."""
    os.set_inheritable(fd, False)

    def send(kind: str, **data: Any) -> None:
        raw = json.dumps({"nonce": nonce, "kind": kind, **data}).encode() + b"\n"
        while raw:
            raw = raw[os.write(fd, raw) :]

    return send


def run(job: dict[str, Any], send: Send) -> None:
    """Do the job; the record "end" says that it came to its end, with what was loaded."""
    guard = Guard(job["tree"], job["scratch"], job["root"], job["second_process"])
    measured = _start_coverage(job["tree"]) if job["coverage"] else None
    try:
        if job.get("apart"):
            apart.keep(job["apart"], job, guard.violations)
        guard.install()
        send("start")
        _KINDS[job["kind"]](job, send)
    except BaseException as error:
        send("error", **described(error, job))
    lines = _executed_lines(measured, job["tree"]) if measured else {}
    by_probe = _lines_by_probe(measured, job["tree"]) if measured and job.get("by_probe") else {}
    modules = guard.modules()
    send("end", modules=modules, violations=guard.violations, lines=lines, by_probe=by_probe)


def _main(job: dict[str, Any], send: Send) -> None:
    """Run a script as __main__, and pass on what it reports through book.report."""
    book = load("book", Path(job["scratch"], "book.py"))
    book.receivers.append(lambda generation: send("generation", **_answer(generation)))
    script = Path(job["scratch"], job["script"])
    module = ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module
    sys.argv = [job["script"], *job["argv"]]
    try:
        exec(_compiled(script), module.__dict__)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise


def _compiled(script: Path) -> CodeType:
    return compile(script.read_bytes(), str(script), "exec")


def _generate(job: dict[str, Any], send: Send) -> None:
    """Call the main's generate once per call; a call that raises leaves the others alone."""
    main = load("main", Path(job["scratch"], "main.py"))
    for index, call in enumerate(job["calls"]):
        send("start", index=index)
        try:
            config = call["config"]
            got = main.generate(call["model_path"], call["prompts"], call["max_tokens"], **config)
            send("generation", index=index, **_answer(got))
        except BaseException as error:
            send("error", index=index, **described(error, job))


def _probes(job: dict[str, Any], send: Send) -> None:
    """Run the named probes of one test file, one record each as they finish."""
    module = load(job["module"], Path(job["scratch"], job["module"] + ".py"))
    for name, seed in job["probes"]:
        send("start", name=name)
        if job.get("by_probe"):
            _measure_as(name)
        try:
            got = getattr(module, "probe_" + name)(seed)
            _demand_plain(got, "the probe's data")
            send("probe", name=name, got=got)
        except SkipTest as reason:
            if _came_through(reason, job["tree"]):  # only the tests may ask for it
                send("error", name=name, **described(reason, job))
            else:
                send("skip", name=name, reason=str(reason) or "no reason given")
        except BaseException as error:
            send("error", name=name, **described(error, job))


_KINDS = {"main": _main, "generate": _generate, "probes": _probes}


def _answer(generation: Any) -> dict[str, Any]:
    """A Generation as plain data; TypeError in one sentence when it is something else."""
    try:
        return {
            "token_ids": [[int(t) for t in row] for row in generation.token_ids],
            "top2": [
                [[[int(i), float(x)] for i, x in token] for token in row] for row in generation.top2
            ],
            "counters": {str(k): int(v) for k, v in generation.counters.items()},
        }
    except (AttributeError, TypeError, ValueError) as error:
        kind = type(generation).__name__
        raise TypeError(f"this is no usable Generation but a {kind} ({error})") from None


def _demand_plain(value: Any, what: str) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _demand_plain(item, what)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{what} has the key {key!r}; keys must be strings")
            _demand_plain(item, what)
    elif not (value is None or type(value) in (bool, int, float, str)):
        kind = type(value).__name__
        raise TypeError(f"{what} holds a {kind}; give back plain data, with .tolist() or int()")


def _came_through(error: BaseException, tree: str) -> bool:
    """Whether code of the tree raised it, or stood between the probe and what did."""
    return any(f.filename.startswith(tree) for f in traceback.extract_tb(error.__traceback__))


def described(error: BaseException, job: dict[str, Any]) -> dict[str, str]:
    """An exception as data: its type, message, the last place in the book's code, and a trace."""
    if isinstance(error, apart.Elsewhere):
        return error.described
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith((job["tree"], job["scratch"]))]
    text = [f"{_place(f, job)} in {f.name}: {f.line}" for f in own]
    if isinstance(error, SyntaxError) and error.filename:
        text.append(f"{Path(error.filename).name}:{error.lineno}")
    place = text[-1].split(" in ")[0] if text else ""
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"it left with exit code {error.code!r}"
    return {"error": type(error).__name__, "message": message, "place": place,
            "trace": "\n".join(text)}  # fmt: skip


def _place(frame: traceback.FrameSummary, job: dict[str, Any]) -> str:
    base = job["tree"] if frame.filename.startswith(job["tree"]) else job["scratch"]
    return f"{os.path.relpath(frame.filename, base)}:{frame.lineno}"


def _start_coverage(tree: str) -> Any:
    import coverage

    measured = coverage.Coverage(data_file=None, config_file=False, include=[tree + "/*"])
    measured.start()
    return measured


def _measure_as(name: str) -> None:
    import coverage

    if (measured := coverage.Coverage.current()) is not None:
        measured.switch_context(name)


def _lines_by_probe(measured: Any, tree: str) -> dict[str, dict[str, list[int]]]:
    """For each probe the lines it ran, by file."""
    data, found = measured.get_data(), {}
    for name in data.measured_contexts():
        data.set_query_context(name)
        found[name] = {os.path.relpath(f, tree): data.lines(f) or [] for f in data.measured_files()}
    return found


def _executed_lines(measured: Any, tree: str) -> dict[str, list[int]]:
    measured.stop()
    data = measured.get_data()
    return {
        os.path.relpath(file, tree): sorted(data.lines(file) or ())
        for file in data.measured_files()
    }
