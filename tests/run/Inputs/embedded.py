"""A chain of five matrix products whose weights are mostly equal: inputs, and the check of results."""
import ctypes
import json
import sys

import numpy as np

D = 256
rng = np.random.default_rng(3)
same, other = (rng.standard_normal((D, D), dtype="float32") / 16 for _ in range(2))
weights = {"w0": same, "w1": same, "w2": other, "w3": same, "w4": same}
x = rng.standard_normal((2, D), dtype="float32")


def expected():
    y = x.astype("float64")
    for w in weights.values():
        y = y @ w
    return y


def make():
    header, at = {}, 0
    for name, w in weights.items():
        header[name] = {"dtype": "F32", "shape": [D, D], "data_offsets": [at, at + w.nbytes]}
        at += w.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open("w.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for w in weights.values():
            f.write(w.tobytes())
    np.save("x.npy", x)
    tensor = f'R.Tensor(({D}, {D}), "float32")'
    with open("m.rx", "w") as f:
        params = ", ".join(f"{name}: {tensor}" for name in weights)
        f.write(f'@R.function\ndef main(x: R.Tensor((2, {D}), "float32"), {params}):\n')
        f.write("    y0 = R.matmul(x, w0)\n")
        for i in range(1, 5):
            f.write(f"    y{i} = R.matmul(y{i - 1}, w{i})\n")
        f.write("    return y4\n")


def run(path):
    if path.endswith(".npy"):
        return np.load(path)
    y = np.zeros((2, D), "float32")
    pointer = ctypes.POINTER(ctypes.c_float)
    status = ctypes.CDLL("./" + path).m_main(x.ctypes.data_as(pointer), y.ctypes.data_as(pointer))
    assert status == 0, status
    return y


if sys.argv[1] == "make":
    make()
for path in sys.argv[2:]:
    np.testing.assert_allclose(run(path), expected(), rtol=1e-4, atol=1e-4, err_msg=path)
