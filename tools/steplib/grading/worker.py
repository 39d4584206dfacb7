"""One worker of a grading: reads tasks from stdin, a JSON line each, and writes what they give.

It runs sandboxes and judges what comes out of them; it never imports what was handed in. What
goes wrong in it is the one task's failure: the tool starts another worker and goes on.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from steplib.errors import UserError  # noqa: E402
from steplib.grading.calibration import calibrated  # noqa: E402
from steplib.grading.exam import Exam  # noqa: E402
from steplib.grading.submission import grade  # noqa: E402

_MEMORY = 8 << 30


def main() -> None:
    """Do tasks until stdin ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    answers = os.fdopen(int(sys.argv[1]), "w")
    slot = int(sys.argv[2])
    for line in sys.stdin:
        try:
            answer = {"done": _done(json.loads(line), slot)}
        except UserError as error:
            answer = {"refused": str(error)}
        except (Exception, MemoryError, RecursionError) as error:  # noqa: B014 - a process's edge
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _done(task: dict[str, Any], slot: int) -> Any:
    told = task["exam"]
    exam = Exam(Path(told["root"]), tuple(told["chapters"]), tuple(told["exercises"]), told["seed"])
    if task["kind"] == "calibrate":
        calibrated(exam, task["chapter"], task["seeds"], slot)
        return None
    path = Path(task["path"])
    numbers = sorted({*exam.chapters, *task["used"]})
    seeds = [exam.seed_of(task["name"])]
    calibrations = {number: calibrated(exam, number, seeds, slot) for number in numbers}
    return grade(exam, calibrations, path, slot).model_dump(mode="json")


if __name__ == "__main__":
    main()
