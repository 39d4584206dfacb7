"""From a command line to a running server, and to a clean end."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from minisgl.tokenizer import tokenize_worker

from .args import ServerArgs, parse_args
from .workers import WorkerError, Workers, end_process, private_folder

if TYPE_CHECKING:
    import multiprocessing as mp
    from collections.abc import Callable

    from .workers import AckQueue


SHAPES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}
"""oneDNN keeps code for each size of batch, and PyTorch what it needs beside it; by default for
1,024 sizes, which takes a server hundreds of megabytes in its first hours."""


def _run_scheduler(args: ServerArgs, ack_queue: mp.Queue[str] | AckQueue) -> None:
    """Serve until an ExitMsg comes. ack_queue gets one message when all ranks are ready."""
    from minisgl.scheduler import Scheduler
    from minisgl.scheduler.scheduler import SchedulerExit

    for name, shapes in SHAPES.items():
        os.environ.setdefault(name, shapes)  # read when the first product is computed
    scheduler = Scheduler(args)
    scheduler.sync_all_ranks()
    if args.tp_info.is_primary():
        ack_queue.put("scheduler is ready")
    try:
        scheduler.run_forever()
    except SchedulerExit:
        scheduler.shutdown()


def _run_tokenizer(args: ServerArgs, ack_queue: mp.Queue[str], tokenizer_id: int) -> None:
    """Tokenize or, with tokenizer_id -1, detokenize; and tokenize too when that is shared."""
    detokenizes = tokenizer_id < 0
    tokenize_worker(
        tokenizer_path=args.model_path,
        addr=args.zmq_detokenizer_addr if detokenizes else args.zmq_tokenizer_addr,
        create=detokenizes or args.tokenizer_create_addr,
        backend_addr=args.zmq_backend_addr,
        frontend_addr=args.zmq_frontend_addr,
        local_bs=128,
        tokenizer_id=tokenizer_id,
        ack_queue=ack_queue,
    )


def start_workers(args: ServerArgs) -> Workers:
    """Start the processes behind the API: a scheduler, a detokenizer and any tokenizers."""
    tasks: dict[str, Callable[..., None]] = {
        "scheduler": _run_scheduler,
        "detokenizer": partial(_run_tokenizer, tokenizer_id=-1),
    }
    for i in range(args.num_tokenizer):
        tasks[f"tokenizer {i}"] = partial(_run_tokenizer, tokenizer_id=i)
    return Workers(args, tasks)


def launch_server(run_shell: bool = False) -> NoReturn:
    """Serve as sys.argv says until a signal or a failure; ends the process with 0 or 1."""
    args, run_shell = parse_args(sys.argv[1:], run_shell)
    if args.silent_output:
        os.environ.setdefault("MINISGL_LOG_LEVEL", "WARNING")  # for the workers as well
    signal.signal(signal.SIGTERM, _interrupted)
    status = 0
    try:
        with private_folder(args) as args:
            # imported here, since the workers import this module and need no web server
            from .api_server import run_api_server

            run_api_server(args, partial(start_workers, args), run_shell)
    except WorkerError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    end_process(status)


def _interrupted(*_: Any) -> NoReturn:
    raise KeyboardInterrupt
