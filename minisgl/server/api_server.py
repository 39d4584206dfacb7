"""The API over HTTP: its routes, and the server that runs them."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from minisgl.utils import init_logger

from .answer import Piece
from .asgi import ClientGone, EventStream, error_response, while_there
from .errors import ApiError, refusal
from .frontend import Choices, FrontendManager
from .protocol import AnyRequest, ChatCompletionRequest, CompletionRequest, GenerateRequest
from .replies import ChatReply, GenerateReply, TextReply, dump, error_event
from .reply_models import ChatCompletion, Completion, ErrorReply, ModelCard, ModelList
from .service import Service
from .shell import shell

if TYPE_CHECKING:
    from .args import ServerArgs
    from .workers import Workers

logger = init_logger(__name__)

AnyReply = ChatReply | TextReply | GenerateReply
Pieces = AsyncIterator[list[tuple[int, Piece]]]

_GLOBAL_STATE: FrontendManager | None = None


def get_global_state() -> FrontendManager:
    """Return what the routes work on."""
    assert _GLOBAL_STATE is not None, "no server is running in this process"
    return _GLOBAL_STATE


def set_global_state(state: FrontendManager) -> None:
    """Say what the routes work on."""
    global _GLOBAL_STATE
    _GLOBAL_STATE = state


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Close the queues when the server ends."""
    yield
    get_global_state().shutdown()


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorReply, "description": "Something in the request is wrong"},
    401: {"model": ErrorReply, "description": "The key is missing or wrong"},
    404: {"model": ErrorReply, "description": "There is no such model"},
    408: {"model": ErrorReply, "description": "The request took too long to arrive"},
    413: {"model": ErrorReply, "description": "The request is too large"},
    429: {"model": ErrorReply, "description": "Too many requests are waiting"},
    503: {"model": ErrorReply, "description": "The server is stopping or has failed"},
    "4XX": {"model": ErrorReply, "description": "Anything else that is wrong with the request"},
}
NO_BODY = {status: ERRORS[status] for status in (401, "4XX")}
"""What may be wrong with a request that asks for something without saying anything."""
EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
STREAM = {"text/event-stream": {"schema": EVENT | {"description": "One event of the stream."}}}
"""What a stream is to the OpenAPI page."""

app = FastAPI(title="minisgl", description="An API like OpenAI's.", lifespan=lifespan)


@app.exception_handler(ApiError)
async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError), "FastAPI calls a handler for its own kind of error"
    return error_response(error)


@app.exception_handler(RequestValidationError)
async def _on_invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "FastAPI calls a handler for its own kind"
    return error_response(refusal(error))


@app.exception_handler(HTTPException)
async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "FastAPI calls a handler for its own kind of error"
    said = {
        404: "there is no such path",
        405: f"this path doesn't take {request.method}",
    }.get(error.status_code, str(error.detail))
    return error_response(ApiError(error.status_code, said, headers=error.headers))


