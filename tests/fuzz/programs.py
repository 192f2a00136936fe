"""Differential testing with random programs.

    programs.py RELAXC [--seed N] [--count N] [--seconds T] [--keep FOLDER] [--modes a,b] [--functions N]

Each seed makes a module of several functions (generate.py, loops.py). The reference interpreter gives
the values of the source at four sizes; native code made in several ways (levels, instruction sets,
from the printed text of each level, with bound weights, without threads) must give the same: exactly
where arithmetic is exact, else within a bound. Compiling twice must give the same bytes, and every pass must
leave a well-formed module. A failing function is cut down, written to FOLDER with its inputs, and
printed. A seed reproduces.
"""
import argparse
import copy
import ctypes
import os
import pickle
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np

import generate
from generate import Binding, FLOATS

TOLERANCE = {"float16": 3e-2, "float32": 3e-4, "float64": 1e-9}
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
GUARD = 64


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Failure(Exception):
    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


# --- inputs -------------------------------------------------------------------------------------------
def make_input(v, size, seed):
    rng = np.random.default_rng(zlib.crc32(f"{v.name} {size} {seed}".encode()))
    shape = tuple(d.vals[size] for d in v.dims)
    if v.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if v.dtype in FLOATS:
        if v.grain is None:
            return np.asarray(rng.uniform(-1, 1, shape) * min(v.bound, 4)).astype(v.dtype)
        top = int(min(v.bound, 4) * 2**min(v.grain, 4))
        a = np.asarray(rng.integers(-top, top + 1, shape) / 2.0**min(v.grain, 4)).astype(v.dtype)
        special = np.array([np.nan, np.inf, -np.inf, -0.0], v.dtype)
    else:
        a = np.asarray(rng.integers(0 if v.dtype[0] == "u" else -9, 10, shape)).astype(v.dtype)
        info = np.iinfo(v.dtype)
        special = np.array([info.min, info.max, info.max - 1, info.min + 1], v.dtype)
    if v.name.startswith("w"):
        a = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), a)
    return np.asarray(a, v.dtype)


def inputs_of(f, size, seed):
    """[(name, array or integers)] in the order of the parameters."""
    generate.function_text(f)
    out = []
    for kind, names in f.extra:
        vals = [f.vars[n].vals[size] for n in names]
        if kind == "prim":
            out.append((names[0], np.int64(vals[0])))
        elif kind == "shape":
            out.append(("shp", np.array(vals, "int64")))
        else:
            out.append(("dummy", np.zeros(vals, "uint8")))
    return out + [(v.name, make_input(v, size, seed)) for v in f.params]


