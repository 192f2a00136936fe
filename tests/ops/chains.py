"""Random chains of exact elementwise operators and conversions in every dtype, fused in compiled code: the
same bits as in the interpreter, on this machine and on x86-64-v2.

    chains.py RELAXC [SEED...]
"""
import random
import subprocess
import sys
import tempfile

import numpy as np

from dtypes import ALL, from_file
from run_dtypes import Gen

ONE = ("abs", "negative", "sign", "square", "round", "floor", "nn.relu")
TWO = ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "mod", "floor_mod", "divide")
PER_DTYPE = 14


def chain(rng, dtype, depth):
    if depth <= 0:
        return rng.choice("xy")
    arg = lambda: chain(rng, dtype, depth - 1)
    kind = rng.random()
    if kind < 0.25:
        return f'R.astype(R.astype({arg()}, "{rng.choice(ALL)}"), "{dtype}")'
    if kind < 0.55:
        return f"R.{rng.choice(ONE)}({arg()})"
    if kind < 0.65:
        return f"R.where(R.less({arg()}, {arg()}), {arg()}, {arg()})"
    return f"R.{rng.choice(TWO)}({arg()}, {arg()})"


def run(relaxc, flags, folder):
    args = [w for k in "xy" for w in ("--input", f"{k}={folder}/{k}.npy")]
    subprocess.run([relaxc, *flags, f"{folder}/m.rx", *args, "--output", f"{folder}/o.npz"], check=True)
    with np.load(f"{folder}/o.npz") as z:
        return [z[k] for k in z.files]


def check(relaxc, dtype, seed):
    """The chains that differ, in words."""
    rng, g, bad = random.Random(f"{seed} {dtype}"), Gen(dtype, f"chain {seed}"), []
    x, y = (g.t(np.resize(g.row().values[::step], (6, 37))) for step in (1, -1))
    chains = [chain(rng, dtype, 3) for _ in range(PER_DTYPE)]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.rx", "w") as f:
            f.write(f'@R.function\ndef main(x: R.Tensor(("n", "m"), "{dtype}"), y: R.Tensor(("n", "m"), "{dtype}")):\n')
            f.writelines(f"    r{i} = {e}\n" for i, e in enumerate(chains))
            f.write("    return (" + ", ".join(f"r{i}" for i in range(len(chains))) + ")\n")
        x.save(f"{folder}/x.npy")
        y.save(f"{folder}/y.npy")
        want = run(relaxc, ["eval"], folder)
        for flags in (["run"], ["run", "-march=x86-64-v2"]):
            for e, a, b in zip(chains, want, run(relaxc, flags, folder)):
                a, b = from_file(a, dtype), from_file(b, dtype)
                same = (a == b) | ((a != a) & (b != b))
                if not same.all():
                    at = tuple(int(k) for k in np.argwhere(~same)[0])
                    bad.append(f"{dtype}, {' '.join(flags)}: {e}: got {b[at]!r}, expected {a[at]!r} "
                               f"(x = {x.values[at]!r}, y = {y.values[at]!r})")
    return bad


def main(relaxc, *seeds):
    bad = [words for seed in seeds or ("1",) for dtype in ALL for words in check(relaxc, dtype, seed)]
    ran = 2 * PER_DTYPE * len(ALL) * len(seeds or ("1",))
    print(f"chains: {ran - len(bad)} passed, {len(bad)} failed")
    for words in bad[:20]:
        print("  " + words)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
