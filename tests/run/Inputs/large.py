"""A tensor of 2^31 + 100 elements in a sparse file, and what operators must give on it.

    large.py write FOLDER    large.npy, symbolic.rx, static.rx, plain.rx (without an intermediate of
                             17 GB where nothing is fused)
    large.py check FOLDER    compares large.npz
"""
import sys

import numpy as np

N = 2**31 + 100
HITS = {N - 50: 7, 5: -3, N - 1: 5}
TEXT = '''
@R.function
def main(x: R.Tensor((%s,), "int8")):
    %s
    a = R.argmax(x)
    b = R.sum(R.astype(x, "int64"))
    c = R.strided_slice(x, (0,), (n - 60,), (n,), (1,))
    d = R.strided_slice(x, (0,), (n - 1,), (n - 61,), (-7,))
    e = R.take(x, R.const([%d, %d, 5, 0], "int64"), axis=0)
    y = R.reshape(x, (n // 4, 4))
    f = R.take(y, R.const([%d], "int64"), axis=0)
    g = R.argmax(y, axis=0)
    return (a, b, c, d, e, f, g)
'''
AT = (N - 50, N - 1, (N - 50) // 4)


def main(what, folder):
    if what == "write":
        x = np.lib.format.open_memmap(f"{folder}/large.npy", mode="w+", dtype="int8", shape=(N,))
        for k, v in HITS.items():
            x[k] = v
        symbolic = TEXT % ('"n"', "n = T.int64()", *AT)
        open(f"{folder}/symbolic.rx", "w").write(symbolic)
        open(f"{folder}/plain.rx", "w").write(symbolic.replace('R.astype(x, "int64")', "x"))
        text = TEXT % ("n", "", *AT)
        for name, value in (("n // 4", N // 4), ("n - 60", N - 60), ("n - 61", N - 61), ("n - 1", N - 1), ("(n,)", f"({N},)")):
            text = text.replace(name, str(value))
        open(f"{folder}/static.rx", "w").write(text)
        return
    z = np.load(f"{folder}/large.npz")
    got = [z[k] for k in z.files]
    at = lambda *i: np.int8([HITS.get(k, 0) for k in i])
    # of the columns k % 4: the first greatest element, or the first of all where none is above 0
    best = np.int64([0, 0, (N - 50) // 4, (N - 1) // 4])
    want = [np.int64(N - 50), got[1].dtype.type(9), at(*range(N - 60, N)), at(*range(N - 1, N - 61, -7)), at(N - 50, N - 1, 5, 0),
            at(*range(N - 52, N - 48))[None], best]
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape and (g == w).all(), (g, w)


main(*sys.argv[1:])
