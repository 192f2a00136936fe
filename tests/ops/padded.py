"""Convolutions of constant weights, and poolings, with padding of every kind: what the compiled code leaves out,
or masks, is what is zero (or what never wins). Values are integers, so that sums are exact; expected ones are sums
of shifted images in NumPy.

    padded.py RELAXC [SEED...]

All modules run for this machine and for x86-64-v2 and -v3. Weights that hold an infinity or a NaN make NaNs
where the padding meets them, so there the padded image is kept. The remarks of -Rpass tell which was done.
"""
import itertools
import random
import subprocess
import sys
import tempfile

import numpy as np

PER_MODULE = 16
MARCH = (["-march=native"], ["-march=x86-64-v2"], ["-march=x86-64-v3"])


def reference(x, w, stride, pad, dilation, groups):
    """x: N, C, spatial...; w: O, C / groups, spatial...; pad: before and after for each dimension."""
    nd = len(stride)
    size = [(x.shape[2 + i] + sum(pad[i]) - (w.shape[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(nd)]
    xp = np.pad(x, [(0, 0), (0, 0), *pad])
    per = w.shape[0] // groups
    out = np.zeros((x.shape[0], w.shape[0], *size), x.dtype)
    for g, at in itertools.product(range(groups), itertools.product(*map(range, w.shape[2:]))):
        part = xp[:, g * w.shape[1]:(g + 1) * w.shape[1]]
        for i in range(nd):
            first = at[i] * dilation[i]
            part = np.take(part, range(first, first + (size[i] - 1) * stride[i] + 1, stride[i]), axis=2 + i)
        with np.errstate(all="ignore"):
            term = np.einsum("oc,nc...->no...", w[(slice(g * per, (g + 1) * per), slice(None), *at)], part)
        out[:, g * per:(g + 1) * per] += term
    return out


def pick_symbolic(rng, nd):
    """Dimensions of N, C, spatial... that are symbolic."""
    return rng.choice(([], [], [], [0], [2], [1 + nd], list(range(2, 2 + nd)), list(range(2, 2 + nd))))


def in_blocks(x, axis, size):
    """x with the inner part of an axis last."""
    x = x.reshape(*x.shape[:axis], x.shape[axis] // size, size, *x.shape[axis + 1:])
    return np.ascontiguousarray(np.moveaxis(x, axis + 1, -1))


class Case:
    """block: of the channels of data and result, 0: none."""
    def __init__(self, rng, number, special=None, block=0):
        nd = rng.choice((1, 2, 2, 2, 2, 3))
        rand = np.random.default_rng(rng.randrange(1 << 30))
        pick = lambda *of: [rng.choice(of) for _ in range(nd)]
        self.kernel, self.stride, self.dilation = pick(1, 2, 3, 3, 5), pick(1, 1, 2, 3), pick(1, 1, 1, 2)
        reach = [(k - 1) * d for k, d in zip(self.kernel, self.dilation)]
        self.groups = rng.choice((1, 1, 1, 1, 2, 5, 19))
        self.pad = [(rng.randint(0, r + 2), rng.randint(0, r + 1)) for r in reach]
        if self.groups > 1 and rng.random() < 0.5:  # results of the image's size
            self.stride = [1] * nd
            self.pad = [(p, r - p) for p, r in zip([rng.randint(0, r) for r in reach], reach)]
        elif self.groups > 1:
            self.stride[-1] = 2
        low = [max(1, r + 1 - sum(p)) for r, p in zip(reach, self.pad)]
        self.size = [rng.randint(a, max(a, rng.choice((4, 7, 7, 8, 15, 30)))) for a in low]
        if self.groups > 1 and nd == 2 and rng.random() < 0.5:
            self.size[1] = rng.randint(40, 150)  # several vectors, two tiles
        if self.groups == 19:
            cin = cout = self.groups = rng.choice((8, 19, 40))
        elif self.groups == 1:
            cin, cout = rng.choice((2, 3, 12)), rng.choice((1, 16, 33, 48))
        else:  # depthwise, or nearly
            cin, cout = self.groups * rng.choice((1, 1, 1, 2)), self.groups * rng.choice((1, 1, 2))
        self.block = block
        if block and self.groups > 1:  # depthwise
            cin = cout = self.groups = block * rng.choice((1, 2, 5))
        elif block:
            cin, cout = block * rng.choice((1, 2)), block * rng.choice((1, 2, 3, 5))
        n = rng.choice((1, 1, 2))
        self.last = rng.random() < (0.3 if self.groups == 1 else 0.7 if self.groups > 5 else 0)  # NHWC
        self.order = rng.randrange(3)  # of the weights then
        self.symbolic = pick_symbolic(rng, nd)
        self.relu, self.number = rng.random() < 0.5, number
        self.x = rand.integers(-4, 5, (n, cin, *self.size)).astype("float32")
        self.w = rand.integers(-3, 4, (cout, cin // self.groups, *self.kernel)).astype("float32")
        if special is not None:
            self.w[(rng.randrange(cout), *(rng.randrange(k) for k in self.w.shape[1:]))] = special
        self.want = reference(self.x, self.w, self.stride, self.pad, self.dilation, self.groups)
        if self.relu:
            self.want = np.where(self.want < 0, 0, self.want)
        if block:
            self.last = False
            self.x, self.want, self.w = (in_blocks(t, a, block) for t, a in ((self.x, 1), (self.want, 1), (self.w, 0)))
            if self.groups == 1:  # OI[..]i, o
                self.w = np.ascontiguousarray(np.moveaxis(in_blocks(self.w, 1, block), -2, -1))
        if self.last:
            self.x, self.want = np.moveaxis(self.x, 1, -1), np.moveaxis(self.want, 1, -1)
            space = range(2, 2 + nd)
            self.w = self.w.transpose(((0, *space, 1), (*space, 1, 0), (*space, 0, 1))[self.order])

    def text(self):
        i, nd = self.number, len(self.size)
        order = [0, *range(2, 2 + nd), 1] if self.last else range(self.x.ndim)
        dims = [f'"n{i}_{d}"' if d in self.symbolic else str(n) for d, n in zip(order, self.x.shape)]
        pad = [p[0] for p in self.pad] + [p[1] for p in self.pad]
        space = "DHW"[3 - nd:]
        layout = ("NC" + space, "OI" + space)
        if self.block:
            b = self.block
            layout = (f"NC{space}{b}c", f"OI{space}{b}o" if self.groups > 1 else f"OI{space}{b}i{b}o")
        if self.last:
            layout = (f"N{space}C", (f"O{space}I", f"{space}IO", f"{space}OI")[self.order])
        params = (f'x{i}: R.Tensor(({", ".join(dims)}), "float32")', f'w{i}: R.Tensor({self.w.shape}, "float32")')
        call = (f"R.nn.conv{nd}d(x{i}, w{i}, strides={self.stride}, padding={pad}, dilation={self.dilation}, "
                f'groups={self.groups}, data_layout="{layout[0]}", kernel_layout="{layout[1]}")')
        return params, f"        y{i} = R.nn.relu({call})" if self.relu else f"        y{i} = {call}"

    def describe(self):
        return (f"x {self.x.shape}, w {self.w.shape}, strides {self.stride}, pad {self.pad}, dilation {self.dilation}, "
                f"groups {self.groups}, symbolic {self.symbolic}, relu {self.relu}, channels last {self.last}, block {self.block}")


class Pool:
    """The largest or mean element of windows."""
    def __init__(self, rng, number):
        nd = rng.choice((1, 2, 2, 2, 2, 3))
        rand = np.random.default_rng(rng.randrange(1 << 30))
        pick = lambda *of: [rng.choice(of) for _ in range(nd)]
        self.kernel, self.stride, self.dilation = pick(1, 2, 3, 3, 5, 7), pick(1, 1, 2, 3), pick(1, 1, 1, 2)
        reach = [(k - 1) * d for k, d in zip(self.kernel, self.dilation)]
        self.pad = [(rng.randint(0, k // 2), rng.randint(0, k // 2)) for k in self.kernel]
        low = [max(1, r + 1 - sum(p)) for r, p in zip(reach, self.pad)]
        self.size = [rng.randint(a, max(a, rng.choice((4, 7, 8, 15, 30)))) for a in low]
        if rng.random() < 0.5:
            self.size[-1] = rng.randint(low[-1] + 30, low[-1] + 130)  # several vectors
        self.kind = rng.choice(("max", "max", "avg"))
        self.whole = self.kind == "avg" and rng.random() < 0.5  # the padding counts
        self.symbolic, self.relu, self.number, self.w = pick_symbolic(rng, nd), rng.random() < 0.3, number, None
        shape = (rng.choice((1, 2)), rng.choice((1, 3, 20)), *self.size)
        self.x = rand.integers(-9, 10, shape).astype("float32") * (1 if self.kind == "max" else 420)
        if self.kind == "max" and rng.random() < 0.5:
            self.x.reshape(-1)[rand.integers(0, self.x.size, 3)] = np.nan, -np.inf, -np.inf
        self.want = self.reference()

    def reference(self):
        nd = len(self.size)
        pads = [(0, 0), (0, 0), *self.pad]
        fill = -np.inf if self.kind == "max" else 0
        x, one = np.pad(self.x, pads, constant_values=fill), np.pad(np.ones_like(self.x), pads, constant_values=self.whole)
        result = count = None
        for at in itertools.product(*map(range, self.kernel)):
            part, ones = x, one
            for i in range(nd):
                first, reach = at[i] * self.dilation[i], (self.kernel[i] - 1) * self.dilation[i]
                places = range(first, first + x.shape[2 + i] - reach, self.stride[i])
                part, ones = np.take(part, places, axis=2 + i), np.take(ones, places, axis=2 + i)
            if result is None:
                result, count = part, ones
            else:
                result, count = np.maximum(result, part) if self.kind == "max" else result + part, count + ones
        if self.kind == "avg":
            result = (result / np.maximum(count, 1)).astype("float32")
        return np.where(result < 0, 0, result).astype("float32") if self.relu else result

    def text(self):
        i, nd = self.number, len(self.size)
        dims = [f'"n{i}_{d}"' if d in self.symbolic else str(n) for d, n in enumerate(self.x.shape)]
        pad = [p[0] for p in self.pad] + [p[1] for p in self.pad]
        call = (f"R.nn.{self.kind}_pool{nd}d(x{i}, pool_size={self.kernel}, strides={self.stride}, padding={pad}, "
                f"dilation={self.dilation}" + (f", count_include_pad={self.whole})" if self.kind == "avg" else ")"))
        params = (f'x{i}: R.Tensor(({", ".join(dims)}), "float32")',)
        return params, f"        y{i} = R.nn.relu({call})" if self.relu else f"        y{i} = {call}"

    def describe(self):
        return (f"{self.kind} x {self.x.shape}, size {self.kernel}, strides {self.stride}, pad {self.pad}, dilation "
                f"{self.dilation}, symbolic {self.symbolic}, relu {self.relu}, padding counts {self.whole}")


def run(relaxc, cases):
    """Number of wrong results, of contractions that left padding out, and of those that mask it."""
    params = [c.text()[0] for c in cases]
    text = "@I.ir_module\nclass Module:\n    @R.function\n    def main("
    text += ", ".join([p[0] for p in params] + [p[1] for p in params if len(p) > 1]) + '):\n        R.func_attr({"num_input": '
    text += f"{len(cases)}" + "})\n" + "\n".join(c.text()[1] for c in cases)
    text += "\n        return (" + ", ".join(f"y{c.number}" for c in cases) + ",)\n"
    bad = left = masked = 0
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.rx", "w") as f:
            f.write(text)
        np.savez(f"{folder}/w.npz", **{f"w{c.number}": c.w for c in cases if c.w is not None})
        args = [f"{folder}/m.rx", f"--weights={folder}/w.npz"]
        inputs = []
        for c in cases:
            np.save(f"{folder}/x{c.number}.npy", np.ascontiguousarray(c.x))
            inputs += ["--input", f"x{c.number}={folder}/x{c.number}.npy"]
        for march in MARCH:
            p = subprocess.run([relaxc, "run", *args, *march, *inputs, "-Rpass", "--output", f"{folder}/o.npz"],
                               capture_output=True, text=True)
            assert p.returncode == 0, p.stderr[-2000:]
            left += p.stderr.count("padding left out")
            masked += p.stderr.count("padding masked")
            with np.load(f"{folder}/o.npz") as z:
                for c, got in zip(cases, [z[k] for k in z.files]):
                    if got.shape == c.want.shape and np.array_equal(got, c.want, equal_nan=True):
                        continue
                    bad += 1
                    print(f"{march[0]}: {c.describe()}: {np.sum(got != c.want)} of {got.size} differ")
    return bad, left, masked


# Loops of a user: dilation 3 and a border on both sides; stride 2, a border on one side, a symbolic number of
# rows around; an infinite weight.
OWN = """@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def line(x: T.Buffer((24, 9), "float32"), w: T.Buffer((24, 4, 16), "float32"), out: T.Buffer((16, 9), "float32")):
        P = T.sblock_alloc_buffer((24, 18))
        for c, i in T.grid(24, 18):
            with T.sblock("pad"):
                vc, vi = T.axis.remap("SS", [c, i])
                P[vc, vi] = T.if_then_else(4 <= vi and vi < 13, x[vc, vi - 4], T.float32(0))
        for o, i, c, k in T.grid(16, 9, 24, 4):
            with T.sblock("sum"):
                vo, vi, vc, vk = T.axis.remap("SSRR", [o, i, c, k])
                with T.init():
                    out[vo, vi] = T.float32(0)
                out[vo, vi] = out[vo, vi] + P[vc, vi + vk * 3] * w[vc, vk, vo]

    @T.prim_func(private=True, s_tir=True)
    def steps(var_y: T.handle, w: T.Buffer((24, 4, 16), "float32"), var_out: T.handle):
        n = T.int64()
        y = T.match_buffer(var_y, (n, 24, 20), "float32")
        out = T.match_buffer(var_out, (n, 16, 10), "float32")
        P = T.sblock_alloc_buffer((n, 24, 23))
        for b, c, i in T.grid(n, 24, 23):
            with T.sblock("pad"):
                vb, vc, vi = T.axis.remap("SSS", [b, c, i])
                P[vb, vc, vi] = T.if_then_else(vi < 20, y[vb, vc, vi], T.float32(0))
        for b, o, i, c, k in T.grid(n, 16, 10, 24, 4):
            with T.sblock("sum"):
                vb, vo, vi, vc, vk = T.axis.remap("SSSRR", [b, o, i, c, k])
                with T.init():
                    out[vb, vo, vi] = T.float32(0)
                out[vb, vo, vi] = out[vb, vo, vi] + w[vc, vk, vo] * P[vb, vc, vi * 2 + vk]

    @T.prim_func(private=True, s_tir=True)
    def infinite(x: T.Buffer((24, 9), "float32"), w: T.Buffer((24, 4, 16), "float32"), out: T.Buffer((16, 9), "float32")):
        P = T.sblock_alloc_buffer((24, 18))
        for c, i in T.grid(24, 18):
            with T.sblock("pad"):
                vc, vi = T.axis.remap("SS", [c, i])
                P[vc, vi] = T.if_then_else(4 <= vi and vi < 13, x[vc, vi - 4], T.float32(0))
        for o, i, c, k in T.grid(16, 9, 24, 4):
            with T.sblock("sum"):
                vo, vi, vc, vk = T.axis.remap("SSRR", [o, i, c, k])
                with T.init():
                    out[vo, vi] = T.float32(0)
                out[vo, vi] = out[vo, vi] + P[vc, vi + vk * 3] * w[vc, vk, vo]

    @R.function
    def main(x: R.Tensor((24, 9), "float32"), y: R.Tensor(("n", 24, 20), "float32"), w: R.Tensor((24, 4, 16), "float32"), u: R.Tensor((24, 4, 16), "float32")):
        R.func_attr({"num_input": 2})
        n = T.int64()
        cls = Module
        a = R.call_tir(cls.line, (x, w), out_ty=R.Tensor((16, 9), "float32"))
        b = R.call_tir(cls.steps, (y, w), out_ty=R.Tensor((n, 16, 10), "float32"))
        c = R.call_tir(cls.infinite, (x, u), out_ty=R.Tensor((16, 9), "float32"))
        return (a, b, c)
"""


def run_own(relaxc):
    """Number of wrong results."""
    x = (np.arange(216) * 7919 % 61 - 30).reshape(24, 9).astype("float32")
    y = (np.arange(2400) * 7919 % 61 - 30).reshape(5, 24, 20).astype("float32")
    w = (np.arange(1536) % 7 - 3).reshape(24, 4, 16).astype("float32")
    u = np.where(np.arange(1536).reshape(w.shape) == 99, np.inf, w).astype("float32")
    px, py = np.pad(x, ((0, 0), (4, 5))), np.pad(y, ((0, 0), (0, 0), (0, 3)))
    with np.errstate(invalid="ignore"):
        want = [sum(np.einsum("ci,co->oi", px[:, 3 * k:3 * k + 9], v[:, k]) for k in range(4)) for v in (w, u)]
    want.insert(1, sum(np.einsum("nci,co->noi", py[:, :, k:k + 19:2], w[:, k]) for k in range(4)))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.rx", "w") as f:
            f.write(OWN)
        np.savez(f"{folder}/w.npz", w=w, u=u)
        np.save(f"{folder}/x.npy", x)
        np.save(f"{folder}/y.npy", y)
        for march in MARCH:
            p = subprocess.run([relaxc, "run", f"{folder}/m.rx", f"--weights={folder}/w.npz", *march, "--input",
                                f"x={folder}/x.npy", "--input", f"y={folder}/y.npy", "-Rpass", "--output",
                                f"{folder}/o.npz"], capture_output=True, text=True)
            assert p.returncode == 0, p.stderr[-2000:]
            left = [line for line in p.stderr.splitlines() if "padding left out" in line]
            assert any("'line'" in s for s in left) and not any("'infinite'" in s for s in left), p.stderr
            with np.load(f"{folder}/o.npz") as z:
                for i, got in enumerate(z[k] for k in z.files):
                    if not np.array_equal(got, want[i], equal_nan=True):
                        print(f"{march[0]}: loops {i}: {np.sum(got != want[i])} of {got.size} differ")
                        bad += 1
    return bad


def main():
    relaxc, seeds = sys.argv[1], [int(s) for s in sys.argv[2:]] or [1, 2, 5]
    bad = left = masked = 0
    for seed in seeds:
        rng = random.Random(seed)
        b, l, m = run(relaxc, [Case(rng, i) for i in range(PER_MODULE)])
        bad, left, masked = bad + b, left + l, masked + m
    assert left and masked, "no contraction left its padding out, or none masked it"
    blocks = 0
    for seed in seeds:
        rng = random.Random(seed)
        b, l, _ = run(relaxc, [Case(rng, i, block=rng.choice((4, 8, 16, 16, 32))) for i in range(PER_MODULE)])
        bad, blocks = bad + b, blocks + l
    assert blocks, "no contraction in blocks left its padding out"
    pools = 0
    for seed in seeds:
        rng = random.Random(seed)
        b, _, m = run(relaxc, [Pool(rng, i) for i in range(PER_MODULE)])
        bad, pools = bad + b, pools + m
    assert pools, "no pooling masked its padding"
    rng = random.Random(seeds[0])
    b, l, _ = run(relaxc, [Case(rng, i, rng.choice((np.inf, -np.inf, np.nan))) for i in range(PER_MODULE)])
    assert not l, "padding was left out beside weights that aren't finite"
    print(f"{(2 * len(seeds) + 1) * PER_MODULE * len(MARCH)} convolutions, {left + blocks} without their padding, {masked} with "
          f"masks, {pools} poolings with masks: {bad + b} wrong")
    own = run_own(relaxc)
    return bool(bad + b + own)


if __name__ == "__main__":
    sys.exit(main())
