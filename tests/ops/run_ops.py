"""Numeric tests of the operators: every case against NumPy, with static and with symbolic shapes:
interpreted, compiled, and interpreted from the text of the levels tir and loops (so that legalisation,
fusion and scheduling are checked apart from code generation).

    run_ops.py RELAXC GROUP...       the groups named (all without names); -v shows every failure in full

A case is an expression over named inputs with the value NumPy gives. Many cases go into one module as
one function that returns a tuple, so that a group is a few processes; when one goes wrong its cases run
alone to find out which. Prints the counts per group; the exit code is 1 after a failure.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

import cases_data
import cases_elementwise
import cases_nn
import cases_shape

BATCH = 24
NAMES = {"float16": "float16", "float32": "float32", "float64": "float64", "bool": "bool",
         "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
         "uint16": "uint16", "uint32": "uint32", "uint64": "uint64"}


class Case:
    """sym: {input: names of its dims, None for a static one}. Without it every dim of the first input
    is symbolic, and those of the inputs that have its shape."""

    def __init__(self, group, expr, inputs, want, tol=0.0, sym=None, static_only=False):
        self.group, self.expr, self.tol = group, expr, tol
        self.inputs = {k: np.asarray(v) for k, v in inputs.items()}
        self.want = [np.asarray(w) for w in (want if isinstance(want, tuple) else (want,))]
        self.is_tuple = isinstance(want, tuple)
        self.static_only = static_only
        if sym is None:
            sym, first = {}, next(iter(self.inputs.values()), None)
            for k, v in self.inputs.items():
                if v.shape == first.shape:
                    sym[k] = tuple(f"d{i}" for i in range(v.ndim))
        self.sym = {k: sym.get(k, (None,) * v.ndim) for k, v in self.inputs.items()}
        self.sizes = {}
        for k, v in self.inputs.items():
            for name, size in zip(self.sym[k], v.shape):
                if name:
                    assert self.sizes.setdefault(name, size) == size, (expr, name)

    def write(self, i, symbolic):
        """Parameters and statements of this case as the i-th of a module."""
        dims = {n: f"{n}_{i}" if symbolic else str(s) for n, s in self.sizes.items()}
        names = {k: f"in_{k}_{i}" for k in self.inputs}
        params = []
        for k, v in self.inputs.items():
            shape = [f'"{dims[n]}"' if n and symbolic else str(s) for n, s in zip(self.sym[k], v.shape)]
            text = "(" + ", ".join(shape) + ("," if len(shape) == 1 else "") + ")"
            params.append(f'{names[k]}: R.Tensor({text}, "{NAMES[str(v.dtype)]}")')
        body = [f"        {d} = T.int64()" for d in dims.values()] if symbolic else []
        body.append(f"        r_{i} = " + self.expr.format(**{**dims, **names}))
        outs = [f"r_{i}[{k}]" for k in range(len(self.want))] if self.is_tuple else [f"r_{i}"]
        lines = []
        for k, o in enumerate(outs):
            if self.is_tuple:
                body.append(f"        o_{i}_{k} = {o}")
                o = f"o_{i}_{k}"
            lines.append(o)
        return params, body, lines, {names[k]: v for k, v in self.inputs.items()}


def module_text(cases, symbolic):
    params, body, outs, inputs = [], [], [], {}
    for i, c in enumerate(cases):
        p, b, o, x = c.write(i, symbolic)
        params += p
        body += b
        outs += o
        inputs.update(x)
    if len(outs) == 1:
        result = outs[0]
    else:
        result = "(" + ", ".join(outs) + ")"
    text = "@I.ir_module\nclass Module:\n    @R.function\n"
    text += "    def main(" + ", ".join(params) + "):\n" + "\n".join(body) + f"\n        return {result}\n"
    return text, inputs


def run_module(relaxc, mode, cases, symbolic, folder):
    """Outputs of the module's call, or a message."""
    text, inputs = module_text(cases, symbolic)
    path = os.path.join(folder, "m.rx")
    with open(path, "w") as f:
        f.write(text)
    if mode[0] == "text":
        again = os.path.join(folder, "again.rx")
        r = subprocess.run([relaxc, *mode[1:], path, "-o", again], capture_output=True, text=True,
                           timeout=120)
        if r.returncode:
            return None, f"{mode[1]}: exit code {r.returncode}: {r.stderr.strip()[:1500]}"
        mode, path = ["eval"], again
    args = [relaxc, *mode, path]
    for k, v in inputs.items():
        np.save(os.path.join(folder, k + ".npy"), v)
        args += ["--input", f"{k}={os.path.join(folder, k)}.npy"]
    out = os.path.join(folder, "out.npz")
    if os.path.exists(out):
        os.remove(out)
    count = sum(len(c.want) for c in cases)
    target = out if count > 1 else os.path.join(folder, "out.npy")
    r = subprocess.run(args + ["--output", target], capture_output=True, text=True, timeout=120)
    if r.returncode:
        return None, f"exit code {r.returncode}: {r.stderr.strip()[:1500]}"
    if count == 1:
        return [np.load(target)], None
    with np.load(out) as z:
        return [z[k] for k in z.files], None


