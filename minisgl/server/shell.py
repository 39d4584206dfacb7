"""A chat in this terminal."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession

from minisgl.core import SamplingParams
from minisgl.env import ENV

from .errors import ApiError
from .frontend import Choices

if TYPE_CHECKING:
    from .frontend import FrontendManager

CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}, "\ufffd")
"""Characters with which an answer could take over the terminal."""
HELP = "/reset begins anew, Ctrl-C stops an answer, Ctrl-D leaves."


async def async_input(session: PromptSession[str] | None, prompt: str = "") -> str:
    """Return a line that the user typed, or of stdin when session is None.

    Raises EOFError at its end, and KeyboardInterrupt for Ctrl-C.
    """
    if session is not None:
        line: str = await session.prompt_async(prompt)
        return line
    line = await _line_of_stdin()
    if not line:
        raise EOFError
    return line.rstrip("\n")


async def _line_of_stdin() -> str:
    """Return the next line; a chat that ends before it comes does not wait for it."""
    found: Future[str] = Future()
    found.set_running_or_notify_cancel()  # from now on it can't be cancelled

    def read() -> None:
        try:
            found.set_result(sys.stdin.readline())
        except ValueError as error:  # what comes is no text
            found.set_exception(error)

    threading.Thread(target=read, daemon=True).start()
    return await asyncio.wrap_future(found)


async def shell(state: FrontendManager) -> None:
    """Chat until the user leaves. How tokens are chosen comes from MINISGL_SHELL_ variables."""
    session: PromptSession[str] | None = PromptSession() if sys.stdin.isatty() else None
    chat: list[dict[str, str]] = []
    print(f"Chat with {Path(state.config.model_path).name}. {HELP}")
    while True:
        try:
            text = (await async_input(session, "> ")).strip()
        except KeyboardInterrupt:
            continue  # it clears the line
        except EOFError:
            return
        if text == "/reset":
            chat = []
            print("The chat begins anew.")
        elif text.startswith("/"):
            print(f"There is no command {text.split()[0]}. {HELP}")
        elif text:
            await _turn(state, chat, text)


async def _turn(state: FrontendManager, chat: list[dict[str, str]], text: str) -> None:
    """Answer text; both become part of the chat, unless there is no answer."""
    chat.append({"role": "user", "content": text})
    said: list[str] = []
    answer = asyncio.create_task(_answer(state, chat, said))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, answer.cancel)
    try:
        await answer
        print()
    except ApiError as error:
        print(f"\nerror: {error.message}; /reset begins a new chat")
    except asyncio.CancelledError:
        if (chatting := asyncio.current_task()) is None or chatting.cancelling():
            print()
            raise  # the whole chat is to end; what is said of that gets a line of its own
        print(" [stopped]")
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    if said:
        chat.append({"role": "assistant", "content": "".join(said)})
    else:
        chat.pop()


async def _answer(state: FrontendManager, chat: list[dict[str, str]], said: list[str]) -> None:
    """Print the answer's text as it comes, and put it into said."""
    params = SamplingParams(
        temperature=ENV.SHELL_TEMPERATURE.value,
        top_k=ENV.SHELL_TOP_K.value,
        top_p=ENV.SHELL_TOP_P.value,
        max_tokens=ENV.SHELL_MAX_TOKENS.value,
    )
    async with Choices(state, [list(chat)], [params], []) as choices:
        async for pieces in choices.pieces():
            for _, piece in pieces:
                said.append(piece.text)
                print(piece.text.translate(CONTROLS), end="", flush=True)
