"""Kernels of every kind compiled for AArch64, run by qemu, compared with NumPy in float64.

    aarch64_values.py RELAXC CALLER.c FOLDER"""
import math
import os
import subprocess
import sys

import numpy as np

RELAXC, CALLER, FOLDER = sys.argv[1:]
rng = np.random.default_rng(1)
CODES = {"i": 0, "u": 1, "f": 2}
erf = np.vectorize(math.erf, otypes=[float])
bad = 0


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def conv(x, w, stride, groups):
    """NCHW, 3 x 3, padding 1."""
    x, n = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1))), w.shape[1]
    view = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
    each = w.shape[0] // groups
    return np.concatenate([np.einsum("bcyxij,ocij->boyx", view[:, g * n:(g + 1) * n], w[g * each:(g + 1) * each])
                           for g in range(groups)], axis=1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def tensor(a, path):
    return [str(CODES[a.dtype.kind]), str(a.dtype.itemsize * 8), str(a.ndim), *map(str, a.shape), path]


def check(name, body, want, shapes=None, tol=2e-6, **inputs):
    """shapes: how an input's shape is written, where that isn't as it is."""
    global bad
    path = lambda n: os.path.join(FOLDER, n)
    params = ", ".join(f'{n}: R.Tensor({(shapes or {}).get(n, a.shape)}, "{a.dtype}")' for n, a in inputs.items())
    with open(path("m.rx"), "w") as out:
        out.write(f"@R.function\ndef main({params}):\n    z = {body}\n    return z\n")
    subprocess.run([RELAXC, path("m.rx"), "--target=aarch64-linux-gnu", "-fno-threads", "--prefix=m", "-o", path("m.o")],
                   check=True)
    subprocess.run(["aarch64-linux-gnu-gcc", "-static", "-idirafter", "/usr/include", CALLER, path("m.o"), "-lm", "-o",
                    path("m")], check=True)
    want = np.asarray(want)
    result = np.zeros(want.shape, want.dtype if want.dtype.kind in "iu" else next(iter(inputs.values())).dtype)
    args = [str(len(inputs)), "1"]
    for n, a in inputs.items():
        a.tofile(path(n + ".bin"))
        args += tensor(a, path(n + ".bin"))
    subprocess.run(["qemu-aarch64", path("m"), *args, *tensor(result, path("z.bin"))], check=True)
    result = np.fromfile(path("z.bin"), result.dtype).reshape(result.shape)
    error = np.abs(result.astype(float) - want).max() / max(np.abs(want).max(), 1e-30)
    if not error <= tol:
        print(f"{name}: error {error:.3g}")
        bad += 1


for m, k, n in (64, 64, 64), (7, 768, 96), (1, 300, 130), (33, 65, 67), (13, 1100, 40), (3, 17, 200):
    a, b = f(m, k), f(k, n)
    check(f"matmul {m} {k} {n}", "R.matmul(a, b)", a.astype(float) @ b, a=a, b=b)
a, b = f(11, 64), f(64, 50)
check("matmul, symbolic", "R.matmul(a, b)", a.astype(float) @ b, {"a": '("m", 64)', "b": '(64, "n")'}, a=a, b=b)
a, b = f(20, 64), f(50, 64)
check("matmul, transposed", "R.matmul(a, R.permute_dims(b))", a.astype(float) @ b.T, a=a, b=b)
a, b = rng.integers(-9, 9, (9, 33)).astype("int32"), rng.integers(-9, 9, (33, 20)).astype("int32")
check("matmul, int32", "R.matmul(a, b)", a @ b, tol=0, a=a, b=b)
a, b = rng.standard_normal((9, 33)), rng.standard_normal((33, 20))
check("matmul, float64", "R.matmul(a, b)", a @ b, tol=1e-14, a=a, b=b)
for stride in 1, 2:
    x, w = f(1, 16, 15, 15), f(24, 16, 3, 3)
    check("conv2d", f"R.nn.conv2d(x, w, strides=[{stride},{stride}], padding=[1,1,1,1])", conv(x, w, stride, 1), x=x, w=w)
for size, stride in (7, 1), (14, 1), (33, 1), (34, 2):
    x, w = f(1, 24, size, size), f(24, 1, 3, 3)
    check("conv2d, depthwise", f"R.nn.conv2d(x, w, strides=[{stride},{stride}], padding=[1,1,1,1], groups=24)",
          conv(x, w, stride, 24), x=x, w=w)
x = f(13, 129)
check("softmax", "R.nn.softmax(x, axis=-1)", softmax(x.astype(float)), x=x)
x, g, b = f(9, 100), f(100), f(100)
check("layer_norm", "R.nn.layer_norm(x, g, b, axes=[-1])", layer_norm(x.astype(float)) * g + b, x=x, g=g, b=b)
x = f(7, 333) * 3
check("gelu", "R.nn.gelu(x)", 0.5 * x * (1 + erf(x / math.sqrt(2))), x=x)
for name, fn in ("exp", np.exp), ("tanh", np.tanh), ("erf", erf), ("sin", np.sin), ("cos", np.cos):
    check(name, f"R.{name}(x)", fn(x.astype(float)), x=x)
# NaN in one operand, in the other, in both and in neither; the rest are the values.
a, b = f(5, 37), f(5, 37)
a[:, ::3] = np.nan
b[:, ::4] = np.nan
for name, body, want in (("maximum", "R.maximum(a, b)", np.maximum(a, b)), ("minimum", "R.minimum(a, b)", np.minimum(a, b)),
                         ("clip", "R.clip(R.add(a, b), -0.5, 0.5)", np.clip(a + b, -0.5, 0.5)),
                         ("relu", "R.nn.relu(R.add(a, b))", np.maximum(a + b, 0)),
                         ("exp", "R.exp(R.multiply(a, b))", np.exp(a.astype(float) * b))):
    check(f"NaN in {name}", f'R.astype(R.isnan({body}), "int32")', np.isnan(want).astype("int32"), tol=0, a=a, b=b)
    check(f"{name} beside NaN", f"R.where(R.isnan({body}), R.zeros_like(a), {body})", np.nan_to_num(want), a=a, b=b)
x = np.abs(x) + np.float32(0.01)
check("log", "R.log(x)", np.log(x.astype(float)), x=x)
x = f(37, 53)
check("permute_dims", "R.permute_dims(x, axes=[1,0])", x.T, tol=0, x=x)
check("mean over rows", "R.mean(x, axis=[1])", x.astype(float).mean(1), x=x)
check("mean over columns", "R.mean(x, axis=[0])", x.astype(float).mean(0), x=x)
x = f(1, 12, 7, 16)
check("permute_dims 0213", "R.permute_dims(x, axes=[0,2,1,3])", x.transpose(0, 2, 1, 3), tol=0, x=x)
q, k, v = f(1, 24, 4, 32), f(1, 24, 4, 32), f(1, 24, 4, 32)
s = np.einsum("bihd,bjhd->bhij", q.astype(float), k) / math.sqrt(32)
check("attention", "R.nn.attention(q, k, v)", np.einsum("bhij,bjhd->bihd", softmax(s), v), q=q, k=k, v=v)
sys.exit(bad > 0)
