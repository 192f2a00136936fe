"""The digits network in NumPy: `prepare FOLDER` writes x.npy and want.npy, `compare FILE` compares."""
import json
import struct
import sys

import numpy as np


def read_safetensors(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    return {
        name: np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
        for name, t in header.items()
        if name != "__metadata__"
    }


def main():
    if sys.argv[1] == "prepare":
        w = read_safetensors(sys.argv[2] + "/digits.safetensors")
        records = np.fromfile(sys.argv[2] + "/digits_test.bin", np.uint8).reshape(-1, 65)
        x = (records[:, :64] / 16).astype(np.float32)
        h = np.maximum(x.astype(np.float64) @ w["w1"] + w["b1"], 0)
        h = np.maximum(h @ w["w2"] + w["b2"], 0)
        e = h @ w["w3"] + w["b3"]
        e = np.exp(e - e.max(axis=1, keepdims=True))
        np.save("x.npy", x)
        np.save("want.npy", e / e.sum(axis=1, keepdims=True))
    else:
        np.testing.assert_allclose(np.load(sys.argv[2]), np.load("want.npy"), rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    main()
