"""Writes PyTorch's results, forward and backward, to golden/torch."""

import pathlib
import zlib

import torch.nn.functional as F
from safetensors.torch import save

import stable
import torch

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
OUT = pathlib.Path(__file__).parent / "torch"


class Inputs:
    """Random inputs with a fixed seed per case.

    The numbers are drawn in f64 and then rounded, so that the files of one case
    hold the same inputs in each dtype, up to that rounding.
    """

    def __init__(self, name, dtype):
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        self.dtype = dtype

    def normal(self, shape, mean=0.0, std=1.0):
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (values * std + mean).to(self.dtype)

    def x(self, shape):
        # Neither centered nor of unit variance, so that no term vanishes.
        return self.normal(shape, 0.5, 1.5)

    def weight(self, shape):
        return self.normal(shape, 1.0, 0.3)

    def bias(self, shape):
        return self.normal(shape, 0.1, 0.3)

    def affine(self, shape, kind):
        """Returns weight and bias: both, only the weight, or none."""
        result = {}
        if kind in ("both", "weight"):
            result["weight"] = self.weight(shape)
        if kind == "both":
            result["bias"] = self.bias(shape)
        return result


def gradients(outputs, inputs, upstream):
    """Runs autograd. Results have the names of the inputs with a leading d."""
    grads = torch.autograd.grad(outputs, list(inputs.values()), upstream)
    return {f"d{name}": grad for name, grad in zip(inputs, grads)}


def leaves(tensors, dtype):
    return {k: v.detach().to(dtype).requires_grad_() for k, v in tensors.items()}


def both_precisions(compute, inputs, dtype):
    """Returns the results in dtype, and those in f64 with names that end in 64."""
    result = compute(leaves(inputs, dtype))
    # f64 holds every value of the narrower types, so widening changes nothing.
    wide = compute(leaves(inputs, torch.float64))
    return result | {f"{name}64": value for name, value in wide.items()}


def write(op, label, dtype_name, tensors, metadata):
    data = {name: t.detach().contiguous().clone() for name, t in tensors.items()}
    metadata = {"op": op, "torch": torch.__version__, **metadata}
    path = OUT / f"{op}-{label}-{dtype_name}.safetensors"
    stable.write(path, save(data, metadata))


def by_shape(shape):
    return "x".join(map(str, shape))


def trailing(count):
    """Returns the metadata for the last `count` axes."""
    return ",".join(str(axis) for axis in range(-count, 0))


def norm(op, leaf, shape, eps, h):
    """Applies layer or RMS norm to h, over the trailing axes of the given shape."""
    if op.startswith("layer_norm"):
        return F.layer_norm(h, shape, leaf.get("weight"), leaf.get("bias"), eps)
    return F.rms_norm(h, shape, leaf.get("weight"), eps)


def layer_or_rms(op, shape, last, kind, eps):
    label = f"{by_shape(shape)}_last{last}_{kind}"
    inner = shape[-last:]
    for name, dtype in DTYPES.items():
        make = Inputs(f"{op}-{label}", dtype)
        inputs = {"x": make.x(shape), **make.affine(inner, kind)}
        dy = make.normal(shape)

        def compute(leaf):
            y = norm(op, leaf, inner, eps, leaf["x"])
            return {"y": y, **gradients([y], leaf, [dy.to(y.dtype)])}

        results = both_precisions(compute, inputs, dtype)
        metadata = {"eps": repr(eps), "axes": trailing(last)}
        write(op, label, name, {**inputs, "dy": dy, **results}, metadata)