# --- running --------------------------------------------------------------------------------------------
def run(cmd, what, timeout=60):
    try:
        r = subprocess.run(cmd, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure("timeout", f"{what}: {' '.join(cmd)}")
    if r.returncode:
        text = r.stderr.decode("utf-8", "replace")[-1500:]
        kind = "refused" if r.returncode == 1 and "error:" in text else "crash"
        raise Failure(kind, f"{what}: exit code {r.returncode}: {text}")


def evaluate(relaxc, src, f, size, seed, tmp):
    """The interpreter's results, or a message of a run-time error."""
    args = []
    for name, a in inputs_of(f, size, seed):
        if name == "shp":
            args += ["--input", f"shp={','.join(map(str, a))}"]
        elif a.ndim == 0 and name in f.vars:
            args += ["--input", f"{name}={int(a)}"]
        else:
            path = os.path.join(tmp, name + ".npy")
            np.save(path, a)
            args += ["--input", f"{name}={path}"]
    out = os.path.join(tmp, "out.npz" if len(f.outs) > 1 else "out.npy")
    run([relaxc, "eval", src, "--entry", f.name, *args, "--output", out], f"eval {f.name}")
    loaded = np.load(out)
    return [loaded[k] for k in loaded.files] if len(f.outs) > 1 else [loaded]


def tensor(a, keep):
    shape = (ctypes.c_int64 * max(a.ndim, 1))(*a.shape)
    keep += [a, shape]
    return Tensor(a.ctypes.data, 1, 0, a.ndim, CODES[a.dtype.kind], a.itemsize * 8, 1, shape, None, 0)


def call_all(so, jobs):
    """In a child: [(results or message)] of each job (function, inputs, outputs' dtypes and shapes)."""
    lib = ctypes.CDLL(so)
    lib.rx_error.restype = ctypes.c_char_p
    results = []
    for name, ins, outs in jobs:
        keep, bufs = [], []
        targs = [tensor(np.asarray(a, order="C"), keep) for a in ins]
        touts = []
        for dtype, shape in outs:
            n = int(np.prod(shape)) * np.dtype(dtype).itemsize
            raw = np.full(n + 2 * GUARD, 0xA5, "uint8")
            t = tensor(raw[GUARD:GUARD + n].view(dtype).reshape(shape), keep)
            t.data = raw.ctypes.data + GUARD
            touts.append(t)
            bufs.append((raw, n))
        pa = (ctypes.POINTER(Tensor) * max(len(targs), 1))(*[ctypes.pointer(t) for t in targs])
        po = (ctypes.POINTER(Tensor) * max(len(touts), 1))(*[ctypes.pointer(t) for t in touts])
        before = [a.copy() for a in ins]
        rc = getattr(lib, f"m_{name}_dl")(pa, len(targs), po, len(touts))
        if rc:
            results.append(f"code {rc}: {lib.rx_error().decode()}")
            continue
        if any(a.tobytes() != b.tobytes() for a, b in zip(before, ins)):
            results.append("an input was changed")
            continue
        if any((raw[:GUARD] != 0xA5).any() or (raw[GUARD + n:] != 0xA5).any() for raw, n in bufs):
            results.append("written outside an output")
            continue
        results.append([raw[GUARD:GUARD + n].copy().view(d).reshape(s) for (raw, n), (d, s) in zip(bufs, outs)])
    return results


def native(so, jobs, what, timeout=60):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        if what == "threads":
            os.environ["RELAXRT_NUM_THREADS"] = "3"
        try:
            os.close(r)
            with os.fdopen(w, "wb") as pipe:
                pickle.dump(call_all(so, jobs), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(w)
    data, end = b"", time.time() + timeout
    while time.time() < end:
        ready, _, _ = select.select([r], [], [], max(0.0, end - time.time()))
        if not ready:
            break
        part = os.read(r, 1 << 20)
        if not part:
            break
        data += part
    os.close(r)
    late = time.time() >= end
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if late:
        raise Failure("timeout", f"{what}: the call takes too long")
    if status:
        raise Failure("crash", f"{what}: the call ends with status {status}")
    return pickle.loads(data)


MODES = {
    "O2": [], "O0": ["-O0"], "O3": ["-O3"], "v2": ["-march=x86-64-v2"], "v3": ["-march=x86-64-v3"], "v4": ["-march=x86-64-v4"],
    "nothreads": ["-fno-threads"], "verify": ["--verify-each"], "weights": [],
    "relax": ["--emit=relax"], "earlier": ["--emit=relax", "--dialect=earlier"], "tir": ["--emit=tir"],
    "loops": ["--emit=loops", "-march=x86-64-v3"], "tir0": ["--emit=tir", "-O0"], "twice": ["-j", "2"], "plain": ["-O0", "-fno-threads", "-march=x86-64-v2"],
    "tir-eval": ["--emit=tir"], "loops-eval2": ["--emit=loops", "-march=x86-64-v2"],
    "loops-eval3": ["--emit=loops", "-march=x86-64-v3"], "loops-eval4": ["--emit=loops", "-march=x86-64-v4"],
    "passes": ["--emit=relax"], "threads": [],
}
CPU = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
SUPPORTED = [m for m in MODES if m != "plain" and (m not in ("v3", "loops") or " avx2 " in CPU) and (m != "v4" or " avx512dq " in CPU)]


# Passes of the graph that may run in any order and any number of times before what --passes=... then ends with.
ANYWHERE = ["Normalize", "FoldConstant", "EliminateCommonSubexpr", "DeadCodeElimination", "ResolveClosures"]
ENDS = [[], ["LegalizeOps"], ["LegalizeOps", "AnnotateTIROpPattern", "FuseOps", "FuseTIR"], ["LegalizeOps", "RewriteDataflowReshape"]]


def pipeline(src):
    """A list of passes in an order that depends on the program only."""
    rng = random.Random(zlib.crc32(open(src, "rb").read()))
    some = lambda: rng.choices(ANYWHERE, k=rng.randint(0, 4))
    return ",".join(["LambdaLift", "ResolveClosures"] + some() + rng.choice(ENDS) + some())


def build(relaxc, mode, src, tmp, weights=None):
    """Makes the library of a mode; returns its path."""
    so = os.path.join(tmp, f"{mode}.so")
    flags = MODES[mode]
    if mode == "passes":
        flags = flags + [f"--passes={pipeline(src)}", "--verify-each"]
    if mode in ("relax", "earlier", "tir", "loops", "tir0", "passes"):
        text = os.path.join(tmp, f"{mode}.rx")
        run([relaxc, src, *flags, "-o", text], f"{mode} text")
        last = ["-O0"] if mode == "tir0" else ["-march=x86-64-v3"] if mode == "loops" else []
        run([relaxc, text, "-shared", "--prefix=m", *last, "-o", so], f"{mode} again")
        return so
    if mode in ("nothreads", "plain"):
        obj = os.path.join(tmp, "nt.o")
        run([relaxc, src, "--prefix=m", *flags, "-c", "-o", obj], mode)
        run(["gcc", "-shared", "-o", so, obj, "-lm"], "link")
        return so
    if mode == "weights":
        flags = ["--weights", weights]
    run([relaxc, src, "-shared", "--prefix=m", *flags, "-o", so], mode)
    if mode == "twice":
        a, b = os.path.join(tmp, "a.o"), os.path.join(tmp, "b.o")
        run([relaxc, src, "-c", "-j", "2", "-o", a], mode)
        run([relaxc, src, "-c", "-j", "1", "-o", b], mode)
        if open(a, "rb").read() != open(b, "rb").read():
            raise Failure("differs", "compiling twice gives different bytes")
    return so


def tolerances(program, f):
    """{name: tolerance}: that of the coarsest type on the way to a value."""
    tol = {v.name: 0 if v.exact() else TOLERANCE[v.dtype] for v in f.params}
    for b in f.bindings:
        worst = max([tol[u] for u in b.uses], default=0)
        for r in generate.refs_of(b.text):
            if r in program.helpers:
                worst = max([worst, *tolerances(program, program.helpers[r]).values()])
        for o in b.outs:
            tol[o.name] = 0 if o.exact() else max(worst, TOLERANCE[o.dtype])
    return tol


def compare(got, want, v, tol):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if v.exact():
        ok = (got == want) | ((got != got) & (want != want))
    else:
        a, b = got.astype("float64"), want.astype("float64")
        with np.errstate(all="ignore"):
            top = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
            ok = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tol * top)
    if np.all(ok):
        return None
    at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(ok))[0])
    bad = int(np.sum(~np.atleast_1d(ok)))
    return f"{bad} of {got.size} wrong, first at {at}: {np.atleast_1d(got)[at]!r}, interpreter {np.atleast_1d(want)[at]!r}"