def difference(got, want, tol):
    """None, or in words what is wrong."""
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype.kind == "f":
        a, b = got.astype(np.float64), want.astype(np.float64)
        nan = np.isnan(a) & np.isnan(b)
        same = (a == b) | nan
        if tol:
            with np.errstate(all="ignore"):
                same |= np.abs(a - b) <= tol * np.maximum(1.0, np.abs(b))
        else:
            same &= nan | (np.signbit(a) == np.signbit(b))
    else:
        same = got == want
    if np.all(same):
        return None
    at = tuple(int(k) for k in np.argwhere(~np.atleast_1d(same))[0])
    return f"at {at}: got {np.atleast_1d(got)[at]!r}, expected {np.atleast_1d(want)[at]!r}"


def check(cases, outs):
    bad, k = [], 0
    for c in cases:
        for w in c.want:
            d = difference(outs[k], w, c.tol)
            if d:
                bad.append((c, d))
            k += 1
    return bad


def run_batch(relaxc, mode, cases, symbolic):
    with tempfile.TemporaryDirectory() as folder:
        outs, error = run_module(relaxc, mode, cases, symbolic, folder)
    if error is None:
        return check(cases, outs)
    if len(cases) == 1:
        return [(cases[0], error)]
    half = len(cases) // 2
    return (run_batch(relaxc, mode, cases[:half], symbolic)
            + run_batch(relaxc, mode, cases[half:], symbolic))


def main(argv):
    verbose = "-v" in argv
    argv = [a for a in argv if a != "-v"]
    relaxc, groups = argv[1], argv[2:]
    modes = [("eval", ["eval"]), ("run", ["run"]), ("tir", ["text", "--emit=tir"]),
             ("loops", ["text", "--emit=loops", "-march=x86-64-v3"])]
    if os.environ.get("OPS_MODES"):
        modes = [m for m in modes if m[0] in os.environ["OPS_MODES"].split(",")]
    cases = []
    for source in (cases_elementwise, cases_shape, cases_nn, cases_data):
        cases += source.build(Case)
    known = sorted({c.group for c in cases})
    for g in groups:
        if g not in known:
            sys.exit(f"no group '{g}'; there are {', '.join(known)}")
    slow = os.path.basename(os.path.dirname(os.path.abspath(relaxc))) == "build-asan"  # sanitizers
    failed = 0
    for g in groups or known:
        mine = [c for c in cases if c.group == g]
        bad, ran = [], 0
        for symbolic in (True,) if slow else (False, True):
            some = [c for c in mine if not (symbolic and c.static_only)]
            for start in range(0, len(some), BATCH):
                part = some[start:start + BATCH]
                for name, mode in modes:
                    ran += len(part)
                    for c, d in run_batch(relaxc, mode, part, symbolic):
                        bad.append((name, symbolic, c, d))
        print(f"{g}: {ran - len(bad)} passed, {len(bad)} failed", flush=True)
        failed += len(bad)
        for name, symbolic, c, d in bad if verbose else bad[:8]:
            shapes = ", ".join(f"{k} {v.dtype}{v.shape}" for k, v in c.inputs.items())
            print(f"  {name}, {'symbolic' if symbolic else 'static'}: {c.expr} of {shapes}: {d}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