def residual(op, shape, kind, eps):
    label = f"{by_shape(shape)}_last1_{kind}"
    inner = shape[-1:]
    for name, dtype in DTYPES.items():
        make = Inputs(f"{op}-{label}", dtype)
        affine = make.affine(inner, kind)
        inputs = {"x": make.x(shape), "residual": make.x(shape), **affine}
        dy, dh = make.normal(shape), make.normal(shape)

        leaf = leaves(inputs, dtype)
        h = leaf["x"] + leaf["residual"]
        y = norm(op, leaf, inner, eps, h)
        results = {"h": h, "y": y, **gradients([y, h], leaf, [dy, dh])}

        # The f64 results start from the rounded h: otherwise they would differ
        # from the others by the rounding of h, which is not an error of the norm.
        wide = leaves({"x": h, **affine}, torch.float64)
        y64 = norm(op, wide, inner, eps, wide["x"])
        upstream = [dy.double(), dh.double()]
        grads = gradients([y64, wide["x"]], wide, upstream)
        results |= {"y64": y64} | {f"{k}64": v for k, v in grads.items()}
        metadata = {"eps": repr(eps), "axes": "-1"}
        tensors = {**inputs, "dy": dy, "dh": dh, **results}
        write(op, label, name, tensors, metadata)


def group_norm(shape, groups, eps):
    op, label = "group_norm", f"{by_shape(shape)}_groups{groups}"
    for name, dtype in DTYPES.items():
        make = Inputs(f"{op}-{label}", dtype)
        inputs = {"x": make.x(shape), **make.affine(shape[1:2], "both")}
        dy = make.normal(shape)

        def compute(leaf):
            y = F.group_norm(leaf["x"], groups, leaf["weight"], leaf["bias"], eps)
            return {"y": y, **gradients([y], leaf, [dy.to(y.dtype)])}

        results = both_precisions(compute, inputs, dtype)
        metadata = {"eps": repr(eps), "groups": str(groups)}
        write(op, label, name, {**inputs, "dy": dy, **results}, metadata)


def instance_norm(shape, kind, eps):
    op, label = "instance_norm", f"{by_shape(shape)}_{kind}"
    for name, dtype in DTYPES.items():
        make = Inputs(f"{op}-{label}", dtype)
        inputs = {"x": make.x(shape), **make.affine(shape[1:2], kind)}
        dy = make.normal(shape)

        def compute(leaf):
            weight, bias = leaf.get("weight"), leaf.get("bias")
            y = F.instance_norm(leaf["x"], weight=weight, bias=bias, eps=eps)
            return {"y": y, **gradients([y], leaf, [dy.to(y.dtype)])}

        results = both_precisions(compute, inputs, dtype)
        write(op, label, name, {**inputs, "dy": dy, **results}, {"eps": repr(eps)})


def batch_norm(shape, mode, eps):
    """mode: momentum (training), cumulative (training) or inference."""
    op, label = "batch_norm", f"{by_shape(shape)}_{mode}"
    module_type = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}
    momentum = None if mode == "cumulative" else 0.1
    training = mode != "inference"
    channels = shape[1]
    for name, dtype in DTYPES.items():
        make = Inputs(f"{op}-{label}", dtype)
        inputs = {"x": make.x(shape), **make.affine((channels,), "both")}
        dy = make.normal(shape)

        def module(to, mean, var, batches):
            m = module_type[len(shape)](channels, eps=eps, momentum=momentum).to(to)
            m.running_mean.copy_(mean)
            m.running_var.copy_(var)
            m.num_batches_tracked.fill_(batches)
            return m.train(training)

        if mode == "cumulative":
            before = module(dtype, torch.tensor(0.0), torch.tensor(1.0), 0)
            before(make.x(shape))
            before(make.x(shape))
            mean, var = before.running_mean, before.running_var
            batches = int(before.num_batches_tracked)
            assert batches == 2
        else:
            mean = make.normal((channels,), 0.4, 0.5)
            var = make.normal((channels,)).square() + 0.5
            batches = 0

        def compute(leaf):
            m = module(leaf["x"].dtype, mean, var, batches)
            weights = {"weight": leaf["weight"], "bias": leaf["bias"]}
            y = torch.func.functional_call(m, weights, (leaf["x"],))
            assert int(m.num_batches_tracked) == batches + training
            result = {"y": y, **gradients([y], leaf, [dy.to(y.dtype)])}
            result["running_mean_after"] = m.running_mean
            result["running_var_after"] = m.running_var
            return result

        results = both_precisions(compute, inputs, dtype)
        metadata = {
            "eps": repr(eps),
            "momentum": "none" if momentum is None else repr(momentum),
            "training": "true" if training else "false",
        }
        if mode == "cumulative":
            metadata["batches_before"] = str(batches)
        given = {"dy": dy, "running_mean_before": mean, "running_var_before": var}
        write(op, label, name, {**inputs, **given, **results}, metadata)