class Tester:
    def __init__(self, relaxc, tmp, seed, big=False):
        self.relaxc, self.tmp, self.seed, self.big = relaxc, tmp, seed, big

    def source(self, program, funcs):
        src = os.path.join(self.tmp, "m.rx")
        with open(src, "w") as f:
            f.write(program.text(funcs))
        return src

    def reference(self, src, f):
        if self.big:
            so = build(self.relaxc, "plain", src, self.tmp)
            jobs = [(f.name, [a for _, a in inputs_of(f, s, self.seed)],
                     [(v.dtype, tuple(d.vals[s] for d in v.dims)) for v in f.outs]) for s in range(f.sizes)]
            return native(so, jobs, "plain")
        out = []
        for size in range(f.sizes):
            try:
                out.append(evaluate(self.relaxc, src, f, size, self.seed, self.tmp))
            except Failure as e:
                if e.kind != "refused":
                    raise
                out.append(e.text)
        return out

    def weights(self, f):
        return [v for v in f.params if all(d.const() is not None for d in v.dims) and v.dims][1::2]

    def check(self, program, funcs, mode, refs):
        """[(function, Failure)] of one mode; a Failure when the module does not compile."""
        src = self.source(program, funcs)
        bound, npz = {f.name: [] for f in funcs}, None
        if mode == "weights":
            arrays = {}
            for f in funcs:
                for v in self.weights(f):
                    bound[f.name].append(v.name)
                    arrays[v.name] = make_input(v, 0, self.seed)
            npz = os.path.join(self.tmp, "w.npz")
            np.savez(npz, **arrays)
        if "-eval" in mode:
            text = os.path.join(self.tmp, "le.rx")
            run([self.relaxc, src, *MODES[mode], "-o", text], f"{mode} text")
            got, where = [], []
            for f in funcs:
                for size in range(f.sizes):
                    where.append((f, size))
                    try:
                        got.append(evaluate(self.relaxc, text, f, size, self.seed, self.tmp))
                    except Failure as e:
                        if e.kind != "refused" or "le.rx:" in e.text:
                            raise
                        got.append(e.text)
        else:
            so = build(self.relaxc, mode, src, self.tmp, npz)
            jobs, where = [], []
            for f in funcs:
                for size in range(f.sizes):
                    ins = [a for n, a in inputs_of(f, size, self.seed) if n not in bound[f.name]]
                    if any(make_input(v, size, self.seed).tobytes() != make_input(v, 0, self.seed).tobytes()
                           for v in f.params if v.name in bound[f.name]):
                        continue
                    outs = [(v.dtype, tuple(d.vals[size] for d in v.dims)) for v in f.outs]
                    jobs.append((f.name, ins, outs))
                    where.append((f, size))
            got = native(so, jobs, mode)
        bad = []
        for (f, size), g in zip(where, got):
            want = refs[f.name][size]
            sizes = {n: d.vals[size] for n, d in f.vars.items() if not n.startswith("k")}
            if isinstance(want, str) or isinstance(g, str):
                if not (isinstance(want, str) and isinstance(g, str)):
                    bad.append((f, Failure("error", f"{mode} at {sizes}: {g if isinstance(g, str) else 'fine'}; "
                                                    f"interpreter: {want if isinstance(want, str) else 'fine'}")))
                continue
            tol = tolerances(program, f)
            for v, a, b in zip(f.outs, g, want):
                d = compare(a, b, v, tol[v.name])
                if d:
                    bad.append((f, Failure("wrong", f"{mode} at {sizes}, {v.name}: {d}")))
                    break
        return bad

    def try_function(self, program, f, mode):
        """The Failure of one function alone, or None."""
        try:
            src = self.source(program, [f])
            refs = {f.name: self.reference(src, f)}
            bad = self.check(program, [f], mode, refs) if mode else []
            return bad[0][1] if bad else None
        except Failure as e:
            return e


