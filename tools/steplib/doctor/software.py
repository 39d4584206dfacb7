"""The software: packages against the ranges of pyproject.toml, the GPU, the hub, checkpoints."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata

from steplib import models
from steplib.checkpoints import hub
from steplib.doctor.findings import Finding, note, ok, problem
from steplib.paths import ROOT

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?P<range>[^;]*)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": lambda found, bound: found >= bound,
    "<": lambda found, bound: found < bound,
}

REINSTALL = 'python -m pip install --force-reinstall "torch>=2.11,<2.14"'


def findings() -> Iterator[Finding]:
    """Packages first, since the rest needs them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for requirement in project["dependencies"] + extras["dev"]:
        yield package(requirement, 'python -m pip install -e ".[dev]"')
    yield handbook(extras["site"])
    yield gpu()
    yield reach()
    for name in models.names():
        yield checkpoint(name)


def package(requirement: str, mend: str) -> Finding:
    """One package against its range, such as `torch>=2.11,<2.14`."""
    match = _REQUIREMENT.fullmatch(requirement.split(";")[0].strip())
    assert match, f"pyproject.toml: can't read the requirement {requirement!r}"
    name, wanted = match["name"], match["range"]
    found = version_of(name)
    if found is None:
        return problem(name, "not installed", f"run `{mend}`")
    if not is_within(found, wanted):
        return problem(name, f"{found}, but {wanted} is needed", f"run `{mend}`")
    return ok(name, found)


def version_of(name: str) -> str | None:
    """The installed version, without importing the package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def is_within(version: str, wanted: str) -> bool:
    """Whether a version such as 2.13.0+cpu lies in a range such as >=2.11,<2.14."""
    found = _numbers(version)
    for part in filter(None, wanted.split(",")):
        sign, bound = re.fullmatch(r"\s*(>=|<)\s*([\d.]+)\s*", part).groups()  # type: ignore[union-attr]
        if not _COMPARE[sign](found, _numbers(bound)):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """The release part, without trailing zeros, so that 2.11 and 2.11.0 are equal."""
    release = re.match(r"[\d.]*", version.split("+")[0])
    digits = [int(digit) for digit in (release[0] if release else "").split(".") if digit]
    while digits and digits[-1] == 0:
        digits.pop()
    return tuple(digits)


def handbook(requirements: list[str]) -> Finding:
    """The site extra as a whole: only `make site` needs it."""
    mend = 'python -m pip install -e ".[site]"'
    bad = [f for f in (package(r, mend) for r in requirements) if f.state != "ok"]
    if bad:
        missing = ", ".join(f"{finding.topic} {finding.value}" for finding in bad)
        return note("handbook", missing, f"run `make site` or `{mend}`")
    return ok("handbook", "all packages of the extra `site`")


def gpu() -> Finding:
    """The GPU that torch sees; the chapters run without one."""
    if version_of("torch") is None:
        return note("GPU", "unknown without torch")
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = str(error).partition("\n")[0]
        return problem("GPU", f"torch can't be imported: {reason}", f"run `{REINSTALL}`")
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        extra = "" if version_of("flashinfer-python") else ", flashinfer-python not installed"
        size = card.total_memory / (1 << 30)
        return ok("GPU", f"{card.name}, {size:.0f} GB, CUDA {torch.version.cuda}{extra}")
    if shutil.which("nvidia-smi") and torch.version.cuda is None:
        return note("GPU", "there is one, but this PyTorch is a CPU build", f"run `{REINSTALL}`")
    return ok("GPU", "none (not needed)")


def reach() -> Finding:
    """Whether the hub answers; only fetching qwen3-0.6b needs it."""
    if hub.is_offline():
        return note("hub", "not asked, since HF_HUB_OFFLINE is set")
    if hub.is_reachable():
        return ok("hub", f"{hub.endpoint()} answers")
    return note("hub", f"{hub.endpoint()} does not answer; qwen3-0.6b can't be fetched here")


def checkpoint(name: str) -> Finding:
    """One checkpoint: here and whole, damaged, or absent."""
    row = models.checkpoint(name)
    if not models.present(name):
        if row.how == "hub":
            return note(name, "absent; it joins the checks once it is fetched")
        absent = problem if row.how == "tiny" else note
        return absent(name, "absent", f"run `{row.mend}`")
    if trouble := models.problem(name):
        return problem(name, trouble.partition("; run ")[0], f"run `{row.mend}`")
    return ok(name, "present")
