"""Calls a library whose weights lie in a file: the result of NumPy, then failures with words."""
import ctypes
import os
import sys

import numpy as np

if sys.argv[1] == "make":
    rng = np.random.default_rng(2)
    x, w, b = (rng.standard_normal(s, dtype="float32") for s in ((1, 784), (784, 256), (256,)))
    np.savez("w.npz", weight=w, bias=b)
    np.save("x.npy", x)
    np.save("y.npy", np.maximum(x @ w + b, 0))
    sys.exit()
lib = ctypes.CDLL(os.path.abspath("mlp.so"))
lib.rx_error.restype = ctypes.c_char_p
x, y = np.load("x.npy"), np.zeros((1, 256), dtype="float32")


def call():
    return lib.mlp_main(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))


if sys.argv[1] == "fail":
    print(call(), lib.rx_error().decode())
else:
    for _ in range(2):
        y[:] = 0
        assert call() == 0, lib.rx_error()
        np.testing.assert_allclose(y, np.load("y.npy"), rtol=1e-4, atol=1e-4)