def weight_norm(shape, dim):
    dim_name = "none" if dim is None else str(dim)
    op, label = "weight_norm", f"{by_shape(shape)}_dim{dim_name}"
    # As in torch.nn.utils.parametrizations.weight_norm: here -1 means "the
    # norm of the whole tensor", not for the last axis.
    torch_dim = -1 if dim is None else dim
    for name, dtype in DTYPES.items():
        make = Inputs(f"{op}-{label}", dtype)
        v = make.x(shape)
        g = make.weight(torch.norm_except_dim(v, 2, torch_dim).shape)
        dw = make.normal(shape)

        def compute(leaf):
            w = torch._weight_norm(leaf["v"], leaf["g"], torch_dim)
            return {"w": w, **gradients([w], leaf, [dw.to(w.dtype)])}

        inputs = {"v": v, "g": g}
        results = both_precisions(compute, inputs, dtype)
        write(op, label, name, {**inputs, "dw": dw, **results}, {"dim": dim_name})


def main():
    # One thread, so that sums do not depend on the number of cores.
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)

    # A large eps in some cases, so that it also affects bf16.
    for shape, last, eps in [
        ((5, 7), 1, 1e-5),
        ((3, 4, 10), 1, 1e-5),
        ((3, 4, 10), 2, 0.1),
        ((2, 3, 4, 5), 3, 1e-5),
        ((4, 1), 1, 1e-5),
    ]:
        for kind in ("both", "weight", "none"):
            layer_or_rms("layer_norm", shape, last, kind, eps)
    # Not in every variant, because these make the largest files.
    layer_or_rms("layer_norm", (2, 1030), 1, "both", 1e-5)
    layer_or_rms("layer_norm", (2, 1030), 1, "none", 1e-5)
    layer_or_rms("layer_norm", (33, 257), 1, "both", 1e-5)

    # eps is always given: the default of torch is the epsilon of the dtype.
    for shape, eps in [((5, 7), 1e-6), ((3, 4, 10), 0.1), ((9, 300), 1e-5)]:
        for kind in ("weight", "none"):
            layer_or_rms("rms_norm", shape, 1, kind, eps)

    for groups, eps in [(1, 1e-5), (2, 0.1), (3, 1e-5), (6, 1e-5)]:
        group_norm((2, 6, 4, 5), groups, eps)
    group_norm((3, 8), 4, 1e-5)
    group_norm((2, 4, 7), 2, 1e-5)

    for shape, eps in [((2, 3, 17), 1e-5), ((2, 3, 4, 5), 0.1), ((1, 2, 3, 4, 5), 1e-5)]:
        for kind in ("both", "none"):
            instance_norm(shape, kind, eps)

    for shape, eps in [((8, 5), 1e-5), ((4, 3, 6), 0.1), ((2, 3, 4, 5), 1e-5)]:
        for mode in ("momentum", "cumulative", "inference"):
            batch_norm(shape, mode, eps)

    for shape in [(4, 6), (3, 2, 5)]:
        for dim in (0, 1, None):
            weight_norm(shape, dim)

    for shape, eps in [((5, 7), 1e-5), ((3, 4, 10), 0.1), ((3, 67), 1e-5)]:
        residual("layer_norm_residual", shape, "both", eps)
        residual("rms_norm_residual", shape, "weight", eps)
    residual("layer_norm_residual", (3, 4, 10), "none", 1e-5)
    residual("rms_norm_residual", (3, 4, 10), "none", 1e-5)

    files = list(OUT.glob("*.safetensors"))
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes")


if __name__ == "__main__":
    main()
