"""Chapter 15: the chat in the terminal: history, commands, Ctrl-C, Ctrl-D, and errors."""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pairs import equal, public_bug, truth
from stub_frontend import left_over, reply, run, script, stub_frontend

NOTHING = [{}, {}, []]
CTRL_C, CTRL_D = "Ctrl-C", "Ctrl-D"


def chatted(*lines: str, answers: Any = script, act: Any = None) -> dict[str, Any]:
    """What a user sees who types these lines, and what was asked for.

    act(state, queues): what happens meanwhile.
    """
    from minisgl.server import shell

    left = list(lines)

    async def typed(session: Any, prompt: str = "") -> str:
        if not left:
            raise AssertionError("it asks for more than there is")
        line = left.pop(0)
        if line in (CTRL_C, CTRL_D):
            raise KeyboardInterrupt if line == CTRL_C else EOFError
        return line

    async def scene() -> dict[str, Any]:
        async with stub_frontend(answers, model_path="/models/tiny") as (state, queues):
            meanwhile = asyncio.create_task(act(state, queues)) if act else None
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                await shell.shell(state)
            if meanwhile is not None:
                await meanwhile
            asked = [msg.text for msg in queues.sent if type(msg).__name__ == "TokenizeMsg"]
            return {
                "shown": shown.getvalue().splitlines(),
                "asked": [[[each["role"], each["content"]] for each in chat] for chat in asked],
                "sent": queues.sent_as(),
                "params": [vars(m.sampling_params) for m in queues.sent if hasattr(m, "text")],
                "left": left_over(state),
                "lines": left,
            }

    with mock.patch.object(shell, "async_input", typed):
        return run(scene())


def probe_turns_keep_the_chat_until_it_begins_anew(seed):
    lines = ["say hello there", "  ", " say more ", "/reset", "/help me", "say anew", CTRL_D]
    return chatted(*lines)


def judge_turns_keep_the_chat_until_it_begins_anew(seed, got):
    first = [["user", "say hello there"]]
    both = [*first, ["assistant", "hello there "], ["user", "say more"]]
    equal(got["asked"], [first, both, [["user", "say anew"]]], "chats that were asked for")
    intro, *turns, unknown, last = got["shown"]
    truth(intro.startswith("Chat with tiny."), "the model is named", intro)
    for word in ("/reset", "Ctrl-C", "Ctrl-D"):
        truth(word in intro and word in unknown, f"the help has {word}", [intro, unknown])
    equal(turns, ["hello there ", "more ", "The chat begins anew."], "what is shown of each line")
    truth(unknown.startswith("There is no command /help. "), "an unknown command", unknown)
    equal(last, "anew ", "the answer to the new chat")
    equal([got["left"], got["lines"]], [NOTHING, []], "what is left")


def probe_an_answer_can_not_take_over_the_terminal(seed):
    return chatted("say \x1b[2Ja\x07\x9b \u00e9\tb", "say c", CTRL_D)


def judge_an_answer_can_not_take_over_the_terminal(seed, got):
    equal(
        got["shown"][1], "\ufffd[2Ja\ufffd\ufffd \u00e9\tb ", "what is shown of control characters"
    )
    equal(got["asked"][1][1], ["assistant", "\x1b[2Ja\x07\x9b \u00e9\tb "], "the chat has them")


PLAIN = "~\u00a0\u00a1\u00df\U0001f600"
"""The last character of ASCII, a space that doesn't break, and others above the controls."""


def probe_what_is_no_control_character_is_shown_as_it_is(seed):
    def answers(msg: Any) -> list[Any]:
        return [reply(msg.uid, PLAIN, finished=True)]

    return "\n".join(chatted("say it", CTRL_D, answers=answers)["shown"][1:])


def judge_what_is_no_control_character_is_shown_as_it_is(seed, got):
    equal(got, PLAIN, "what is shown")


@public_bug("B103")
def probe_ctrl_c_stops_an_answer_and_the_chat_goes_on(seed):
    def answers(msg: Any) -> list[Any]:
        return script(msg) if type(msg).__name__ == "TokenizeMsg" else []

    async def act(state: Any, queues: Any) -> None:
        for asked in (1, 3):
            while len(queues.sent) < asked:
                await asyncio.sleep(0.01)
            await queues.settle()
            signal.raise_signal(signal.SIGINT)
            while len(queues.sent) < asked + 1:
                await asyncio.sleep(0.01)

    before = signal.getsignal(signal.SIGINT)
    lines = [CTRL_C, "begin first", "wait", "say last", CTRL_C, CTRL_D]
    return {
        **chatted(*lines, answers=answers, act=act),
        "kept": signal.getsignal(signal.SIGINT) is before,
    }


def judge_ctrl_c_stops_an_answer_and_the_chat_goes_on(seed, got):
    half = [["user", "begin first"], ["assistant", "first "]]
    equal(got["asked"][0], half[:1], "the first question")
    equal(got["asked"][1], [*half, ["user", "wait"]], "half an answer is part of the chat")
    equal(got["asked"][2], [*half, ["user", "say last"]], "a question without an answer is not")
    aborts = [["AbortMsg", 0], ["AbortMsg", 1]]
    equal([got["sent"][1], got["sent"][3]], aborts, "each stopped request is aborted")
    equal(len(got["sent"]), 5, "messages: three questions, two aborts")
    equal(got["shown"][1:], ["first  [stopped]", " [stopped]", "last "], "what is shown")
    equal([got["left"], got["kept"]], [NOTHING, True], "what is left; Ctrl-C is what it was")


