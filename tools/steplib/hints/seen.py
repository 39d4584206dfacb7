"""Which hints a reader has seen, kept in the working folder beside its manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from steplib.errors import UserError
from steplib.paths import write_atomically

NAME = ".handbook-hints.json"


@dataclass
class Seen:
    """steps: for each chapter, as "09", the number of steps seen of a task, by its name."""

    folder: Path
    steps: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Seen:
        """What the folder remembers; nothing where it has no such file."""
        file = folder / NAME
        try:
            data = json.loads(file.read_bytes())
            return cls(folder, {key: _counts(tasks) for key, tasks in data.items()})
        except FileNotFoundError:
            return cls(folder)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            raise UserError(f"{file} can't be read; delete it: hints then begin anew.") from None

    def of(self, number: int, task: str) -> int:
        """How many steps of the task were seen."""
        return self.steps.get(f"{number:02d}", {}).get(task, 0)

    def note(self, number: int, task: str, step: int) -> None:
        """Remember that the steps up to this one were seen."""
        tasks = self.steps.setdefault(f"{number:02d}", {})
        if step > tasks.get(task, 0):
            tasks[task] = step
            write_atomically(self.folder / NAME, json.dumps(self.steps, indent=1) + "\n")


def _counts(tasks: dict[str, int]) -> dict[str, int]:
    return {str(name): int(count) for name, count in tasks.items()}
