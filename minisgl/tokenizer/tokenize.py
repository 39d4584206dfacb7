"""Prompts into token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from minisgl.message import TokenizeMsg


class TokenizeManager:
    """Turns what clients send into what the scheduler takes.

    adds_bos: whether the tokenizer puts the begin id before a text by itself. Then a prompt begins
    with exactly one, whoever wrote it: the client, the chat template or the tokenizer. Otherwise
    it holds what the text or the template says, and nothing is added.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.bos = tokenizer.bos_token_id
        self.adds_bos = self.bos is not None and self._encode("", special=True)[:1] == [self.bos]

    def tokenize(self, msgs: list[TokenizeMsg]) -> list[torch.Tensor]:
        """Return each message's prompt ids: (tokens,) int32.

        A chat is rendered by the tokenizer's template, with the header of the answer at its end.
        Ids stay as they are, also when there are none. Raises ValueError when there is no template,
        the template refuses the chat, or an id is not one of 0 to 2**31 - 1.
        """
        return [torch.tensor(self._prompt_ids(msg.text), dtype=torch.int32) for msg in msgs]

    def _prompt_ids(self, text: str | list[dict[str, str]] | list[int]) -> list[int]:
        if isinstance(text, str):
            ids = self._encode(text, special=True)
        elif chat := [message for message in text if isinstance(message, dict)]:
            # a template writes its special tokens itself
            ids = self._encode(self._render(chat), special=False)
        else:
            return _checked([i for i in text if isinstance(i, int)])
        if not self.adds_bos:
            return ids
        own = next((i for i, token in enumerate(ids) if token != self.bos), len(ids))
        return [self.bos, *ids[own:]]

    def _encode(self, text: str, special: bool) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=special)
        return ids

    def _render(self, chat: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError

        if not self.tokenizer.chat_template:
            raise ValueError("this model has no chat template; send plain text instead of a chat")
        try:
            text = self.tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True
            )
        except TemplateError as error:
            raise ValueError(f"the model's chat template refuses this chat: {error}") from None
        return str(text)


def _checked(ids: list[int]) -> list[int]:
    wrong = next((i for i in ids if not 0 <= i < 2**31), None)
    if wrong is not None:
        raise ValueError(f"a token id is a number from 0 to 2**31 - 1, not {wrong}")
    return ids