@app.exception_handler(ClientGone)
async def _on_client_gone(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


@app.exception_handler(Exception)
async def _on_fault(_: Request, error: Exception) -> Response:
    where = "".join(traceback.format_tb(error.__traceback__))  # its message may quote a prompt
    logger.error("a fault in the server: %s\n%s", type(error).__name__, where)
    return error_response(ApiError(500, "a fault in the server", "server_error"))


@app.post(
    "/generate",
    responses={status: ERRORS[status] for status in ERRORS if status != 404}
    | {200: {"content": STREAM}},
    response_class=Response,
)
async def generate(req: GenerateRequest, request: Request) -> Response:
    """Continue a text; the answer is streamed as plain text."""
    return await _respond(req, request, GenerateReply())


@app.api_route("/v1", methods=["GET", "POST", "HEAD", "OPTIONS"], include_in_schema=False)
async def v1_root() -> dict[str, str]:
    """Say that the API is here."""
    return {"status": "ok"}


@app.post(
    "/v1/chat/completions",
    responses=ERRORS | {200: {"model": ChatCompletion, "content": STREAM}},
)
async def v1_chat_completions(req: ChatCompletionRequest, request: Request) -> Response:
    """Answer a chat, in one piece or as a stream of chat.completion.chunk events."""
    _check_model(req.model)
    return await _respond(req, request, ChatReply(req))


@app.post(
    "/v1/completions",
    responses=ERRORS | {200: {"model": Completion, "content": STREAM}},
)
async def v1_completions(req: CompletionRequest, request: Request) -> Response:
    """Continue texts, in one piece or as a stream of text_completion events."""
    _check_model(req.model)
    return await _respond(req, request, TextReply(req))


@app.get("/v1/models", responses=NO_BODY)
async def available_models() -> ModelList:
    """List the one model that is served."""
    return ModelList(data=[_card()])


@app.get("/v1/models/{model:path}", responses=NO_BODY | {404: ERRORS[404]})
async def one_model(model: str) -> ModelCard:
    """Describe a model."""
    _check_model(model)
    return _card()


@app.get("/health", responses={status: ERRORS[status] for status in (503, "4XX")})
async def health() -> dict[str, str]:
    """Say whether requests can be answered."""
    state = get_global_state()
    if state.failure or state.is_stopping:
        raise ApiError(503, state.failure or "the server is shutting down", "server_error")
    return {"status": "ok"}


@app.get(
    "/metrics",
    response_class=Response,
    responses=NO_BODY | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics() -> Response:
    """Give counts and latencies in Prometheus' text format."""
    return Response(get_global_state().metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _names() -> list[str]:
    path = get_global_state().config.model_path
    return [Path(path).name if Path(path).is_dir() else path, path]


def _card() -> ModelCard:
    name, path = _names()
    return ModelCard(id=name, root=path)


def _check_model(name: str) -> None:
    if name not in (known := _names()):
        said = f"this server has the model {known[0]} and no other"
        raise ApiError(404, said, param="model", code="model_not_found")


async def _respond(req: AnyRequest, request: Request, reply: AnyReply) -> Response:
    """Ask for all answers; return them as one body, or as a stream once the first piece is there.

    So a request that is refused gets its status also when it asked for a stream.
    """
    state = get_global_state()
    params = [req.sampling_params(choice) for choice in range(req.n)]
    async with AsyncExitStack() as stack:
        choices = Choices(state, req.prompts(), params, req.stops())
        await stack.enter_async_context(choices)
        pieces = choices.pieces()
        if not req.stream:
            await while_there(request.receive, _drain(pieces))
            return Response(dump(reply.whole(choices.answers)), media_type="application/json")
        first = await while_there(request.receive, _next(pieces))
        events = _events(choices, first, pieces, reply)
        return EventStream(events, stack.pop_all(), state.config.send_timeout)


async def _drain(pieces: Pieces) -> None:
    async for _ in pieces:
        pass


async def _next(pieces: Pieces) -> list[tuple[int, Piece]]:
    return await anext(pieces)


async def _events(
    choices: Choices, first: list[tuple[int, Piece]], pieces: Pieces, reply: AnyReply
) -> AsyncIterator[bytes]:
    """Yield the bytes of a stream; what goes wrong in its midst is its last event."""
    begin = b"".join(map(reply.begin, range(len(choices.answers))))
    yield begin + b"".join(reply.piece(i, piece) for i, piece in first)
    try:
        async for new in pieces:
            if data := b"".join(reply.piece(i, piece) for i, piece in new):
                yield data
        yield reply.end(choices.answers)
    except ApiError as error:
        yield error_event(error)


def run_api_server(
    config: ServerArgs, start_backend: Callable[[], Workers], run_shell: bool
) -> None:
    """Serve until a signal, or chat in this terminal until its user leaves.

    start_backend starts the processes behind the API; they are stopped before this returns.
    Raises WorkerError when one of them can't start or dies, or the port can't be had.
    """
    Service(config, app, set_global_state).run(start_backend, shell if run_shell else None)
