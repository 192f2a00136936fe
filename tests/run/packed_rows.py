"""Products with a constant operand, which is packed at compile time, for many numbers of rows.

    packed_rows.py RELAXC [flags]

One module: a product for each number of rows (a tile, a few, several blocks of them) and each length
of the sum (short, one block of K, several). Elements are small integers, so that every order of
additions gives the same: NumPy's result is expected exactly.
"""
import subprocess
import sys
import tempfile

import numpy as np

ROWS = [1, 2, 3, 5, 7, 11, 12, 13, 23, 24, 25, 37, 49, 61, 96, 97, 130, 250]
SUMS = [40, 700, 1600]
COLUMNS = [33, 260]

relaxc, flags = sys.argv[1], sys.argv[2:]
rng = np.random.default_rng(0)
for columns in COLUMNS:
    names = [(k, m) for k in SUMS for m in ROWS]
    data = {f"x{k}_{m}": rng.integers(-2, 3, (m, k)).astype("float32") for k, m in names}
    weights = {f"w{k}": rng.integers(-2, 3, (k, columns)).astype("float32") for k in SUMS}
    params = [f'{n}: R.Tensor({a.shape}, "float32")' for n, a in [*data.items(), *weights.items()]]
    lines = [f"            y{k}_{m} = R.matmul(x{k}_{m}, w{k})" for k, m in names]
    results = ", ".join(f"y{k}_{m}" for k, m in names)
    text = f"""@I.ir_module
class Module:
    @R.function
    def main({", ".join(params)}):
        R.func_attr({{"num_input": {len(data)}}})
        with R.dataflow():
{chr(10).join(lines)}
            R.output({results})
        return ({results})
"""
    with tempfile.TemporaryDirectory() as tmp:
        with open(f"{tmp}/m.rx", "w") as f:
            f.write(text)
        np.savez(f"{tmp}/w.npz", **weights)
        inputs = []
        for n, a in data.items():
            np.save(f"{tmp}/{n}.npy", a)
            inputs += ["--input", f"{n}={tmp}/{n}.npy"]
        subprocess.run([relaxc, "run", f"{tmp}/m.rx", f"--weights={tmp}/w.npz", *flags, *inputs, "--output", f"{tmp}/out.npz"],
                       check=True, stdout=subprocess.DEVNULL)
        out = np.load(f"{tmp}/out.npz")
        got = [out[n] for n in out.files]
        assert len(got) == len(names)
        for (k, m), y in zip(names, got):
            want = data[f"x{k}_{m}"] @ weights[f"w{k}"]
            assert np.array_equal(y, want), f"{m} rows, sum of {k}, {columns} columns: {np.argwhere(y != want)[:3]}"
