"""Writes inputs, weights in both formats and the expected result into the current folder."""
import json

import numpy as np

rng = np.random.default_rng(1)
x = rng.standard_normal((5, 3), dtype="float32")
w = rng.standard_normal((3, 2), dtype="float32")
b = rng.standard_normal(2, dtype="float32")


def safetensors(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


np.save("x.npy", x)
np.save("y.npy", x @ w + b)
np.savez_compressed("w.npz", w=w, b=b)
np.savez("some.npz", b=b)
np.savez("unknown.npz", w=w, b=b, wx=w)
np.savez("shape.npz", w=w.T, b=b)
np.savez("dtype.npz", w=w, b=b.astype("float64"))
safetensors("w.safetensors", {"w": w, "b": b})
safetensors("empty.safetensors", {})
