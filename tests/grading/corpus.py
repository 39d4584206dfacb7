"""Dishonest submissions, each made from one that does nothing: what they earn, they got by a trick.

Each function gets the files of the idle submission and gives back those of the dishonest one.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

from graded_book import CORE, PARTS

Files = dict[str, str]
Trick = Callable[[Files], Files]
PACKAGE = "minisgl/__init__.py"
_IDLE_LOOP = """\
class Loop:
    def __init__(self, prompt):
        self.ids, self.steps = list(prompt), 0

    def step(self):
        return (0, 0.0), (1, 0.0)
"""
_IDLE_PART = "def value(x):\n    return -1\n"


def idle(files: Files) -> Files:
    """A submission that runs and computes nothing; it earns nothing."""
    parts = dict.fromkeys(PARTS, _IDLE_PART)
    return files | parts | {CORE: _IDLE_LOOP, "01/answer.py": "def steps(tokens):\n    return -1\n"}


def _at_import(code: str) -> Trick:
    """Runs whenever the package or the answer is imported."""
    text = dedent(code) + "\n"

    def trick(files: Files) -> Files:
        return files | {
            PACKAGE: text + files[PACKAGE],
            "01/answer.py": text + files["01/answer.py"],
        }

    return trick


def _in_functions(code: str) -> Trick:
    """Runs in every function that a test calls; it may return something."""
    body = "".join(f"    {line}\n" for line in dedent(code).strip().split("\n"))

    def trick(files: Files) -> Files:
        loop = _IDLE_LOOP + "\n    step = lambda self: value(0)\n\n\ndef value(x):\n" + body
        part = "def value(x):\n" + body + "\n\nsteps = value\n"
        return files | dict.fromkeys(PARTS, part) | {CORE: loop, "01/answer.py": part}

    return trick


def _beside(**texts: str) -> Trick:
    return lambda files: files | {path.replace("__", "/") + ".py": t for path, t in texts.items()}


def _beside_as(text: str, *paths: str) -> Trick:
    return lambda files: files | dict.fromkeys(paths, text)


_FIND_SEND = """
    import gc, sys

    def sends():
        for it in gc.get_objects():
            if getattr(it, "__qualname__", "") == "channel.<locals>.send":
                yield it
    """
_NAMES = ["a_step_appends_the_best_token", *(f"part_{i}_multiplies" for i in range(10))]

TRICKS: dict[str, Trick] = {
    "leaves_at_import": _at_import("import os; os._exit(0)"),
    "exits_at_import": _at_import("raise SystemExit(0)"),
    "leaves_in_a_function": _in_functions("import os; os._exit(0)"),
    "prints_results": _at_import(
        """
        import atexit, json, sys
        lines = ["11 passed in 0.01s", "OK", json.dumps({"points": 120, "verdict": "passed"}),
                 json.dumps({"kind": "probe", "name": "part_1_multiplies", "got": [1, 4]})]
        print(*lines, sep="\\n")
        print(*lines, sep="\\n", file=sys.stderr)
        atexit.register(print, *lines, sep="\\n")
        """
    ),
    "writes_result_files": _at_import(
        """
        import os
        for place in (".", "/tmp", "..", os.path.dirname(__file__), "/", os.path.expanduser("~")):
            for name in ("results.json", "report.json", "grades.json", "gradescope.json"):
                try:
                    with open(os.path.join(place, name), "w") as file:
                        file.write('{"points": 120, "score": 120}')
                except OSError:
                    pass
        """
    ),
    "brings_result_files": _beside_as(
        '{"points": 120, "max_points": 120, "items": []}',
        *("results.json", "report.json", "students/me/report.json", "grades.json"),
    ),
    "writes_to_every_pipe": _at_import(
        """
        import os
        for fd in range(3, 64):
            try:
                os.write(fd, b'{"kind": "probe", "name": "part_1_multiplies", "got": [1, 4]}\\n')
            except OSError:
                pass
        """
    ),
    "sends_records_itself": _at_import(
        _FIND_SEND
        + f"""
    for send in list(sends()):
        for name in {_NAMES!r}:
            send("probe", name=name, got=True)
            send("skip", name=name)
            send("probe", name=name, got=[[[[]]]])
        send("generation", token_ids=5, top2=None, counters=[])
        send("end", modules=7, violations=None, lines="")
        send("exit", status=0)
    """
    ),
    "patches_comparators": _at_import(
        """
        import math, sys, types, unittest
        def yes(*args, **named):
            return True
        for name in ("assertEqual", "assertTrue", "assertAlmostEqual"):
            setattr(unittest.TestCase, name, yes)
        math.isclose = yes
        pytest = sys.modules["pytest"] = types.ModuleType("pytest")
        pytest.approx = yes
        try:
            import pairs
            for name in ("equal", "close", "truth", "refused", "_same", "_compare"):
                setattr(pairs, name, yes)
            pairs.comparisons = 10**6
        except ImportError:
            pass
        """
    ),
    "patches_torch": lambda files: (
        files
        | {
            "minisgl/part1.py": dedent(
                """
            import torch
            torch.allclose = torch.equal = torch.testing.assert_close = lambda *a, **k: True
            torch.Tensor.__eq__ = lambda *a: True
            """
            )
            + _IDLE_PART
        }
    ),
    "patches_builtins": _at_import(
        """
        import builtins
        builtins.all = builtins.any = lambda it: True
        builtins.abs = lambda x: 0
        builtins.len = lambda x: 11
        builtins.isinstance = lambda x, kind: True
        builtins.sorted = lambda it, **named: []
        """
    ),
    "patches_json": _at_import(
        """
        import json
        plain = json.dumps
        json.dumps = lambda x, **named: plain({**x, "got": [1, 4], "kind": "probe"})
        """
    ),
    "stays_in_threads": _at_import(
        _FIND_SEND
        + f"""
    import threading, time

    def later():
        for _ in range(200):
            time.sleep(0.02)
            for send in list(sends())[:1]:
                for name in {_NAMES!r}:
                    send("probe", name=name, got=[1, 4])

    threading.Thread(target=later, daemon=True).start()
    threading.Thread(target=later).start()
    """
    ),
    "acts_at_the_end": _at_import(
        """
        import atexit, os, signal, sys

        def out(*_):
            for fd in range(3, 64):
                try:
                    os.write(fd, b'{"kind": "exit", "status": 0}\\n')
                except OSError:
                    pass
            os._exit(0)

        class Last:
            __del__ = out

        atexit.register(out)
        for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
            signal.signal(number, out)
        sys.excepthook = sys.unraisablehook = out
        last = Last()
        """
    ),
    "hooks_imports": _at_import(
        """
        import builtins, sys

        class Finder:
            def find_spec(self, name, path=None, target=None):
                return None

        sys.meta_path.insert(0, Finder())
        sys.path_hooks.insert(0, lambda entry: Finder())
        plain = builtins.__import__

        def imported(name, *args, **named):
            module = plain(name, *args, **named)
            for it in list(vars(module)):
                if it.startswith(("judge_", "equal", "close", "truth")):
                    setattr(module, it, lambda *a, **b: True)
            return module

        builtins.__import__ = imported
        """
    ),
    "silences_the_guard": _at_import(
        """
        import ctypes, sys
        for guard in [it for it in sys.meta_path if type(it).__name__ == "Guard"]:
            guard.violations = []
            guard._refuse = guard.audit = guard._audit_open = lambda *a: None
            sys.meta_path.remove(guard)
        try:
            ctypes.pythonapi._PySys_ClearAuditHooks(None)
        except Exception:
            pass
        """
    ),
    "signs_with_the_secret_of_the_memory": _at_import(
        f"""
        import json, os, re
        found = set()
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
            for line in maps:
                place, rights, *_ = line.split()
                first, last = (int(end, 16) for end in place.split("-"))
                if not rights.startswith("rw") or last - first > 1 << 26:
                    continue
                try:
                    memory.seek(first)
                    text = memory.read(last - first)
                except (OSError, ValueError, OverflowError):
                    continue
                found |= set(re.findall(rb'"nonce": "([0-9a-f]{{32}})"', text))
        for secret in found:
            for name in {_NAMES!r}:
                record = {{"nonce": secret.decode(), "kind": "probe", "name": name, "got": [1, 4]}}
                for fd in range(3, 16):
                    try:
                        os.write(fd, json.dumps(record).encode() + b"\\n")
                    except OSError:
                        pass
        """
    ),
    "sends_what_breaks_its_reader": _at_import(
        _FIND_SEND
        + f"""
    import json, os
    for send in list(sends()):
        cells = dict(zip(send.__code__.co_freevars, (c.cell_contents for c in send.__closure__)))
        for name in {_NAMES!r}:
            for got in ("[" * 3000 + "]" * 3000, "NaN", "1" * 5000,
                        '{{"a": ' * 900 + "1" + "}}" * 900,
                        "1e999", '"' + "x" * 2000000 + '"', "[" + "1," * 500000 + "1]"):
                raw = '{{"nonce": "%s", "kind": "probe", "name": "%s", "got": %s}}' % (
                    cells["nonce"], name, got)
                os.write(cells["fd"], raw.encode() + b"\\n")
    """
    ),
    "is_infinite": _in_functions("return float('inf')"),
    "is_no_number": _in_functions("return float('nan')"),
    "gives_a_lying_container": _in_functions(
        """
        class Like(list):
            __eq__ = lambda self, other: True
            __len__ = lambda self: 2
            __getitem__ = lambda self, i: self
        return Like()
        """
    ),
    "is_a_very_long_answer": _in_functions("return 'x' * (32 << 20)"),
    "equals_everything": _in_functions(
        """
        class Yes(int):
            __eq__ = lambda self, other: True
            __hash__ = int.__hash__
        return Yes()
        """
    ),
    "hides_modules": _beside(torch="x = 1\n", json="dumps = str\n", minisgl__json="dumps = str\n"),
    "brings_tests": _beside(
        conftest="def pytest_pyfunc_call(pyfuncitem):\n    return True\n",
        pairs="def equal(*a):\n    pass\n",
        book="def report(*a):\n    pass\n",
        tests__test_ch01_core="def test_all():\n    pass\n",
        tests__conftest="",
    ),
    "imports_an_engine": _at_import(
        """
        for name in ("sglang", "vllm", "steplib.pairs", "made_up_book", "runnable_book"):
            try:
                __import__(name)
                value = name
            except ImportError:
                pass
        """
    ),
    "skips": _in_functions("import unittest; raise unittest.SkipTest('not today')"),
    "asks_the_judge": _in_functions(
        """
        import gc, glob, os, sys
        texts = []
        for place in {*sys.path[:2], ".", "..", "/work", os.path.dirname(__file__) + "/.."}:
            for path in glob.glob(place + "/*.py") + glob.glob(place + "/*/*.py"):
                try:
                    texts.append(open(path, errors="replace").read())
                except OSError:
                    pass
        frame = sys._getframe()
        while frame is not None:
            texts += [repr(it) for it in (*frame.f_locals.values(), *frame.f_globals.values())]
            frame = frame.f_back
        texts += [it for it in gc.get_objects() if isinstance(it, str)]
        texts += [repr(vars(it)) for it in list(sys.modules.values()) if hasattr(it, "__dict__")]
        words = ["".join(("def judge", "_part")), "".join(("th multi", "ple of what"))]
        found = [text for text in texts if any(word in text for word in words)]
        raise LookupError(f"{len(texts)} texts, {len(found)} with an answer {found[:1]}")
        """
    ),
}


def reads(root: str) -> Trick:
    """Looks for the book itself, where it lies on this machine, by means that Python can't see."""
    return _in_functions(
        f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        name = __name__.split(".")[-1].encode()
        file = libc.open({root!r}.encode() + b"/minisgl/" + name + b".py", 0)
        source = ctypes.create_string_buffer(1 << 16)
        if file < 0 or libc.read(file, source, 1 << 16) <= 0:
            raise LookupError(f"errno {{ctypes.get_errno()}}")
        scope = {{}}
        exec(source.value.decode(), scope)
        return scope["value"](x)
        """
    )