# --- cutting down ------------------------------------------------------------------------------------------
def prune(f):
    """Drops bindings and parameters that nothing uses."""
    need = {v.name for v in f.outs}
    kept = []
    for b in reversed(f.bindings):
        if any(o.name in need for o in b.outs):
            kept.append(b)
            need |= set(b.uses)
    f.bindings = kept[::-1]
    f.params = [p for p in f.params if p.name in need]


def minimise(tester, program, f, mode, failure, seconds=60):
    end = time.time() + seconds

    def works(g):
        if time.time() > end:
            return False
        r = tester.try_function(program, g, mode)
        return r is not None and r.kind == failure.kind

    best = f
    for v in f.outs:
        g = copy.copy(f)
        g.outs = [v]
        g.params, g.bindings = list(f.params), list(f.bindings)
        prune(g)
        if works(g):
            best = g
            break
    changed = True
    while changed and time.time() < end:
        changed = False
        for i in range(len(best.bindings)):
            b = best.bindings[i]
            if any(n.startswith("k") for o in b.outs for d in o.dims for n in d.names() if d.bare() != n):
                continue
            g = copy.copy(best)
            g.bindings = best.bindings[:i] + best.bindings[i + 1:]
            g.params = best.params + list(b.outs)
            prune(g)
            if g.bindings and works(g):
                best, changed = g, True
                break
        if not changed and best.dataflow:
            g = copy.copy(best)
            g.dataflow = False
            if works(g):
                best, changed = g, True
    return best


