"""Results written over operands, tried to break.

    in_place.py RELAXC FOLDER

Each kernel reads a tensor that dies there and writes one of the same size: at the same place, reversed, shifted,
broadcast, in pairs, twice, with itself as the other operand; alone or after a reduction of the row. The plan must put the
result where the operand was just where that may be (the third column; None: where lanes happen to load in time). Results, of threads and two widths of vectors, are
NumPy's."""
import os
import re
import subprocess
import sys

import numpy as np

HEAD = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n# from tvm.script import relax as R\n"

# name, the value of Y[i, j] (Z is a second operand of the same size), may it be in place of X, its value in NumPy
CASES = [
    ("same", "X[vi, vj] * T.float32(2) + Z[vi, vj]", True, lambda x, z: x * 2 + z),
    ("squared", "X[vi, vj] * X[vi, vj] - Z[vi, vj]", True, lambda x, z: x * x - z),
    ("reversed", "X[vi, {m} - 1 - vj] + Z[vi, vj]", False, lambda x, z: x[:, ::-1] + z),
    ("upside_down", "X[{n} - 1 - vi, vj] + Z[vi, vj]", False, lambda x, z: x[::-1] + z),
    ("next", "X[vi, T.min(vj + 1, {m} - 1)] + Z[vi, vj]", None, lambda x, z: x[:, np.minimum(np.arange(x.shape[1]) + 1, x.shape[1] - 1)] + z),
    ("before", "X[vi, T.max(vj - 1, 0)] + Z[vi, vj]", False, lambda x, z: x[:, np.maximum(np.arange(x.shape[1]) - 1, 0)] + z),
    ("row_below", "X[T.min(vi + 1, {n} - 1), vj] + Z[vi, vj]", None, lambda x, z: x[np.minimum(np.arange(x.shape[0]) + 1, x.shape[0] - 1)] + z),
    ("half", "X[vi // 2, vj] + Z[vi, vj]", False, lambda x, z: x[np.arange(x.shape[0]) // 2] + z),
    ("both", "X[vi, vj] + X[vi, {m} - 1 - vj] + Z[vi, vj]", False, lambda x, z: x + x[:, ::-1] + z),
    ("first_row", "X[0, vj] + Z[vi, vj]", False, lambda x, z: x[:1] + z),
    ("first_column", "X[vi, 0] + Z[vi, vj]", False, lambda x, z: x[:, :1] + z),
    ("one", "X[0, 0] + Z[vi, vj]", False, lambda x, z: x[0, 0] + z),
    ("with_itself", "X[vi, vj] * Z[vi, vj]", True, lambda x, z: x * x),
    ("with_its_reverse", "X[vi, vj] + Z[vi, {m} - 1 - vj]", False, lambda x, z: x + x[:, ::-1]),
    ("swapped", "X[vi, vj // 2 * 2 + 1 - vj % 2] + Z[vi, vj]", False, lambda x, z: x[:, np.arange(x.shape[1]) // 2 * 2 + 1 - np.arange(x.shape[1]) % 2] + z),
]


def kernel(name, n, m, value, rows):
    """Y = value, plainly or (rows) with the maximum of X's row taken off first."""
    f = value.format(n=n, m=m)
    shape = f"({n}, {m})"
    out = f"""    @T.prim_func(private=True)
    def {name}(X: T.Buffer({shape}, "float32"), Z: T.Buffer({shape}, "float32"), Y: T.Buffer({shape}, "float32")):
"""
    if rows:
        f = f"{f} - M[vi]"
        out += f"""        M = T.alloc_buffer(({n},), "float32")
        for i, j in T.grid({n}, {m}):
            with T.block("max"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], X[vi, vj])
"""
    return out + f"""        for i, j in T.grid({n}, {m}):
            with T.block("value"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = {f}
"""


def module(case, n, m, rows, static):
    name, value, _, _ = case
    dn, dm = (n, m) if static else ("n", "m")
    decl = f"({dn}, {dm})" if static else '("n", "m")'
    text = "@I.ir_module\nclass Module:\n"
    body = kernel(name, "n" if not static else n, "m" if not static else m, value, rows)
    if not static:
        body = body.replace(f"def {name}(X: T.Buffer((n, m), \"float32\"), Z: T.Buffer((n, m), \"float32\"), Y: T.Buffer((n, m), \"float32\")):",
                            f"def {name}(x: T.handle, z: T.handle, y: T.handle):\n        n = T.int64()\n        m = T.int64()\n"
                            + "".join(f"        {b} = T.match_buffer({b.lower()}, (n, m), \"float32\")\n" for b in "XZY").rstrip("\n"))
    text += body
    text += f"""    @R.function
    def main(a: R.Tensor({decl}, "float32"), z: R.Tensor({decl}, "float32")):
        {"" if static else 'n = T.int64()' + chr(10) + '        m = T.int64()'}
        cls = Module
        x = R.sort(a, axis=1)
        y = R.call_tir(cls.{name}, (x, {"x" if name.startswith("with") else "z"}), out_sinfo=R.Tensor(({dn}, {dm}), "float32"))
        return R.cumsum(y, axis=0)
"""
    return HEAD + text


def main():
    relaxc, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(3)
    bad = 0
    for case in CASES:
        for rows in (False, True):
            for static, sizes in ((True, [(3, 37)]), (True, [(64, 96)]), (False, [(1, 1), (3, 37), (700, 66)])):
                if case[0] == "swapped" and sizes[-1][1] % 2:
                    continue
                n, m = sizes[-1]
                path = os.path.join(folder, "case.rx")
                with open(path, "w") as f:
                    f.write(module(case, n, m, rows, static))
                what = f"{case[0]}{' with rows' if rows else ''}, {'static' if static else 'symbolic'} {n} x {m}"
                for flags in ([], ["-march=x86-64-v3"], ["-march=x86-64-v4"]):
                    planned = subprocess.run([relaxc, path, "-O0", *flags, "--stop-after=StaticPlanBlockMemory", "-o", "-"], check=True,
                                             capture_output=True, text=True).stdout
                    attrs = re.search(rf"def {case[0]}\(.*\n\s+T.func_attr\((.*)\)", planned)[1]
                    listed = re.search(r'"relaxc.in_place": \[(.*?)\]', attrs)
                    pairs = [int(x) for x in listed[1].split(",")] if listed else []
                    pairs = list(zip(pairs[::2], pairs[1::2]))
                    places = dict(re.findall(r"\n\s+([xy]): .* = R.memory.alloc_tensor\((\w+, .*?), R.shape", planned))
                    shared = places["x"] == places["y"]
                    # of a symbolic size: not where the last vectors overlap those before them
                    if shared and ((0, 2) not in pairs or case[2] is False) or case[2] and static and not shared:
                        print(f"{what} {flags}: pairs {pairs}, places {places}")
                        bad += 1
                for n, m in sizes:
                    if case[0] == "swapped" and m % 2:
                        continue
                    a, z = rng.normal(size=(2, n, m)).astype("float32")
                    np.save(os.path.join(folder, "a.npy"), a)
                    np.save(os.path.join(folder, "z.npy"), z)
                    x = np.sort(a, 1)
                    want = case[3](x, z) - (x.max(1, keepdims=True) if rows else 0)
                    want = np.cumsum(want, 0, dtype="float32")
                    for flags in (["-O0"], ["-O0", "-march=native"], ["-O0", "-march=x86-64-v3"]):
                        out = os.path.join(folder, "out.npy")
                        subprocess.run([relaxc, "run", path, *flags, "--input", f"a={folder}/a.npy", "--input", f"z={folder}/z.npy",
                                        "--output", out], check=True, stdout=subprocess.DEVNULL)
                        if not np.allclose(np.load(out), want, rtol=1e-4, atol=1e-3):
                            print(f"{what} {flags} at {n} x {m}: wrong")
                            bad += 1
    sys.exit(bad > 0)


main()
