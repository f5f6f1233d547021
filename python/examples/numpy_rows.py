"""NumPy: layer norm with gradients, and its accuracy for a large mean.

python python/examples/numpy_rows.py
"""

import numpy as np

import layernorm

rng = np.random.default_rng(0)

# Rows [N, features] whose mean is large compared with their variation.
x = (1e6 + rng.standard_normal((4, 768))).astype(np.float32)
weight, bias = np.ones(768, np.float32), np.zeros(768, np.float32)

y, stats = layernorm.layer_norm(x, 768, weight, bias, return_stats=True)
exact = x.astype(np.float64)
exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
written = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
ours, theirs = np.abs(y - exact).max(), np.abs(written - exact).max()
print(f"largest error: {ours:.1e} here, {theirs:.1e} with the formula in float32")
assert ours < 1e-6 < theirs

# Gradients of x, weight and bias: [4, 768], [768], [768].
gradients = layernorm.layer_norm_backward(np.ones_like(x), x, 768, weight, bias, stats=stats)
assert np.array_equal(gradients.bias, np.full(768, 4, np.float32))

# Any axis, without a copy: here the channels of [N, C, W].
images = rng.standard_normal((2, 3, 8)).astype(np.float16)
by_channel = layernorm.layer_norm(images, axis=1)
print("mean over channels:", np.abs(by_channel.astype(np.float64).mean(1)).max().round(3))