def report(tester, program, f, mode, failure, keep, seed):
    print(f"seed {seed}, {f.name}, {mode}: {failure.kind}: {failure.text}", flush=True)
    small = minimise(tester, program, f, mode, failure)
    last = tester.try_function(program, small, mode) or failure
    text = program.text([small])
    print(f"--- cut down: {last.kind}: {last.text}\n{text}", flush=True)
    if keep:
        os.makedirs(keep, exist_ok=True)
        stem = os.path.join(keep, f"{seed}-{f.name}-{mode}")
        with open(stem + ".rx", "w") as out:
            out.write("# " + f"{mode}: {last.kind}: {last.text}".replace("\n", "\n# ") + "\n" + text)
        arrays = {f"{n}_{s}": a for s in range(small.sizes) for n, a in inputs_of(small, s, tester.seed)}
        np.savez(stem + ".npz", **arrays)


def choose_modes(rng, ways, big):
    """A level interpreted from its text, native code, and others."""
    if big:
        return rng.sample([m for m in SUPPORTED if m in ("O2", "O3", "v2", "v3", "v4", "weights", "nothreads")], ways + 1)
    text = rng.choice([m for m in SUPPORTED if "-eval" in m])
    code = rng.choice([m for m in SUPPORTED + ["v4"] if m in ("O2", "v2", "v3", "v4", "weights")])
    return [text, code] + rng.sample([m for m in SUPPORTED if m not in (text, code)], ways)


def one_seed(relaxc, seed, args, known):
    gen = generate.Generator(seed)
    program = gen.program(args.functions, args.steps)
    rng = random.Random(seed)
    modes = args.modes.split(",") if args.modes else choose_modes(rng, args.ways, args.big)
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        tester = Tester(relaxc, tmp, seed, args.big)
        refs, funcs = {}, list(program.funcs)
        src = tester.source(program, funcs)
        for f in program.funcs:
            try:
                refs[f.name] = tester.reference(src, f)
                bad = [r for r in refs[f.name] if isinstance(r, str) and "m.rx:" in r]
                if bad:
                    raise Failure("refused", bad[0])
            except Failure as e:
                funcs.remove(f)
                alone = tester.try_function(program, f, None)
                tester.source(program, program.funcs)
                if not alone:
                    print(f"seed {seed}, {f.name}: the interpreter, only together: {e}", flush=True)
                    failed += 1
                else:
                    failed += 1
                    report(tester, program, f, None, alone, args.keep, seed)
        for mode in modes:
            try:
                bad = tester.check(program, funcs, mode, refs) if funcs else []
            except Failure as e:
                bad = []
                for f in list(funcs):
                    alone = tester.try_function(program, f, mode)
                    if alone:
                        bad.append((f, alone))
                if not bad:
                    print(f"seed {seed}, {mode}, only together: {e}\n", flush=True)
                    if args.keep:
                        os.makedirs(args.keep, exist_ok=True)
                        with open(os.path.join(args.keep, f"{seed}-all-{mode}.rx"), "w") as out:
                            out.write(program.text(funcs))
                    failed += 1
            for f, e in bad:
                if f in funcs:
                    failed += 1
                    report(tester, program, f, mode, e, args.keep, seed)
                    funcs.remove(f)
    return failed, len(program.funcs)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("relaxc")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=10**9)
    ap.add_argument("--seconds", type=float, default=1e9)
    ap.add_argument("--keep", default=None)
    ap.add_argument("--modes", default=None)
    ap.add_argument("--ways", type=int, default=1, help="how many modes of each program beside two")
    ap.add_argument("--functions", type=int, default=4)
    ap.add_argument("--steps", type=int, default=14)
    ap.add_argument("--big", action="store_true", help="large sizes; -O0 without threads is the reference")
    ap.add_argument("--kinds", default=None, help="only these kinds of operators: matmul,tir,...")
    ap.add_argument("--print", action="store_true", help="print the program of the seed and exit")
    args = ap.parse_args()
    if args.big:
        generate.POOL[:] = [1, 16, 40, 63, 128, 200, 257, 384, 520, 700]
        generate.STATIC[:] = [1, 1, 3, 8, 17, 64, 100, 256, 300, 513]
        generate.ELEMENTS, generate.WORK = 600000, 20000000
    if args.kinds:
        generate.ONLY[:] = args.kinds.split(",")
    if args.print:
        print(generate.Generator(args.seed).program(args.functions, args.steps).text())
        return 0
    end = time.time() + args.seconds
    failed = functions = seed = 0
    for seed in range(args.seed, args.seed + args.count):
        if time.time() >= end:
            break
        bad, n = one_seed(args.relaxc, seed, args, None)
        failed, functions = failed + bad, functions + n
    print(f"{functions} functions, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
