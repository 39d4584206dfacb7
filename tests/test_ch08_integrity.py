"""Chapter 08: each page has exactly one owner, and a page that has not is named with its owners."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from pairs import equal, error_of, public_bug, refused


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Sound:
    """Six pages of four: two are free, one is cached, requests 7 and 5 have two and one."""

    def __init__(self) -> None:
        from minisgl.core import Req, SamplingParams
        from minisgl.kvcache.naive_cache import NaiveCacheHandle
        from minisgl.scheduler.cache import CacheManager

        self.table = torch.full((2, 16), -1, dtype=torch.int32)
        self.manager = CacheManager(6, 4, self.table, type="naive")
        self.manager.free_slots = ints([20, 0])
        self.cached = ints([4, 5, 6, 7])
        self.manager.prefix_cache.all_indices = lambda: self.cached
        self.table[0, :8] = ints([12, 13, 14, 15, 8, 9, 10, 11])
        self.table[1, :4] = ints([16, 17, 18, 19])
        handle = NaiveCacheHandle()
        self.reqs = [
            Req(ints(range(length + 1)), row, length, 3, uid, SamplingParams(), handle)
            for row, (uid, length) in enumerate(((7, 6), (5, 4)))
        ]

    def hold_what_is_cached(self) -> None:
        """Request 5 begins with the cached page; the page that it had is free."""
        self.reqs[1].cache_handle = SimpleNamespace(
            cached_len=4, get_matched_indices=lambda: self.cached
        )
        self.table[1, :4] = self.cached
        self.manager.free_slots = ints([20, 0, 16])

    def problem(self) -> dict[str, str] | None:
        return error_of(lambda: self.manager.check_integrity(self.reqs))


def free_what_runs(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, 0, 8])


def free_what_is_cached(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, 0, 4])


def free_twice(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, 0, 20])


def lose_a_free_page(sound: Sound) -> None:
    sound.manager.free_slots = ints([0])


def give_a_page_to_two(sound: Sound) -> None:
    sound.table[1, :4] = ints([12, 13, 14, 15])


def give_a_page_to_all(sound: Sound) -> None:
    give_a_page_to_two(sound)
    sound.manager.free_slots = ints([20, 0, 12, 16])


def use_a_page_twice_in_a_row(sound: Sound) -> None:
    sound.table[0, 4:8] = ints([12, 13, 14, 15])


def run_on_what_is_cached(sound: Sound) -> None:
    sound.table[1, :4] = sound.cached


def forget_a_request(sound: Sound) -> None:
    sound.reqs.pop()


def swap_equal_counts(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, 4])


def free_the_middle_of_a_page(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, 1])


def free_a_page_beyond_the_pool(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, 0, 24])


def own_a_slot_below_zero(sound: Sound) -> None:
    sound.manager.free_slots = ints([20, -4])


def mix_the_slots_of_a_page(sound: Sound) -> None:
    sound.table[0, :4] = ints([12, 14, 13, 15])


def end_in_another_page(sound: Sound) -> None:
    sound.table[0, 5] = 20


def never_write_a_row(sound: Sound) -> None:
    sound.table[1, :4] = -1


def begin_elsewhere_than_the_handle(sound: Sound) -> None:
    sound.hold_what_is_cached()
    sound.table[1, :4] = ints([0, 1, 2, 3])


def mix_what_the_handle_holds(sound: Sound) -> None:
    sound.hold_what_is_cached()
    sound.table[1, :4] = ints([4, 5, 7, 6])


FAULTS = {
    free_what_runs: ("slot 8", "the free list and request 7", "1 of 6 pages"),
    free_what_is_cached: ("slot 4", "the free list and the prefix cache"),
    free_twice: ("slot 20", "the free list, more than once"),
    lose_a_free_page: ("slot 20", "nobody", "1 of 6 pages"),
    give_a_page_to_two: ("slot 12", "request 7 and request 5", "2 of 6 pages"),
    give_a_page_to_all: ("slot 12", "the free list and request 7 and request 5"),
    use_a_page_twice_in_a_row: ("slot 8", "nobody", "2 of 6 pages"),
    run_on_what_is_cached: ("slot 4", "the prefix cache and request 5", "2 of 6 pages"),
    forget_a_request: ("slot 16", "nobody"),
    swap_equal_counts: ("slot 0", "nobody", "2 of 6 pages"),
    free_the_middle_of_a_page: ("slot 0", "nobody"),
    free_a_page_beyond_the_pool: ("slot 24", "the free list"),
    own_a_slot_below_zero: ("slot -4", "no such slot"),
    mix_the_slots_of_a_page: ("request 7", "whole pages"),
    end_in_another_page: ("request 7", "whole pages"),
    never_write_a_row: ("request 5", "whole pages"),
    begin_elsewhere_than_the_handle: ("request 5", "cached prefix"),
    mix_what_the_handle_holds: ("request 5", "cached prefix"),
}


@public_bug("B49")
def probe_a_page_without_exactly_one_owner_is_named(seed):
    found = [Sound().problem()]
    for fault in FAULTS:
        sound = Sound()
        fault(sound)
        found.append(sound.problem())
    return found


def judge_a_page_without_exactly_one_owner_is_named(seed, got):
    equal(got[0], None, "problem when all is sound")
    for (fault, words), error in zip(FAULTS.items(), got[1:], strict=True):
        refused(error, fault.__name__, *words, kind="RuntimeError")


def probe_a_row_may_begin_with_what_its_handle_holds(seed):
    sound = Sound()
    sound.hold_what_is_cached()
    return sound.problem()


def judge_a_row_may_begin_with_what_its_handle_holds(seed, got):
    equal(got, None, "problem when request 5 uses the cached page")


def probe_what_the_prefix_cache_itself_finds_is_told(seed):
    sound = Sound()

    def broken() -> None:
        raise RuntimeError("the tree is broken")

    sound.manager.prefix_cache.check_integrity = broken
    return sound.problem()


def judge_what_the_prefix_cache_itself_finds_is_told(seed, got):
    refused(got, "a broken prefix cache", "the tree is broken", kind="RuntimeError")


def probe_pages_count_whole_at_each_page_size(seed):
    from minisgl.scheduler.cache import CacheManager

    found = []
    for size in (1, 4, 16):
        made = CacheManager(3, size, torch.zeros(1, 64, dtype=torch.int32), type="naive")
        found.append(error_of(made.check_integrity))
        taken = made._allocate(1)
        found.append(error_of(made.check_integrity))
        made._free(made._page_to_token(taken))
        found.append(error_of(made.check_integrity))
    return found


def judge_pages_count_whole_at_each_page_size(seed, got):
    for i, size in enumerate((1, 4, 16)):
        before, missing, after = got[3 * i : 3 * i + 3]
        equal([before, after], [None, None], f"problems with everything free at page size {size}")
        refused(missing, f"a page in nobody's hands at page size {size}", "slot 0", "nobody")


def probe_an_idle_scheduler_finds_a_page_that_was_lost(seed):
    from stub_engine import stub_scheduler, user

    scheduler = stub_scheduler(page_size=4)
    scheduler.send(user(0, [1, 2, 3, 4, 5], 3))
    scheduler.run()
    sound = error_of(scheduler.run_when_idle)
    scheduler.cache_manager._allocate(1)
    return [sound, error_of(scheduler.run_when_idle)]


def judge_an_idle_scheduler_finds_a_page_that_was_lost(seed, got):
    equal(got[0], None, "problem after a request")
    refused(got[1], "a lost page", "nobody", kind="RuntimeError")