@public_bug("B103")
def probe_an_error_leaves_the_chat_usable(seed):
    return chatted("say a", "refuse", "fail b", "say c", CTRL_D)


def judge_an_error_leaves_the_chat_usable(seed, got):
    begun = [["user", "say a"], ["assistant", "a "]]
    for chat, words in zip(got["asked"][1:], ("refuse", "fail b", "say c"), strict=True):
        equal(chat, [*begun, ["user", words]], f"the chat with {words!r}")
    text = "\n".join(got["shown"][1:])
    for word in ("error: the prompt is too long; /reset", "error: it broke", "c "):
        truth(word in text, f"{word!r} is shown", text)
    equal([got["left"], got["lines"]], [NOTHING, []], "what is left")


def probe_a_chat_that_is_ended_from_outside_ends(seed):
    from minisgl.server import shell

    async def scene() -> list[Any]:
        async with stub_frontend() as (state, queues):
            with (
                mock.patch.object(shell, "async_input", mock.AsyncMock(return_value="begin a")),
                contextlib.redirect_stdout(io.StringIO()) as shown,
            ):
                task = asyncio.create_task(shell.shell(state))
                while not queues.sent:
                    await asyncio.sleep(0.01)
                await queues.settle()
                task.cancel()
                [end] = await asyncio.gather(task, return_exceptions=True)
            return [type(end).__name__, queues.sent_as()[1:], left_over(state), shown.getvalue()]

    return run(scene())


def judge_a_chat_that_is_ended_from_outside_ends(seed, got):
    kind, sent, left, shown = got
    equal(kind, "CancelledError", "how the chat ends")
    equal([sent, left], [[["AbortMsg", 0]], NOTHING], "its request is aborted")
    truth("[stopped]" not in shown, "nobody stopped the answer", shown)


def probe_a_chat_does_not_wait_for_a_line_once_it_is_to_end(seed):
    import os
    import time

    from minisgl.server import shell

    async def scene() -> list[str]:
        task = asyncio.create_task(shell.async_input(None))
        await asyncio.sleep(0.1)
        task.cancel()
        return [type(each).__name__ for each in await asyncio.gather(task, return_exceptions=True)]

    end, other = os.pipe()
    with open(end) as stdin, mock.patch.object(sys, "stdin", stdin):
        began = time.monotonic()
        found = run(scene())
        took = time.monotonic() - began
        os.write(other, b"late\n")
        os.close(other)
        time.sleep(0.05)
    return [found, took]


def judge_a_chat_does_not_wait_for_a_line_once_it_is_to_end(seed, got):
    equal(got[0], ["CancelledError"], "how it ends")
    truth(got[1] < 5, "it ends at once", got[1])


def probe_the_environment_says_how_tokens_are_chosen(seed):
    from minisgl.env import ENV

    plain = chatted("say a", CTRL_D)["params"][0]
    with (
        mock.patch.object(ENV.SHELL_TEMPERATURE, "value", 0.25),
        mock.patch.object(ENV.SHELL_TOP_K, "value", 7),
        mock.patch.object(ENV.SHELL_TOP_P, "value", 0.5),
        mock.patch.object(ENV.SHELL_MAX_TOKENS, "value", 9),
    ):
        return [plain, chatted("say a", CTRL_D)["params"][0]]


def judge_the_environment_says_how_tokens_are_chosen(seed, got):
    for params, want in zip(got, ([0.6, -1, 1.0, 2048], [0.25, 7, 0.5, 9]), strict=True):
        names = ("temperature", "top_k", "top_p", "max_tokens")
        equal([params[name] for name in names], want, "temperature, top_k, top_p, tokens")


def probe_lines_come_from_the_terminal_or_from_a_pipe(seed):
    from minisgl.server import shell

    asked: list[str] = []

    async def prompt_async(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    async def scene() -> list[Any]:
        session = SimpleNamespace(prompt_async=prompt_async)
        found = [await shell.async_input(session, "> ")]
        with mock.patch.object(sys, "stdin", io.StringIO("one\n\nlast")):
            for _ in range(3):
                found.append(await shell.async_input(None))
            try:
                await shell.async_input(None)
            except EOFError:
                found.append("the end")
        return found

    found = run(scene())
    shells = []
    state: Any = SimpleNamespace(config=SimpleNamespace(model_path="/models/tiny"))
    for is_terminal in (True, False):
        stdin = mock.Mock(isatty=lambda is_terminal=is_terminal: is_terminal)
        with (
            mock.patch.object(sys, "stdin", stdin),
            mock.patch.object(shell, "PromptSession", lambda: "a session"),
            mock.patch.object(shell, "async_input", mock.AsyncMock(side_effect=EOFError)) as input_,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            run(shell.shell(state))
            shells.append(list(input_.call_args.args))
    return [found, asked, shells]


def judge_lines_come_from_the_terminal_or_from_a_pipe(seed, got):
    found, asked, shells = got
    equal(found, ["typed", "one", "", "last", "the end"], "lines")
    equal(asked, ["> "], "what stands before the line in a terminal")
    equal(shells, [["a session", "> "], [None, "> "]], "a session in a terminal, none with a pipe")
