"""Writes inputs x.npy, w.npy, b.npy and the expected y.npy (NumPy, float64 rounded to float32)."""
import sys
import numpy as np

out = sys.argv[1]
rng = np.random.default_rng(7)
x, w, b = (rng.uniform(-1, 1, s).astype("float32") for s in ((8, 16), (16, 32), (32,)))
y = np.maximum((x.astype("float64") @ w.astype("float64") + b) * 0.5, 0).astype("float32")
for name, a in (("x", x), ("w", w), ("b", b), ("y", y)):
    np.save(f"{out}/{name}.npy", a)
