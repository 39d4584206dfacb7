"""`tests NN`: what the chapter's tests say, one line a pair."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.blocks.base import BlockError, Request

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

WORDS = {
    "bf16": "bfloat16", "cpu": "CPU", "fp32": "float32", "gpu": "GPU", "gqa": "GQA", "hf": "HF",
    "id": "id", "kv": "KV", "llama": "Llama", "llama3": "Llama 3", "lm": "LM", "mistral": "Mistral",
    "mlp": "MLP", "qkv": "QKV", "qwen2": "Qwen2", "qwen3": "Qwen3", "rmsnorm": "RMSNorm",
    "rope": "RoPE", "swiglu": "SwiGLU", "tp": "TP",
}  # fmt: skip

SHORTENED = re.compile(r"\b(ca|do|does|did|is|are|was|wo)nt\b")  # a name can't hold "can't"


def render(request: Request) -> str:
    """A list, headed by the file's name."""
    chapter = request.chapter()
    files = test_files(request.book, chapter)
    if not files:
        name = f"tests/test_ch{chapter.number:02d}_*.py"
        raise BlockError(f"Chapter {chapter.number:02d} has no {name}; write one.")
    return "\n\n".join(_listed(file) for file in files)


def test_files(book: Book, chapter: Chapter) -> list[Path]:
    """The chapter's files of test pairs."""
    return sorted((book.root / "tests").glob(f"test_ch{chapter.number:02d}_*.py"))


def _listed(file: Path) -> str:
    module = ast.parse(file.read_text(encoding="utf-8"))
    probes = [
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("probe_")
    ]
    if not probes:
        raise BlockError(f"tests/{file.name} has no pairs yet; write one.")
    return f"`tests/{file.name}`\n\n" + "\n".join(f"- {_sentence(probe)}" for probe in probes)


def _sentence(probe: ast.FunctionDef) -> str:
    """The first line of the probe's docstring, or its name read as a sentence."""
    doc = ast.get_docstring(probe)
    if doc:
        return doc.split("\n")[0].rstrip(".") + "."
    words = [WORDS.get(word, word) for word in probe.name.removeprefix("probe_").split("_")]
    text = " ".join(words).replace("rms norm", "RMSNorm").replace(" s ", "'s ")
    text = SHORTENED.sub(r"\1n't", text)
    return text[:1].upper() + text[1:] + "."
