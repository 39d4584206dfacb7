"""Chapter 02: the embedding and the head, tied and untied."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch

from pairs import close, draw, equal, error_of, public_bug, refused

VOCAB, SIZE = 11, 6
LAST = [1, 4]  # of five tokens of two requests, the last ones


def head_logits(head, x, phase, requests):
    """Probe side: the head's output for the tokens x of a batch of that many requests."""
    from minisgl.core import Batch, Context, get_global_ctx, set_global_ctx

    asked = []

    def get_last_indices(bs):
        asked.append(bs)
        return torch.tensor(LAST)

    set_global_ctx(Context(page_size=1))
    batch = Batch(reqs=[None] * requests, phase=phase)
    batch.attn_metadata = SimpleNamespace(get_last_indices=get_last_indices)
    with get_global_ctx().forward_batch(batch):
        return [head.forward(torch.tensor(x)).tolist(), asked]


def make_head(seed, tied=False, bias=False, packed=False, copy_in_file=False):
    """Probe side: a head with its weights, and the embedding that it is tied to, or None."""
    from minisgl.layers import BaseOP, ParallelLMHead, VocabParallelEmbedding

    class Ends(BaseOP):
        def __init__(self):
            self.embed = VocabParallelEmbedding(VOCAB, SIZE)
            self.head = ParallelLMHead(VOCAB, SIZE, bias, tied, self.embed if tied else None)

    ends = Ends()
    weights = {"embed.weight": torch.tensor(draw(seed, VOCAB, SIZE))}
    if not tied or copy_in_file:
        weights["head.weight"] = torch.tensor(draw(seed + 1, VOCAB, SIZE))
    if bias:
        weights["head.bias"] = torch.tensor(draw(seed + 2, VOCAB))
    ends.load_state_dict(weights)
    if packed:
        ends.process_weights_after_loading()
    return ends


def probe_each_token_gets_its_row(seed):
    from minisgl.layers import VocabParallelEmbedding

    op = VocabParallelEmbedding(VOCAB, SIZE)
    op.load_state_dict({"weight": torch.tensor(draw(seed, VOCAB, SIZE))})
    result = op.forward(torch.tensor([10, 0, 3, 3]))
    result[1] = 99.0
    return {
        "rows": result[[0, 2, 3]].tolist(),
        "row 0": op.weight[0].tolist(),
        "none": list(op.forward(torch.tensor([], dtype=torch.int64)).shape),
    }


def judge_each_token_gets_its_row(seed, got):
    table = draw(seed, VOCAB, SIZE)
    equal(got["rows"], table[[10, 3, 3]], "vectors of tokens 10, 3, 3")
    equal(got["row 0"], table[0], "the table's row after its vector was overwritten")
    equal(got["none"], [0, SIZE], "shape for no token")


def probe_ranks_hold_equal_ranges_of_rows_rounded_up(seed):
    from minisgl.distributed import info
    from minisgl.layers import ParallelLMHead, VocabParallelEmbedding

    shapes = []
    for size in (1, 2, 4):
        with patch.object(info, "_TP_INFO", info.DistributedInfo(size - 1, size)):
            op, head = VocabParallelEmbedding(10, SIZE), ParallelLMHead(10, SIZE, bias=True)
        shapes.append([list(op.weight.shape), list(head.weight.shape), len(head.bias)])
    return shapes


def judge_ranks_hold_equal_ranges_of_rows_rounded_up(seed, got):
    want = [[[rows, SIZE], [rows, SIZE], rows] for rows in (10, 5, 3)]
    equal(got, want, "embedding, head and its bias for 10 tokens on 1, 2 and 4 ranks")


def probe_prefill_computes_the_logits_of_last_tokens_only(seed):
    head = make_head(seed).head
    x = draw(seed + 3, 5, SIZE)
    return {
        "prefill": head_logits(head, x, "prefill", 2),
        "decode": head_logits(head, x, "decode", 5),
    }


def judge_prefill_computes_the_logits_of_last_tokens_only(seed, got):
    x, weight = draw(seed + 3, 5, SIZE).astype(np.float64), draw(seed + 1, VOCAB, SIZE)
    close(got["prefill"][0], x[LAST] @ weight.T, 1e-5, "logits of a prefill")
    equal(got["prefill"][1], [2], "for how many requests the last tokens were asked")
    close(got["decode"][0], x @ weight.T, 1e-5, "logits of a decode")
    equal(got["decode"][1], [], "whether a decode asks for last tokens")


@public_bug("B14")
def probe_a_tied_head_multiplies_by_the_embedding_whatever_the_file_holds(seed):
    x, found = draw(seed + 3, 2, SIZE), {}
    for packed in (False, True):
        for copy in (False, True):
            ends = make_head(seed, tied=True, packed=packed, copy_in_file=copy)
            logits, _ = head_logits(ends.head, x, "decode", 2)
            rows = ends.embed.forward(torch.tensor([3, 10])).tolist()
            found[f"packed {packed}, copy {copy}"] = [logits, rows, list(ends.state_dict())]
    return found


