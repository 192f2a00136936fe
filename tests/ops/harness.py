"""Runs cases, many in one module: interpreted, compiled, and interpreted from the text of the levels tir
and loops (so that legalisation, fusion and scheduling are checked apart from code generation).

A case is an expression over named inputs with the value it must give. Many cases go into one module as one
function that returns a tuple; when one goes wrong its cases run alone to find out which.
"""
import os
import subprocess
import tempfile

import numpy as np

from dtypes import NARROW, Tensor, from_file, spacing

BATCH = 24
MODES = {"eval": ["eval"], "run": ["run"], "tir": ["text", "--emit=tir"],
         "loops": ["text", "--emit=loops", "-march=x86-64-v3"]}


def tensor(v):
    return v if isinstance(v, Tensor) else Tensor(v)


class Case:
    """sym: {input: names of its dims, None for a static one}. Without it every dim of the first input
    is symbolic, and those of the inputs that have its shape. The result must be equal, or within tol of
    max(1, its size), or within so many units in the last place; zeros: either zero will do."""

    def __init__(self, group, expr, inputs, want, tol=0.0, sym=None, static_only=False, ulps=0, zeros=False):
        self.group, self.expr, self.tol, self.ulps, self.zeros = group, expr, tol, ulps, zeros
        self.inputs = {k: tensor(v) for k, v in inputs.items()}
        self.is_tuple = isinstance(want, tuple)
        self.set_want(*want if self.is_tuple else (want,))
        self.static_only = static_only
        if sym is None:
            sym, first = {}, next(iter(self.inputs.values()), None)
            for k, v in self.inputs.items():
                if v.values.shape == first.values.shape:
                    sym[k] = tuple(f"d{i}" for i in range(v.values.ndim))
        self.sym = {k: sym.get(k, (None,) * v.values.ndim) for k, v in self.inputs.items()}
        self.sizes = {}
        for k, v in self.inputs.items():
            for name, size in zip(self.sym[k], v.values.shape):
                if name:
                    assert self.sizes.setdefault(name, size) == size, (expr, name)

    def set_want(self, *want):
        self.want = [tensor(w) for w in want]

    def write(self, i, symbolic):
        """Parameters and statements of this case as the i-th of a module."""
        dims = {n: f"{n}_{i}" if symbolic else str(s) for n, s in self.sizes.items()}
        names = {k: f"in_{k}_{i}" for k in self.inputs}
        params = []
        for k, v in self.inputs.items():
            shape = [f'"{dims[n]}"' if n and symbolic else str(s) for n, s in zip(self.sym[k], v.values.shape)]
            text = "(" + ", ".join(shape) + ("," if len(shape) == 1 else "") + ")"
            params.append(f'{names[k]}: R.Tensor({text}, "{v.dtype}")')
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

    def describe(self):
        shapes = ", ".join(f"{k} {v.dtype}{v.values.shape}" for k, v in self.inputs.items())
        return f"{self.expr} of {shapes}" if shapes else self.expr


def module_text(cases, symbolic):
    params, body, outs, inputs = [], [], [], {}
    for i, c in enumerate(cases):
        p, b, o, x = c.write(i, symbolic)
        params += p
        body += b
        outs += o
        inputs.update(x)
    result = outs[0] if len(outs) == 1 else "(" + ", ".join(outs) + ")"
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
        v.save(os.path.join(folder, k + ".npy"))
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


def difference(array, want, case):
    """None, or in words what is wrong."""
    got, exp = from_file(array, want.dtype), want.values
    if got is None:
        return f"dtype {array.dtype}, expected {want.dtype}"
    if got.shape != exp.shape:
        return f"shape {got.shape}, expected {exp.shape}"
    if got.dtype.kind == "f":
        a, b = got.astype(np.float64), exp.astype(np.float64)
        nan = np.isnan(a) & np.isnan(b)
        same = (a == b) | nan
        with np.errstate(all="ignore"):
            if case.tol:
                same |= np.abs(a - b) <= case.tol * np.maximum(1.0, np.abs(b))
            elif case.ulps:
                same |= np.abs(a - b) <= case.ulps * spacing(b, want.dtype)
            elif not case.zeros:
                same &= nan | (np.signbit(a) == np.signbit(b))
    else:
        same = got == exp
    if np.all(same):
        return None
    at = tuple(int(k) for k in np.argwhere(~np.atleast_1d(same))[0])
    x = ", ".join(f"{k} = {np.atleast_1d(v.values)[at]!r}" for k, v in case.inputs.items() if v.values.shape == exp.shape)
    return f"at {at}: got {np.atleast_1d(got)[at]!r}, expected {np.atleast_1d(exp)[at]!r}" + (f" ({x})" if x else "")


def check(cases, outs):
    bad, k = [], 0
    for c in cases:
        for w in c.want:
            d = difference(outs[k], w, c)
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


def run_cases(relaxc, cases, modes, symbolic_only=False, batch=BATCH):
    """Number of checks and the failures as (mode, symbolic?, case, words)."""
    bad, ran = [], 0
    if os.environ.get("OPS_MODES"):
        modes = [m for m in modes if m in os.environ["OPS_MODES"].split(",")]
    kinds = (True,) if symbolic_only else (False, True)
    if os.environ.get("OPS_SHAPES"):
        kinds = (os.environ["OPS_SHAPES"] == "symbolic",)
    for symbolic in kinds:
        some = [c for c in cases if not (symbolic and c.static_only)]
        for start in range(0, len(some), batch):
            part = some[start:start + batch]
            for name in modes:
                ran += len(part)
                bad += [(name, symbolic, c, d) for c, d in run_batch(relaxc, MODES[name], part, symbolic)]
    return ran, bad


def report(title, ran, bad, verbose):
    print(f"{title}: {ran - len(bad)} passed, {len(bad)} failed", flush=True)
    for name, symbolic, c, d in bad if verbose else bad[:8]:
        print(f"  {name}, {'symbolic' if symbolic else 'static'}: {c.describe()}: {d}")


def is_slow(relaxc):
    """With sanitizers."""
    return os.path.basename(os.path.dirname(os.path.abspath(relaxc))) == "build-asan"
