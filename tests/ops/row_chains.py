"""Contractions with work on rows between them, longer than one block of rows: attention as an operator and
written out, with what may stand around it. Compiled code of three instruction sets against NumPy in float64,
static and symbolic; one and two threads give the same bits; the scores never exist as a whole.

    row_chains.py RELAXC
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

LEVELS = ("x86-64-v2", "x86-64-v3", "native")
TOL = {"float32": 2e-6, "float16": 2e-3, "float64": 1e-13}


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    """(batch, length, heads, size) -> (batch, heads, length, size), each head for n / heads others."""
    x = x.transpose(0, 2, 1, 3)
    return np.repeat(x, n // x.shape[1], 1)


def attend(q, k, v, bias=0.0, scale=None):
    """Of operands (batch, length, heads, size)."""
    q = q.transpose(0, 2, 1, 3)
    k, v = heads(k, q.shape[1]), heads(v, q.shape[1])
    if not k.shape[2]:
        return np.zeros((q.shape[0], q.shape[2], q.shape[1], v.shape[-1]))
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    return (softmax(s) @ v).transpose(0, 2, 1, 3)


def causal(m, n, shift=0):
    return np.where(np.arange(n) <= np.arange(m)[:, None] + shift, 0.0, -np.inf)


class Case:
    def __init__(self, name, body, inputs, want, dims, dtype="float32"):
        """body: statements with {n} for dims; dims: {input: its dims, names or numbers}."""
        self.name, self.body, self.want, self.dims, self.dtype = name, body, want, dims, dtype
        self.inputs = {k: np.asarray(v, dtype) for k, v in inputs.items()}

    def text(self, symbolic):
        sizes = {d: s for k, x in self.inputs.items() for d, s in zip(self.dims[k], x.shape) if isinstance(d, str)}
        names = {d: d if symbolic else str(s) for d, s in sizes.items()}
        params = ", ".join(
            f'{k}: R.Tensor(({", ".join(repr(d) if symbolic and isinstance(d, str) else str(s) for d, s in zip(self.dims[k], x.shape))},), "{self.dtype}")'
            for k, x in self.inputs.items())
        lines = [f"    {d} = T.int64()" for d in sizes] if symbolic else []
        lines += ["    with R.dataflow():"]
        lines += ["        " + line.format(**names) for line in self.body]
        return f"@R.function\ndef main({params}):\n" + "\n".join(lines) + "\n        R.output(o)\n    return o\n"


def cases():
    rng = np.random.default_rng(7)
    t = lambda *shape: rng.standard_normal(shape).astype("float32").astype("float64")
    bsnh = {"q": ("b", "m", 2, 16), "k": ("b", "n", 2, 16), "v": ("b", "n", 2, 16)}
    for m, n in ((150, 75), (96, 96), (5, 300), (1, 130), (4, 700), (113, 1), (0, 5), (100, 0)):
        q, k, v = t(2, m, 2, 16), t(2, n, 2, 16), t(2, n, 2, 16)
        ins = {"q": q, "k": k, "v": v}
        yield Case(f"operator {m}x{n}", ["o = R.nn.attention(q, k, v)"], ins, attend(q, k, v), bsnh)
        written = ["qt = R.permute_dims(q, [0, 2, 1, 3])", "kt = R.permute_dims(k, [0, 2, 3, 1])", "s = R.matmul(qt, kt)",
                   "t = R.divide(s, R.const(4, \"float32\"))", "p = R.nn.softmax(t, axis=-1)",
                   "vt = R.permute_dims(v, [0, 2, 1, 3])", "a = R.matmul(p, vt)", "o = R.permute_dims(a, [0, 2, 1, 3])"]
        yield Case(f"written out {m}x{n}", written, ins, attend(q, k, v), bsnh)
    q, k, v = t(1, 150, 2, 16), t(1, 150, 2, 16), t(1, 150, 2, 16)
    ins = {"q": q, "k": k, "v": v}
    yield Case("causal", ['o = R.nn.attention(q, k, v, causal_mask="TopLeft")'], ins, attend(q, k, v, causal(150, 150)), bsnh)
    c = t(1, 2, 150, 150)
    yield Case("bias", ["o = R.nn.attention(q, k, v, c, scale=0.25)"], {**ins, "c": c}, attend(q, k, v, c, 0.25),
               {**bsnh, "c": ("b", 2, "m", "n")})
    yield Case("one tensor for all", ["o = R.nn.attention(q, q, q)"], {"q": q}, attend(q, q, q), {"q": bsnh["q"]})
    for dtype in ("float64", "float16"):
        h = [x.astype(dtype).astype("float64") for x in (q, k, v)]
        yield Case(dtype, ["o = R.nn.attention(q, k, v)"], dict(zip("qkv", h)), attend(*h), bsnh, dtype)
    q = t(2, 100, 6, 16)
    k, v = t(2, 90, 2, 16), t(2, 90, 2, 16)
    yield Case("shared heads", ["o = R.nn.attention(q, k, v)"], {"q": q, "k": k, "v": v}, attend(q, k, v), {**bsnh, "q": ("b", "m", 6, 16)})
    # plain matrices: one batch, softmax written out, a bias and an activation behind
    x, w, y, e = t(130, 24), t(24, 200), t(200, 40), t(40)
    body = ["s = R.matmul(x, w)", "g = R.max(s, axis=[-1], keepdims=True)", "d = R.exp(R.subtract(s, g))",
            "z = R.sum(d, axis=[-1], keepdims=True)", "p = R.divide(d, z)", "a = R.matmul(p, y)", "o = R.nn.relu(R.add(a, e))"]
    yield Case("plain matrices", body, {"x": x, "w": w, "y": y, "e": e}, np.maximum(softmax(x @ w) @ y + e, 0),
               {"x": ("m", 24), "w": (24, "n"), "y": ("n", 40), "e": (40,)})
    # rows normalised in another way, and the scores by columns of the second operand
    body = ["s = R.matmul(x, w)", "g = R.mean(s, axis=[-1], keepdims=True)", "d = R.subtract(s, g)",
            "z = R.sqrt(R.sum(R.multiply(d, d), axis=[-1], keepdims=True))", "p = R.divide(d, z)", "o = R.matmul(p, y)"]
    s = x @ w
    d = s - s.mean(-1, keepdims=True)
    yield Case("rows of length one", body, {"x": x, "w": w, "y": y}, d / np.sqrt((d * d).sum(-1, keepdims=True)) @ y,
               {"x": ("m", 24), "w": (24, "n"), "y": ("n", 40)})
    # the scores are wanted elsewhere too: no chain, but right
    body = ["s = R.matmul(x, w)", "p = R.nn.softmax(s, axis=-1)", "a = R.matmul(p, y)", "r = R.sum(s)", "o = R.add(a, r)"]
    yield Case("scores used twice", body, {"x": x, "w": w, "y": y}, softmax(s) @ y + s.sum(), {"x": ("m", 24), "w": (24, "n"), "y": ("n", 40)})
    # softmax over the rows' own axis: nothing to cut
    body = ["s = R.matmul(x, w)", "p = R.nn.softmax(s, axis=0)", "o = R.matmul(p, y)"]
    yield Case("columns", body, {"x": x, "w": w, "y": y}, softmax(s.T).T @ y, {"x": ("m", 24), "w": (24, "n"), "y": ("n", 40)})
    for m, n in ((300, 300), (333, 200), (200, 448), (50, 1300), (1100, 1100), (3, 700)):
        q, k, v = t(1, m, 2, 16), t(1, n, 2, 16), t(1, n, 2, 16)
        ins = {"q": q, "k": k, "v": v}
        yield Case(f"causal {m}x{n}", ['o = R.nn.attention(q, k, v, causal_mask="TopLeft")'], ins, attend(q, k, v, causal(m, n)), bsnh)
        yield Case(f"causal from the end {m}x{n}", ['o = R.nn.attention(q, k, v, causal_mask="BottomRight")'], ins,
                   attend(q, k, v, causal(m, n, abs(n - m))), bsnh)
    # masks written out: chosen, added, over the far columns; rows that see nothing are NaN, as NumPy has it
    a, b, y = t(300, 24) / 5, t(24, 300), t(300, 40)
    for name, shift, mask in (("chosen", 0, "m = R.where(R.less_equal(j, i), s, R.const(float('-inf'), 'float32'))"),
                              ("the other way", -1, "m = R.where(R.greater_equal(j, i), R.const(float('-inf'), 'float32'), s)"),
                              ("two conditions", 20, "m = R.where(R.logical_and(R.less(j, R.const(290, 'int64')), R.less_equal(R.subtract(j, R.const(20, 'int64')), i)),"
                                                     " s, R.const(float('-inf'), 'float32'))"),
                              ("added", 0, "m = R.add(s, R.triu(R.full(({m}, {n}), R.const(float('-inf'), 'float32'), dtype='float32'), 1))")):
        body = ["s = R.matmul(x, w)", "i = R.reshape(R.arange(0, {m}, 1, dtype='int64'), ({m}, 1))",
                "j = R.reshape(R.arange(0, {n}, 1, dtype='int64'), (1, {n}))", mask, "p = R.nn.softmax(m, axis=-1)", "o = R.matmul(p, y)"]
        seen = causal(300, 300, shift) + (np.where(np.arange(300) < 290, 0, -np.inf) if shift == 20 else 0)
        with np.errstate(invalid="ignore"):
            want = softmax(a @ b + seen) @ y
        yield Case(f"masked: {name}", body, {"x": a, "w": b, "y": y}, want, {"x": ("m", 24), "w": (24, "n"), "y": ("n", 40)})


def run(relaxc, folder, case, flags, threads="2"):
    args = [w for k in case.inputs for w in ("--input", f"{k}={folder}/{k}.npy")]
    subprocess.run([relaxc, *flags, f"{folder}/m.rx", *args, "--output", f"{folder}/o.npy"], check=True,
                   env={**os.environ, "RELAXRT_NUM_THREADS": threads})
    return np.load(f"{folder}/o.npy")


def faults(relaxc, case):
    with tempfile.TemporaryDirectory() as folder:
        for k, x in case.inputs.items():
            np.save(f"{folder}/{k}.npy", x)
        for symbolic in (False, True):
            with open(f"{folder}/m.rx", "w") as f:
                f.write(case.text(symbolic))
            for flags in [["eval"]] + [["run", f"-march={level}"] for level in LEVELS]:
                got = run(relaxc, folder, case, flags)
                bound = TOL[case.dtype] * max(1, np.nanmax(np.abs(case.want), initial=0))
                worst = np.nanmax(np.abs(got.astype("float64") - case.want), initial=0)
                if not worst <= bound or (np.isnan(got) != np.isnan(case.want)).any():
                    yield f"{' '.join(flags)}, {'symbolic' if symbolic else 'static'}: off by {worst:.3g}"
                if flags[-1].endswith("native") and got.tobytes() != run(relaxc, folder, case, flags, "1").tobytes():
                    yield f"{' '.join(flags)}: the number of threads changes the result"


def memory(relaxc):
    """Bytes that a kernel of 2 x 1024 x 1024 scores takes."""
    text = '@R.function\ndef main(q: R.Tensor((1, 1024, 2, 16), "float32")):\n    with R.dataflow():\n' \
           "        o = R.nn.attention(q, q, q)\n        R.output(o)\n    return o\n"
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.rx", "w") as f:
            f.write(text)
        loops = subprocess.run([relaxc, f"{folder}/m.rx", "--emit=loops", "-march=x86-64-v3", "-o", "-"], check=True,
                               capture_output=True, text=True).stdout
    sizes = [int(n) for n in re.findall(r"alloc_buffer\(\(T\.int64\((\d+)\),\)", loops)]
    return 4 * sum(sizes)


def main():
    relaxc, bad, n = sys.argv[1], 0, 0
    for case in cases():
        n += 1
        for fault in faults(relaxc, case):
            print(f"{case.name}: {fault}")
            bad += 1
    if not 0 < memory(relaxc) < 1 << 20:
        print(f"an attention of 1024 x 1024 allocates {memory(relaxc)} bytes")
        bad += 1
    print(f"{n} chains, {bad} faults")
    return bad != 0


sys.exit(main())
