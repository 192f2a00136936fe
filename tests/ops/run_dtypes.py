"""Every operator in every dtype that its row claims, static and symbolic, compiled and interpreted.

    run_dtypes.py RELAXC coverage    no claim without a specimen, no dtype beside the claims that compiles
    run_dtypes.py RELAXC GROUP...    runs the specimens of these groups (all without names); -v as in run_ops.py

A specimen (specimens_*.py) is a call with the value it must give, made for a dtype by a generator that
yields (operator, expression, inputs, expected, error[, names of dims]): the error in units in the last
place of float32 (narrower types compute in it and may then be off by 1; float64: twice as many), or
("of 1", k) for k units in the last place of max(1, the value).
Values are small integers where the operator is exact on them, so that every dtype gives the same number;
with them go the dtype's special values, no elements, rank 0 and rank 9.
"""
import os
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import specimens_data
import specimens_elementwise
import specimens_nn
from dtypes import ALL, BITS, FLOATS, INTS, NARROW, TABLES, UNSIGNED, Tensor
from harness import BATCH, Case, is_slow, module_text, report, run_cases

GROUPS = {**specimens_elementwise.GROUPS, **specimens_data.GROUPS, **specimens_nn.GROUPS}


class Gen:
    """Makes tensors of one dtype."""
    shapes = [(3, 5), (), (0, 4), (2, 1, 3, 1, 2, 1, 1, 2, 1)]  # every generator meets each

    def __init__(self, dtype, group):
        self.turn = ALL.index(dtype)
        self.dtype, self.rng = dtype, np.random.default_rng(zlib.crc32((group + dtype).encode()))

    def t(self, values):
        return Tensor(values, self.dtype)

    def x(self, shape, lo=-3, hi=3):
        """Small whole numbers."""
        if self.dtype in UNSIGNED + ("bool",):
            lo = 0
        v = self.rng.integers(lo, 1 if self.dtype == "bool" else hi, shape, endpoint=True)
        return Tensor(np.asarray(v), self.dtype)

    def f(self, shape, lo, hi):
        return Tensor(self.rng.uniform(lo, hi, shape), self.dtype)

    def special(self):
        if self.dtype == "bool":
            return self.t([False, True])
        if self.dtype in INTS:
            i = np.iinfo(self.dtype)
            return self.t(np.array([i.min, i.min + 1, -1 if i.min else i.max // 2 + 1, 0, 1, 2, i.max - 1, i.max], object))
        if self.dtype in NARROW:
            least, most = TABLES[self.dtype][1], TABLES[self.dtype][-1]
        else:
            i = np.finfo(self.dtype)
            least, most = float(i.smallest_subnormal), float(i.max)
        return self.t([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, -2.5, most, -most, least, -least, 0.5, 1.5, 2.5, 3.5, 1e-3])

    def row(self):
        """Special values, small ones, and as many more that a vector loop and its rest both run."""
        v = self.special().values.ravel()
        more = [self.x((21,), -9, 9).values] + ([self.f((16,), -9, 9).values] if self.dtype in FLOATS else [])
        return self.t(np.concatenate([v, *more]))

    def edge(self):
        """Each shape in turn."""
        self.turn += 1
        return self.x(self.shapes[self.turn % len(self.shapes)])

    def out(self, values, zeros=False):
        t = Tensor(np.asarray(values), self.dtype)
        t.zeros = zeros
        return t


def specimens(groups, dtypes=ALL):
    """(operator, dtype, Case) of groups of specimens."""
    for group in groups:
        for dtype in dtypes:
            with np.errstate(all="ignore"):
                for op, expr, inputs, want, error, *sym in GROUPS[group](Gen(dtype, group)):
                    wide = isinstance(error, tuple)
                    tol = 2.0 ** (1 - BITS[dtype]) * error[1] if wide and dtype in BITS else 0.0
                    ulps = 0 if wide else error if dtype == "float32" else min(error, 1)
                    if dtype == "float64":
                        ulps = 0 if wide else 2 * error
                    yield op, dtype, Case(group, expr, inputs, want, tol, sym[0] if sym else None, ulps=ulps,
                                          zeros=getattr(want, "zeros", False))


# ---- coverage: what the operator table claims is what the specimens show -----------------------
WORDS = {"all": ALL, "numbers": FLOATS + INTS, "floats": FLOATS, "integers": INTS, "bool": ("bool",),
         "float8": ("float8_e4m3fn", "float8_e5m2")}
# Operators with no value to compare here, and the test that has them.
ELSEWHERE = {"print": "tests/run/Inputs/print.py", "assert_op": "tests/run/assert_op.rx"}


def claims(relaxc):
    """{group: {operator: dtypes}} as `relaxc --list-ops` prints it."""
    text = subprocess.run([relaxc, "--list-ops"], capture_output=True, text=True, check=True).stdout
    out, group = {}, None
    for line in text.splitlines():
        if line.endswith(":") and line[0] != " ":
            group = line[:-1]
        m = re.match(r"  (\S+) +(-|[a-z0-9]+(?:, [a-z0-9]+)*) +\S", line)
        if m:
            words = [] if m[2] == "-" else m[2].split(", ")
            out.setdefault(group, {})[m[1]] = {d for w in words for d in WORDS.get(w, (w,))}
    return out


def refusals(relaxc, some):
    """Cases [(operator, dtype, another one, Case in that)] that must be refused; those that are not. What
    type inference refuses hides what lowering does, so the rest gets a module of its own."""
    text, lines = "@I.ir_module\nclass Module:\n", {}
    for i, (op, dtype, other, case) in enumerate(some):
        one, _ = module_text([case], False)
        body = one.split("\n", 2)[2].replace(" main(", f" f{i}(").replace(f'"{other}"', f'"{dtype}"')
        first = text.count("\n") + 1
        text += body + "\n"
        lines.update({k: i for k in range(first, text.count("\n") + 1)})
    r = subprocess.run([relaxc, "--emit=tir", "-ferror-limit=0", "-", "-o", "/dev/null"], input=text,
                       capture_output=True, text=True, timeout=120)
    said = {lines[int(n)] for n in re.findall(r":(\d+):\d+: error: R\.", r.stderr)}
    left = [x for i, x in enumerate(some) if i not in said]
    return refusals(relaxc, left) if left and said else left


def coverage(relaxc):
    claimed, made, bad = claims(relaxc), {}, 0
    for op, dtype, case in specimens(GROUPS):
        made.setdefault(op, {}).setdefault(dtype, case)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for group, ops in claimed.items():
        missing, accepted, pairs, refused = [], [], 0, []
        for op, dtypes in ops.items():
            if op in ELSEWHERE:
                with open(os.path.join(root, ELSEWHERE[op])) as f:
                    if f"R.{op}(" not in f.read():
                        missing.append(f"{op}: not in {ELSEWHERE[op]}")
                continue
            have = made.get(op, {})
            missing += [f"{op}: no specimen in {d}" for d in dtypes - set(have)]
            if dtypes:
                missing += [f"{op}: specimen in {d}, which is not claimed" for d in set(have) - dtypes]
            pairs += len(have)
            other = next(iter(have), None)
            refused += [(op, d, other, have[other]) for d in ALL if other and dtypes and d not in dtypes]
        if refused:
            accepted = [f"{op}: {d} is not claimed, and not refused" for op, d, _, _ in refusals(relaxc, refused)]
        if not any(ops.values()):
            continue
        print(f"{group}: {sum(map(bool, ops.values()))} operators, {pairs} pairs of operator and dtype tested, "
              f"{len(refused) - len(accepted)} pairs refused, {len(missing) + len(accepted)} failed")
        for words in missing + accepted:
            print("  " + words)
        bad += len(missing) + len(accepted)
    known = {op for ops in claimed.values() for op in ops}
    for op in set(made) - known:
        print(f"specimens of '{op}', which the table doesn't have")
        bad += 1
    return 1 if bad else 0


def main(argv):
    verbose = "-v" in argv
    argv = [a for a in argv if a != "-v"]
    relaxc, groups = argv[1], argv[2:]
    if groups == ["coverage"]:
        return coverage(relaxc)
    failed = 0
    for group in groups or list(GROUPS):
        made = list(specimens([group]))
        cases = [c for _, _, c in made]
        pairs = {(op, d) for op, d, _ in made}
        ran, bad = run_cases(relaxc, cases, ["eval", "run"], is_slow(relaxc), 2 * BATCH)
        report(f"{group}, {len({op for op, _ in pairs})} operators, {len(pairs)} pairs of operator and dtype", ran, bad, verbose)
        failed += len(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
