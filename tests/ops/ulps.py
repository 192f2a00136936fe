"""Measures the functions whose row promises a bound in units in the last place ("within N ULP" in
--help-op), on floats of every size: a strided walk over all bit patterns, and hard points.

    ulps.py RELAXC [-v]

float32 against NumPy's float64, float64 against the x87's 64 significant bits (NumPy's longdouble; erf: C's
double function, so one unit more). Vector code for this machine and for x86-64-v2 (no fused multiply-add).
"""
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from dtypes import spacing

L = np.longdouble
ONE = {name: getattr(np, "arc" + name[1:] if name in ("acos", "acosh", "asin", "asinh", "atan", "atanh") else name)
       for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "sin", "sinh", "tan", "tanh")}
ONE.update(erf=np.vectorize(math.erf, otypes=[float]), rsqrt=lambda x: 1 / np.sqrt(x),
           sigmoid=lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-np.maximum(x, 0)))))
TWO = {"power": np.power, "atan2": np.arctan2}


def points(dtype):
    """Every so many-th float, both signs, and where functions are hard: near zeros, poles, ends."""
    if dtype == "float32":
        bits = np.arange(0, 1 << 32, 32771, dtype=np.uint64).astype(np.uint32)
        walk = bits.view(np.float32)
    else:
        step = (1 << 64) // 60000 + 12345677
        walk = (np.arange(60000, dtype=np.uint64) * np.uint64(step)).view(np.float64)
    k = np.arange(1, 400, dtype=np.float64)
    hard = np.concatenate([k * np.pi / 2, k * 1e4 * np.pi / 2, k * np.pi / 4, 1 + k * 1e-6, 1 - k * 1e-6, 1 + 2.0**-k[:50], 1 - 2.0**-k[:50],
                           k / 4, k * np.log(2), 88 + k / 200, 103 + k / 400, 709 + k / 400, 745 + k / 800, 10.0**(k / 10), 10.0**(-k / 10), 2.0**(-k), k, 1 / k])
    with np.errstate(over="ignore"):
        hard = hard.astype(dtype)
    some = np.concatenate([walk, hard, -hard, np.linspace(-20, 20, 200003).astype(dtype), np.linspace(-1, 1, 40001).astype(dtype)])
    return some.astype(dtype)


def pairs(dtype, rng):
    """Operands of power (results of every size) and of atan2."""
    n = 30000
    x = np.exp(rng.uniform(-40, 40, n))
    y = rng.uniform(-80 if dtype == "float32" else -700, 80 if dtype == "float32" else 700, n) / np.where(np.abs(np.log(x)) < 1e-3, 1, np.log(x))
    near = 1 + rng.uniform(-1e-3, 1e-3, n)
    a = np.concatenate([x, near, rng.uniform(-9, 9, n)])
    b = np.concatenate([y, rng.uniform(-5e4, 5e4, n), np.round(rng.uniform(-9, 9, n))])
    return a.astype(dtype), b.astype(dtype)


def bound(relaxc, name):
    text = subprocess.run([relaxc, f"--help-op={name}"], capture_output=True, text=True, check=True).stdout
    return float(re.search(r"within (\d+(?:\.\d+)?) ULP", text)[1])


def promised(relaxc):
    """The operators whose help has a bound of this kind."""
    names = re.findall(r"^  ([\w.]+) ", subprocess.run([relaxc, "--list-ops"], capture_output=True, text=True, check=True).stdout, re.M)
    return {n for n in names if "polynomial after range reduction" in subprocess.run([relaxc, f"--help-op={n}"], capture_output=True, text=True).stdout}


def run(relaxc, flags, dtype, x, a, b):
    lines = [f"    r_{n} = R.{n}(x)" for n in ONE] + [f"    r_{n} = R.{n}(a, b)" for n in TWO]
    names = [*ONE, *TWO]
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/m.rx", "w") as f:
            f.write(f'@R.function\ndef main(x: R.Tensor(("n",), "{dtype}"), a: R.Tensor(("m",), "{dtype}"), b: R.Tensor(("m",), "{dtype}")):\n'
                    + "\n".join(lines) + "\n    return (" + ", ".join(f"r_{n}" for n in names) + ")\n")
        for k, v in (("x", x), ("a", a), ("b", b)):
            np.save(f"{d}/{k}.npy", v)
        subprocess.run([relaxc, "run", *flags, f"{d}/m.rx", *[w for k in "xab" for w in ("--input", f"{k}={d}/{k}.npy")], "--output", f"{d}/o.npz"], check=True)
        with np.load(f"{d}/o.npz") as z:
            return dict(zip(names, [z[k] for k in z.files]))


def error(got, want, dtype):
    """Largest error in units in the last place; where one is not finite both must be alike."""
    exact = np.asarray(want)
    with np.errstate(all="ignore"):
        near = exact.astype(dtype)
        same = (got == near) | (np.isnan(got) & np.isnan(near))
        # a result that rounds to infinity, or from it, may stop at the largest number
        off = np.abs(got.astype(exact.dtype) - exact) / spacing(near, dtype).astype(exact.dtype)
    off = np.where(same & ~np.isfinite(near), 0, np.where(np.isnan(off), np.inf, off))
    at = int(np.argmax(off))
    return float(off[at]), at


def main(argv):
    relaxc, verbose = argv[1], "-v" in argv
    rng = np.random.default_rng(3)
    bad = 0
    missing = promised(relaxc) ^ {*ONE, *TWO}
    if missing:
        print("not measured, or without a bound in the help:", sorted(missing))
        bad += 1
    for dtype in ("float32", "float64"):
        wide = np.float64 if dtype == "float32" else L
        x, (a, b) = points(dtype), pairs(dtype, rng)
        for flags in ([], ["-march=x86-64-v2"]):
            out = run(relaxc, flags, dtype, x, a, b)
            for name in [*ONE, *TWO]:
                with np.errstate(all="ignore"):
                    if name in ONE:
                        want = ONE[name](x.astype(np.float64 if name == "erf" else wide))
                    else:
                        want = TWO[name](a.astype(wide), b.astype(wide))
                    most, at = error(out[name], want.astype(wide), dtype)
                limit = bound(relaxc, name) + (1 if name == "erf" and dtype == "float64" else 0)
                where = f"{x[at]!r}" if name in ONE else f"{a[at]!r}, {b[at]!r}"
                if most > limit or verbose:
                    print(f"{name} {dtype} {' '.join(flags)}: {most:.3f} ULP at {where}: got {out[name][at]!r}, exact {want[at]!r}, bound {limit}")
                bad += most > limit
    print(f"{len(ONE) + len(TWO)} functions, 2 dtypes, 2 instruction sets: {bad} beyond their bound")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