def judge_a_tied_head_multiplies_by_the_embedding_whatever_the_file_holds(seed, got):
    x, table = draw(seed + 3, 2, SIZE).astype(np.float64), draw(seed, VOCAB, SIZE)
    equal(len(got), 4, "cases")
    for case, (logits, rows, names) in got.items():
        close(logits, x @ table.T, 1e-5, f"logits, {case}")
        equal(rows, table[[3, 10]], f"the embedding still looks up, {case}")
        equal(names, ["embed.weight"], f"weights, {case}")


def probe_the_heads_bias_is_added_packed_and_plain_tied_and_untied(seed):
    x = draw(seed + 3, 2, SIZE)
    return [
        head_logits(make_head(seed, tied=tied, bias=True, packed=packed).head, x, "decode", 2)[0]
        for tied in (False, True)
        for packed in (False, True)
    ]


def judge_the_heads_bias_is_added_packed_and_plain_tied_and_untied(seed, got):
    x, bias = draw(seed + 3, 2, SIZE).astype(np.float64), draw(seed + 2, VOCAB)
    for i, logits in enumerate(got):
        tied = i >= 2
        weight = draw(seed if tied else seed + 1, VOCAB, SIZE)
        close(logits, x @ weight.T + bias, 1e-5, f"logits, tied {tied}, packed {i % 2 == 1}")


def probe_weights_loaded_after_packing_replace_the_packed_ones(seed):
    x, found = draw(seed + 3, 2, SIZE), []
    for tied in (False, True):
        ends = make_head(seed, tied=tied, packed=True)
        new = torch.tensor(draw(seed + 7, VOCAB, SIZE))
        names = list(ends.state_dict())
        ends.load_state_dict({name: new.clone() for name in names})
        plain = head_logits(ends.head, x, "decode", 2)[0]
        ends.process_weights_after_loading()
        ends.process_weights_after_loading()  # a second time changes nothing
        found.append([plain, head_logits(ends.head, x, "decode", 2)[0]])
    return found


def judge_weights_loaded_after_packing_replace_the_packed_ones(seed, got):
    want = draw(seed + 3, 2, SIZE).astype(np.float64) @ draw(seed + 7, VOCAB, SIZE).T
    for tied, (plain, packed) in enumerate(got):
        close(plain, want, 1e-5, f"logits after loading again, tied {bool(tied)}")
        close(packed, want, 1e-5, f"logits after packing again, tied {bool(tied)}")


def probe_an_untied_head_keeps_one_form_of_its_matrix(seed):
    with patch("minisgl.layers.embedding.pack_weight", lambda weight: weight * 2):
        ends = {tied: make_head(seed, tied=tied, packed=True) for tied in (False, True)}
    x = draw(seed + 3, 2, SIZE)
    return {
        "untied": ends[False].head.weight.tolist(),
        "embedding of tied": ends[True].embed.weight.tolist(),
        "logits of tied": head_logits(ends[True].head, x, "decode", 2)[0],
    }


def judge_an_untied_head_keeps_one_form_of_its_matrix(seed, got):
    table, x = draw(seed, VOCAB, SIZE), draw(seed + 3, 2, SIZE).astype(np.float64)
    equal(got["untied"], 2 * draw(seed + 1, VOCAB, SIZE), "the matrix, with doubling for packing")
    equal(got["embedding of tied"], table, "a tied head's embedding, which stays plain")
    close(got["logits of tied"], 2 * x @ table.T, 1e-5, "logits from a tied head's packed copy")


def probe_weights_loaded_again_replace_packed_ones(seed):
    x, found = draw(seed + 3, 2, SIZE), []
    for tied in (False, True):
        ends = make_head(seed, tied=tied, packed=True)
        names = ["embed.weight"] + ([] if tied else ["head.weight"])
        tensors = {name: torch.tensor(draw(seed + 5, VOCAB, SIZE)) for name in names}
        ends.load_state_dict(tensors)
        found.append(head_logits(ends.head, x, "decode", 2)[0])
        for _ in range(2):
            ends.process_weights_after_loading()
            found.append(head_logits(ends.head, x, "decode", 2)[0])
    return found


def judge_weights_loaded_again_replace_packed_ones(seed, got):
    want = draw(seed + 3, 2, SIZE).astype(np.float64) @ draw(seed + 5, VOCAB, SIZE).T
    for i, logits in enumerate(got):
        close(logits, want, 1e-5, f"logits of new weights, tied {i > 2}, packed {i % 3} times")


def probe_a_tied_head_and_only_a_tied_one_shares_an_embedding(seed):
    from minisgl.layers import ParallelLMHead, VocabParallelEmbedding

    embedding = VocabParallelEmbedding(VOCAB, SIZE)
    return [
        error_of(lambda: ParallelLMHead(VOCAB, SIZE, False, True, None)),
        error_of(lambda: ParallelLMHead(VOCAB, SIZE, False, False, embedding)),
    ]


def judge_a_tied_head_and_only_a_tied_one_shares_an_embedding(seed, got):
    for what, error in zip(("tied without one", "untied with one"), got, strict=True):
        refused(error, f"a head {what}", "tied head", "embedding", kind="AssertionError")
