"""Takes a model from the Hugging Face hub: from its local cache, or over the network."""

from __future__ import annotations

import errno
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from steplib.errors import UserError

FILES = [
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "LICENSE",
]
_OWN_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
TIMEOUT = 4.0  # seconds; long enough for a slow line, short enough to wait for


def endpoint() -> str:
    """The hub's address, or the mirror that HF_ENDPOINT names."""
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def is_offline() -> bool:
    """Whether the environment forbids asking the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


def is_reachable(timeout: float = TIMEOUT) -> bool:
    """Whether the hub answers at all; any answer counts."""
    if is_offline():
        return False
    request = urllib.request.Request(endpoint(), method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=timeout).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def fetch(repository: str, folder: Path) -> str:
    """Copy the needed files into `folder`; says where they came from."""
    cached = _from_cache(repository)
    if cached:
        for file in sorted(cached.iterdir()):
            shutil.copyfile(file, folder / file.name)
        return "copied from the hub's cache"
    if not is_reachable():
        why = "HF_HUB_OFFLINE is set" if is_offline() else f"{endpoint()} does not answer"
        raise UserError(
            f"{repository} is not in the hub's cache and can't be fetched: {why}; "
            "run this again where the hub can be reached."
        )
    _download(repository, folder)
    return "fetched from the hub"


def _from_cache(repository: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        place = Path(snapshot_download(repository, allow_patterns=FILES, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
    return place if any(place.glob("*.safetensors")) else None


def _download(repository: str, folder: Path) -> None:
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(repository, allow_patterns=FILES, local_dir=folder)
    except Exception as error:  # whatever the library's transport of the day raises
        if isinstance(error, OSError) and error.errno in _OWN_DISK:
            raise
        reason = (str(error) or type(error).__name__).partition("\n")[0].rstrip(".")
        raise UserError(f"{repository} was not fetched: {reason}; try again later.") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's own notes
