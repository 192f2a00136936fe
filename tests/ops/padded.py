"""Convolutions of constant weights with padding of every kind: what the compiled code leaves out is what is
zero. Values are integers, so that sums are exact; expected ones are sums of shifted images in NumPy.

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


class Case:
    def __init__(self, rng, number, special=None):
        nd = rng.choice((1, 2, 2, 2, 2, 3))
        rand = np.random.default_rng(rng.randrange(1 << 30))
        pick = lambda *of: [rng.choice(of) for _ in range(nd)]
        self.kernel, self.stride, self.dilation = pick(1, 2, 3, 3, 5), pick(1, 1, 2, 3), pick(1, 1, 1, 2)
        reach = [(k - 1) * d for k, d in zip(self.kernel, self.dilation)]
        self.pad = [(rng.randint(0, r + 2), rng.randint(0, r + 1)) for r in reach]
        low = [max(1, r + 1 - sum(p)) for r, p in zip(reach, self.pad)]
        self.size = [rng.randint(a, max(a, rng.choice((4, 7, 8, 15, 30)))) for a in low]
        self.groups = rng.choice((1, 1, 1, 1, 1, 2, 4))
        cin, cout, n = self.groups * rng.choice((2, 3, 12)), self.groups * rng.choice((1, 16, 33, 48)), rng.choice((1, 1, 2))
        self.last = nd == 2 and self.groups == 1 and rng.random() < 0.3  # NHWC, HWIO
        self.symbolic = rng.choice((0, 0, 0, 0, 0, 1, 2))  # 1: the batch, 2: the first spatial dimension
        self.relu, self.number = rng.random() < 0.5, number
        self.x = rand.integers(-4, 5, (n, cin, *self.size)).astype("float32")
        self.w = rand.integers(-3, 4, (cout, cin // self.groups, *self.kernel)).astype("float32")
        if special is not None:
            self.w[(rng.randrange(cout), *(rng.randrange(k) for k in self.w.shape[1:]))] = special
        self.want = reference(self.x, self.w, self.stride, self.pad, self.dilation, self.groups)
        if self.relu:
            self.want = np.where(self.want < 0, 0, self.want)
        if self.last:
            self.x, self.w, self.want = self.x.transpose(0, 2, 3, 1), self.w.transpose(2, 3, 1, 0), self.want.transpose(0, 2, 3, 1)

    def text(self):
        i, nd = self.number, len(self.size)
        dims = [str(d) for d in self.x.shape]
        if self.symbolic:
            at = 0 if self.symbolic == 1 else 1 if self.last else 2
            dims[at] = f'"n{i}"'
        pad = [p[0] for p in self.pad] + [p[1] for p in self.pad]
        layout = ("NHWC", "HWIO") if self.last else ("NC" + "DHW"[3 - nd:], "OI" + "DHW"[3 - nd:])
        params = (f'x{i}: R.Tensor(({", ".join(dims)}), "float32")', f'w{i}: R.Tensor({self.w.shape}, "float32")')
        call = (f"R.nn.conv{nd}d(x{i}, w{i}, strides={self.stride}, padding={pad}, dilation={self.dilation}, "
                f'groups={self.groups}, data_layout="{layout[0]}", kernel_layout="{layout[1]}")')
        return params, f"        y{i} = R.nn.relu({call})" if self.relu else f"        y{i} = {call}"

    def describe(self):
        return (f"x {self.x.shape}, w {self.w.shape}, strides {self.stride}, pad {self.pad}, dilation {self.dilation}, "
                f"groups {self.groups}, symbolic {self.symbolic}, relu {self.relu}, channels last {self.last}")


def run(relaxc, cases):
    """Number of wrong results, and of contractions that left padding out."""
    params = [c.text()[0] for c in cases]
    text = "@I.ir_module\nclass Module:\n    @R.function\n    def main("
    text += ", ".join([p[0] for p in params] + [p[1] for p in params]) + '):\n        R.func_attr({"num_input": '
    text += f"{len(cases)}" + "})\n" + "\n".join(c.text()[1] for c in cases)
    text += "\n        return (" + ", ".join(f"y{c.number}" for c in cases) + ",)\n"
    bad = left = 0
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.rx", "w") as f:
            f.write(text)
        np.savez(f"{folder}/w.npz", **{f"w{c.number}": c.w for c in cases})
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
            with np.load(f"{folder}/o.npz") as z:
                for c, got in zip(cases, [z[k] for k in z.files]):
                    if got.shape == c.want.shape and np.array_equal(got, c.want, equal_nan=True):
                        continue
                    bad += 1
                    print(f"{march[0]}: {c.describe()}: {np.sum(got != c.want)} of {got.size} differ")
    return bad, left


def main():
    relaxc, seeds = sys.argv[1], [int(s) for s in sys.argv[2:]] or [1, 2]
    bad = left = 0
    for seed in seeds:
        rng = random.Random(seed)
        b, n = run(relaxc, [Case(rng, i) for i in range(PER_MODULE)])
        bad, left = bad + b, left + n
    assert left, "no contraction left its padding out"
    rng = random.Random(seeds[0])
    b, n = run(relaxc, [Case(rng, i, rng.choice((np.inf, -np.inf, np.nan))) for i in range(PER_MODULE)])
    assert not n, "padding was left out beside weights that aren't finite"
    print(f"{(len(seeds) + 1) * PER_MODULE * len(MARCH)} convolutions, {left} without their padding: {bad + b} wrong")
    return bool(bad + b)


if __name__ == "__main__":
    sys.exit(main())
