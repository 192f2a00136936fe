"""Trains the network of this sample and writes its three data files; kept so that they can be made again.

Data: scikit-learn's copy of the UCI "Optical Recognition of Handwritten Digits" test set, 1797 images
of 8x8 pixels with values 0..16. 1297 of them, chosen by a fixed permutation, train a perceptron
64-96-48-10 with Adam; the other 500 are only measured on. NumPy and scikit-learn (for the data) are
needed here and nowhere else. Run: python3 train.py

Writes  digits.safetensors   w1 b1 w2 b2 w3 b3, float32
        digits_test.bin      500 records of 64 pixel bytes and one label byte
"""
import json
import os
import struct

import numpy as np
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS = [64, 96, 48, 10]
HELD_OUT = 500
EPOCHS = 150
BATCH = 64


def shifted(x, dy, dx):
    """The images moved by one pixel: more to learn from."""
    return np.roll(x.reshape(-1, 8, 8), (dy, dx), (1, 2)).reshape(-1, 64)


def forward(params, x):
    """All activations, the logits last."""
    acts = [x]
    for i in range(0, len(params), 2):
        z = acts[-1] @ params[i] + params[i + 1]
        acts.append(np.maximum(z, 0) if i + 2 < len(params) else z)
    return acts


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gradients(params, x, labels):
    acts = forward(params, x)
    d = softmax(acts[-1])
    d[np.arange(len(labels)), labels] -= 1
    d /= len(labels)
    grads = [None] * len(params)
    for i in reversed(range(0, len(params), 2)):
        a = acts[i // 2]
        grads[i] = a.T @ d + 1e-4 * params[i]
        grads[i + 1] = d.sum(axis=0)
        d = (d @ params[i].T) * (a > 0)
    return grads


def train(x, labels, rng):
    params = []
    for fan_in, fan_out in zip(LAYERS, LAYERS[1:]):
        params += [rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in), np.zeros(fan_out)]
    m = [np.zeros_like(p) for p in params]
    v = [np.zeros_like(p) for p in params]
    step = 0
    for epoch in range(EPOCHS):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(x))
        for at in range(0, len(x), BATCH):
            step += 1
            pick = order[at : at + BATCH]
            for p, g, mi, vi in zip(params, gradients(params, x[pick], labels[pick]), m, v):
                mi += 0.1 * (g - mi)
                vi += 0.001 * (g * g - vi)
                p -= rate * (mi / (1 - 0.9**step)) / (np.sqrt(vi / (1 - 0.999**step)) + 1e-8)
    return [p.astype(np.float32) for p in params]


def write_safetensors(path, tensors):
    """Format: header length (u64), JSON header padded to 8 bytes, data."""
    header, at = {"__metadata__": {"made_by": "samples/digits/train.py"}}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(np.ascontiguousarray(t, "<f4").tobytes())


def main():
    data = load_digits()
    pixels, labels = data.data.astype(np.uint8), data.target.astype(np.uint8)
    rng = np.random.Generator(np.random.PCG64(20))
    order = rng.permutation(len(pixels))
    test, rest = order[:HELD_OUT], order[HELD_OUT:]

    x = pixels[rest] / 16.0
    moves = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
    params = train(np.concatenate([shifted(x, *m) for m in moves]), np.tile(labels[rest], len(moves)), rng)

    names = [f"{kind}{layer}" for layer in (1, 2, 3) for kind in "wb"]
    write_safetensors(os.path.join(HERE, "digits.safetensors"), dict(zip(names, params)))
    records = np.concatenate([pixels[test], labels[test, None]], axis=1).astype(np.uint8)
    records.tofile(os.path.join(HERE, "digits_test.bin"))

    scores = forward(params, (pixels[test] / 16.0).astype(np.float32))[-1]
    print(f"held out: {np.mean(scores.argmax(axis=1) == labels[test]):.2%} of {HELD_OUT}")


if __name__ == "__main__":
    main()
