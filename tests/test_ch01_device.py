"""Chapter 01: the device layer, on a CPU and with stand-ins for CUDA."""

from __future__ import annotations

import os
from contextlib import nullcontext
from unittest.mock import patch

import torch

from pairs import equal

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 1)


def probe_on_a_cpu_streams_and_events_are_no_ops(seed):
    from minisgl.utils import device

    event = device.new_event(CPU)
    tensor = torch.tensor([1, 2])
    with device.use_stream(device.new_stream(CPU)):
        tensor = tensor + 1
        waited = [event.record(), event.record(None), event.synchronize(), device.synchronize(CPU)]
    return {
        "stream": device.new_stream(CPU),
        "waited": waited,
        "result": tensor.tolist(),
        "pinned is the same": device.pin(tensor, CPU) is tensor,
        "event is real": isinstance(event, torch.cuda.Event),
    }


def judge_on_a_cpu_streams_and_events_are_no_ops(seed, got):
    want = {
        "stream": None,
        "waited": [None] * 4,
        "result": [2, 3],
        "pinned is the same": True,
        "event is real": False,
    }
    equal(got, want, "what the layer does on a CPU")


def probe_the_engine_takes_the_current_cuda_device_where_there_is_one(seed):
    from minisgl.utils.device import default_device

    found = []
    for available in (True, False):
        with (
            patch.object(torch.cuda, "is_available", lambda a=available: a),
            patch.object(torch.cuda, "current_device", lambda: 1),
        ):
            found.append(str(default_device()))
    return found


def judge_the_engine_takes_the_current_cuda_device_where_there_is_one(seed, got):
    equal(got, ["cuda:1", "cpu"], "devices with and without CUDA")


def probe_on_cuda_streams_and_events_are_pytorchs(seed):
    from minisgl.utils import device

    calls = []

    def noting(name, result):
        def call(*args):
            calls.append([name, *(arg if isinstance(arg, str) else str(arg) for arg in args)])
            return result

        return call

    stand_ins = {
        "Stream": noting("Stream", "a stream"),
        "Event": noting("Event", "an event"),
        "stream": noting("stream", nullcontext("entered")),
        "synchronize": noting("synchronize", None),
        "mem_get_info": noting("mem_get_info", (123, 456)),
    }
    with patch.multiple(torch.cuda, **stand_ins):
        made = [device.new_stream(CUDA), device.new_event(CUDA)]
        with device.use_stream(made[0]):
            device.synchronize(CUDA)
        free = device.free_memory(CUDA)
    return {"made": made, "free": free, "calls": calls}


def judge_on_cuda_streams_and_events_are_pytorchs(seed, got):
    equal(got["made"], ["a stream", "an event"], "stream and event")
    equal(got["free"], 123, "free bytes, of free and total")
    want = [
        ["Stream", "cuda:1"],
        ["Event"],
        ["stream", "a stream"],
        ["synchronize", "cuda:1"],
        ["mem_get_info", "cuda:1"],
    ]
    equal(got["calls"], want, "calls of torch.cuda")


def probe_tensors_for_cuda_are_pinned(seed):
    from minisgl.utils.device import pin

    with patch.object(torch.Tensor, "pin_memory", lambda self: self + 100):
        return pin(torch.tensor([1, 2]), CUDA).tolist()


def judge_tensors_for_cuda_are_pinned(seed, got):
    equal(got, [101, 102], "what pin_memory of the stand-in returned")


def probe_free_memory_of_a_cpu_is_what_the_system_says_or_a_quarter(seed):
    from minisgl.utils.device import free_memory

    def linux(name):
        return {"SC_AVPHYS_PAGES": 10, "SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}[name]

    def mac(name):
        if name == "SC_AVPHYS_PAGES":
            raise ValueError("unrecognized configuration name")
        return linux(name)

    found = []
    for system in (linux, mac):
        with patch.object(os, "sysconf", system):
            found.append(free_memory(CPU))
    return found


def judge_free_memory_of_a_cpu_is_what_the_system_says_or_a_quarter(seed, got):
    equal(got, [10 * 4096, 250 * 4096], "bytes on Linux and on macOS")
