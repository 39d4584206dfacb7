"""Chapter 02: ops that hold their weights, and how these get their names and values."""

from __future__ import annotations

import torch

from pairs import equal, error_of, refused


def make_model():
    """Probe side: a model of two layers; what is no weight is there to be left out."""
    from minisgl.layers import BaseOP, OPList, StateLessOP

    class Scale(BaseOP):
        def __init__(self, size):
            self.weight = torch.zeros(size)
            self.bias = None
            self.size = size
            self._cache = torch.zeros(9)
            self.processed = 0

        def process_weights_after_loading(self):
            self.processed += 1

    class Table(StateLessOP):
        def __init__(self):
            super().__init__()
            self.table = torch.zeros(5)

    class Model(BaseOP):
        def __init__(self):
            self.embed = Scale(4)
            self.layers = OPList([Scale(2), Scale(3)])
            self.rope = Table()
            self.norm = torch.zeros(1)
            self._hidden = Scale(8)

    return Model()


def make_weights():
    """Probe side: a value for each of the model's weights."""
    sizes = {"layers.1.weight": 3, "norm": 1, "layers.0.weight": 2, "embed.weight": 4}
    return {name: torch.arange(float(size)) + size for name, size in sizes.items()}


def probe_weights_are_named_by_the_attributes_that_hold_them(seed):
    model = make_model()
    given = {"before": torch.zeros(1)}
    prefixed = model.state_dict(prefix="m", result=given)
    return {
        "names": list(model.state_dict()),
        "prefixed": list(prefixed),
        "same dict": prefixed is given,
        "same tensor": model.state_dict()["norm"] is model.norm,
    }


def judge_weights_are_named_by_the_attributes_that_hold_them(seed, got):
    names = ["embed.weight", "layers.0.weight", "layers.1.weight", "norm"]
    equal(got["names"], names, "names, in the order of the attributes")
    equal(got["prefixed"], ["before", *(f"m.{name}" for name in names)], "names with a prefix")
    equal([got["same dict"], got["same tensor"]], [True, True], "result is filled, not copied")


def probe_layers_are_numbered_in_order(seed):
    from minisgl.layers import BaseOP, OPList

    class Weight(BaseOP):
        def __init__(self):
            self.w = torch.zeros(1)

    ops = [Weight() for _ in range(12)]
    layers = OPList(ops)
    return {"names": list(layers.state_dict()), "ops": layers.op_list == ops}


def judge_layers_are_numbered_in_order(seed, got):
    equal(got["names"], [f"{i}.w" for i in range(12)], "names")
    equal(got["ops"], True, "whether op_list holds the ops")


def probe_loading_makes_the_given_tensors_the_weights(seed):
    model, weights = make_model(), make_weights()
    given = dict(weights)
    model.load_state_dict(given)
    loaded = model.state_dict()
    return {
        "values": {name: tensor.tolist() for name, tensor in loaded.items()},
        "copied": [name for name in loaded if loaded[name] is not weights[name]],
        "left": list(given),
    }


def judge_loading_makes_the_given_tensors_the_weights(seed, got):
    want = {
        "embed.weight": [4.0, 5.0, 6.0, 7.0],
        "layers.0.weight": [2.0, 3.0],
        "layers.1.weight": [3.0, 4.0, 5.0],
        "norm": [1.0],
    }
    equal(got["values"], want, "loaded weights")
    equal(got["copied"], [], "weights that are copies of what was given")
    equal(got["left"], [], "names left in the dict, which holds on to no tensor")


def probe_a_part_takes_its_own_weights_and_leaves_the_others(seed):
    weights = make_weights()
    model = make_model()
    model.layers.load_state_dict(weights, prefix="layers", _internal=True)
    return {"left": sorted(weights), "layer 1": model.layers.op_list[1].weight.tolist()}


def judge_a_part_takes_its_own_weights_and_leaves_the_others(seed, got):
    equal(got["left"], ["embed.weight", "norm"], "weights left for the other parts")
    equal(got["layer 1"], [3.0, 4.0, 5.0], "a weight of the part")


def probe_a_weight_that_does_not_fit_is_named(seed):
    def load(**changes):
        weights = make_weights()
        for name, tensor in changes.items():
            name = name.replace("__", ".")
            weights.pop(name, None)
            if tensor is not None:
                weights[name] = tensor
        return error_of(lambda: make_model().load_state_dict(weights))

    extra = {f"extra{i}": torch.zeros(1) for i in range(7)}
    return {
        "missing": load(layers__0__weight=None),
        "shape": load(layers__1__weight=torch.zeros(3, 1)),
        "dtype": load(embed__weight=torch.zeros(4, dtype=torch.float16)),
        "left over": load(layers__2__weight=torch.zeros(3)),
        "many": load(**extra),
        "right": load(),
    }


def judge_a_weight_that_does_not_fit_is_named(seed, got):
    refused(got["missing"], "a missing weight", "layers.0.weight", "missing", kind="ValueError")
    words = ("layers.1.weight", "(3, 1)", "(3,)")
    refused(got["shape"], "a weight of another shape", *words, kind="ValueError")
    words = ("embed.weight", "torch.float16", "torch.float32")
    refused(got["dtype"], "a weight of another dtype", *words, kind="ValueError")
    refused(got["left over"], "a weight that no op takes", "layers.2.weight", kind="ValueError")
    refused(got["many"], "seven such weights", "extra0, extra1, extra2, extra3, extra4")
    equal("extra5" in got["many"]["message"], False, "whether the message goes on for ever")
    equal(got["right"], None, "error for the right weights")


def probe_every_op_is_processed_once_after_loading(seed):
    model = make_model()
    model.process_weights_after_loading()
    ops = (model.embed, *model.layers.op_list, model._hidden)
    return {"counts": [op.processed for op in ops], "rope": model.rope.table.tolist()}


def judge_every_op_is_processed_once_after_loading(seed, got):
    equal(got["counts"], [1, 1, 1, 0], "calls for embed, both layers and a hidden op")
    equal(got["rope"], [0.0] * 5, "table of an op without weights")


def probe_a_bare_op_cannot_be_called(seed):
    from minisgl.layers import BaseOP

    class Strange(BaseOP):
        pass

    return error_of(lambda: Strange().forward(1, y=2))


def judge_a_bare_op_cannot_be_called(seed, got):
    refused(got, "calling an op without forward", "Strange", kind="NotImplementedError")


def probe_an_op_without_weights_has_none_whatever_it_holds(seed):
    from minisgl.layers import StateLessOP

    class Table(StateLessOP):
        def __init__(self):
            super().__init__()
            self.table = torch.zeros(5)

    op, others = Table(), {"norm": torch.zeros(1)}
    op.load_state_dict(others, prefix="rope", _internal=True)
    op.load_state_dict({})
    return {
        "state": [list(op.state_dict()), list(op.state_dict(prefix="rope", result=others))],
        "processed": op.process_weights_after_loading(),
        "left": list(others),
        "given": error_of(lambda: op.load_state_dict({"table": torch.zeros(5)})),
    }


def judge_an_op_without_weights_has_none_whatever_it_holds(seed, got):
    equal(got["state"], [[], ["norm"]], "state dict, alone and added to one")
    equal([got["processed"], got["left"]], [None, ["norm"]], "what others may still take")
    refused(got["given"], "weights for an op without", "Table", "no weights", kind="ValueError")
