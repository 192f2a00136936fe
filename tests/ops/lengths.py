"""Rows whose length only the run tells: every way to do what whole vectors leave, at three instruction sets,
against NumPy. Nothing beside the rows is written; elements that are computed twice come out the same; NaN is
found wherever it stands.

    lengths.py RELAXC
"""
import ctypes
import subprocess
import sys
import tempfile

import numpy as np

LEVELS = ("x86-64-v2", "x86-64-v3", "native")
LENGTHS = (*range(40), 63, 64, 65, 79, 80, 127, 128, 129, 255, 256, 257, 300)
ROWS = (3, 21)
HEAD = "from tvm.script import ir as I, relax as R, tir as T\n"


def script(body, *inputs):
    """inputs: (dims, dtype)"""
    params = ", ".join(f"x{i}: R.Tensor({dims}, \"{dtype}\")" for i, (dims, dtype) in enumerate(inputs))
    return HEAD + (f"@R.function\ndef main({params}):\n    with R.dataflow():\n"
                   f"        o = {body}\n        R.output(o)\n    return o\n")


# What a kernel may not do twice: its result depends on what was there.
IN_PLACE = HEAD + '''
@T.prim_func
def main(x: T.handle):
    m, n = T.int64(), T.int64()
    X = T.match_buffer(x, (m, n))
    for i, j in T.grid(m, n):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = X[vi, vj] * T.float32(2) + T.float32(1)
'''
SHIFTED = HEAD + '''
@T.prim_func
def main(x: T.handle, y: T.handle):
    m, n = T.int64(), T.int64()
    X = T.match_buffer(x, (m, n))
    Y = T.match_buffer(y, (m, n))
    for i, j in T.grid(m, n):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] + T.float32(1)
    for i, j in T.grid(m, n):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = Y[vi, vj] * Y[vi, vj]
'''


def softmax(x):
    if not x.shape[1]:
        return x
    e = np.exp(x.astype("float64") - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def normal(rng, shape, dtype):
    return rng.integers(-100, 100, shape).astype(dtype) if "int" in dtype else rng.standard_normal(shape).astype(dtype)


def with_nan(rng, shape, dtype):
    x = normal(rng, shape, dtype)
    if shape[1]:
        x[0, rng.integers(shape[1])] = x[1, -1] = np.nan
    return x


MATRIX, ROW = '("m", "n")', '("n",)'
WHOLE, EACH = (lambda m, n: (m, n)), (lambda m, n: (m,))
# name, text, dtype, inputs' dims, how they are filled, result's shape, what is wanted, tolerance
CASES = [
    ("bias", "R.add(x0, x1)", "float32", (MATRIX, ROW), normal, WHOLE, lambda x, b: x + b, 0),
    ("bias, float64", "R.add(x0, x1)", "float64", (MATRIX, ROW), normal, WHOLE, lambda x, b: x + b, 0),
    ("bias, int8", "R.add(x0, x1)", "int8", (MATRIX, ROW), normal, WHOLE, lambda x, b: x + b, 0),
    ("bias, float16", "R.add(x0, x1)", "float16", (MATRIX, ROW), normal, WHOLE, lambda x, b: x + b, 0),
    ("softmax", "R.nn.softmax(x0)", "float32", (MATRIX,), normal, WHOLE, softmax, 1e-6),
    ("sum", "R.sum(x0, axis=[1])", "float32", (MATRIX,), normal, EACH, lambda x: x.astype("float64").sum(1), 2e-5),
    ("sum, int8", "R.sum(x0, axis=[1])", "int8", (MATRIX,), normal, EACH, lambda x: x.sum(1, dtype="int8"), 0),
    ("sum of columns", "R.sum(x0, axis=[0])", "float32", (MATRIX,), normal, lambda m, n: (n,),
     lambda x: x.astype("float64").sum(0), 2e-5),
    ("max", "R.max(x0, axis=[1])", "float32", (MATRIX,), with_nan, EACH,
     lambda x: x.max(1, initial=-np.inf), 0),
    ("min", "R.min(x0, axis=[1])", "float64", (MATRIX,), with_nan, EACH, lambda x: x.min(1, initial=np.inf), 0),
    ("max, int8", "R.max(x0, axis=[1])", "int8", (MATRIX,), normal, EACH, lambda x: x.max(1, initial=-128), 0),
    ("transposed", "R.permute_dims(x0, [1, 0])", "float32", (MATRIX,), normal, lambda m, n: (n, m), lambda x: x.T, 0),
    ("transposed, int8", "R.permute_dims(x0, [1, 0])", "int8", (MATRIX,), normal, lambda m, n: (n, m), lambda x: x.T, 0),
    ("in place", IN_PLACE, "float32", (MATRIX,), normal, None, lambda x: x * np.float32(2) + np.float32(1), 1e-6),
    ("two steps", SHIFTED, "float32", (MATRIX,), normal, WHOLE, lambda x: (x + np.float32(1)) ** 2, 1e-6),
]


def guarded(array):
    """A copy with room around, all of it noted."""
    memory = np.full(array.nbytes + 512, 0xA5, "uint8")
    view = memory[256:256 + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return memory, view


def outside(memory):
    return np.concatenate([memory[:256], memory[-256:]])


def fault(function, case, m, n):
    name, _, dtype, dims, fill, shape, want, tolerance = case
    rng = np.random.default_rng(n)
    inputs = [fill(rng, (m, n) if d == MATRIX else (n,), dtype) for d in dims]
    expected = want(*inputs)
    buffers = [guarded(x) for x in inputs]
    if shape:
        buffers.append(guarded(np.zeros(shape(m, n), dtype)))
    pointers = [ctypes.c_void_p(view.ctypes.data) for _, view in buffers]
    status = function(*pointers, ctypes.c_int64(m), ctypes.c_int64(n))
    if status:
        return f"status {status}"
    if any((outside(memory) != 0xA5).any() for memory, _ in buffers):
        return "memory beside a tensor was written"
    if shape and any((view != x)[~np.isnan(x)].any() for (_, view), x in zip(buffers, inputs)):
        return "an input was written"
    got = buffers[-1][1].astype("float64")
    if not np.allclose(got, expected.astype("float64"), rtol=tolerance, atol=tolerance, equal_nan=True):
        return f"got {got.ravel()[:4]}, want {expected.ravel()[:4]}"
    return None


def main():
    relaxc, bad = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(CASES):
            text = case[1] if case[1].startswith(HEAD) else script(case[1], *((d, case[2]) for d in case[3]))
            with open(f"{folder}/m.rx", "w") as f:
                f.write(text)
            for level in LEVELS:
                library = f"{folder}/{i}{level}.so"
                subprocess.run([relaxc, f"{folder}/m.rx", f"-march={level}", "--prefix=m", "-shared", "-o", library],
                               check=True)
                function = ctypes.CDLL(library).m_main
                for m, n in ((m, n) for m in ROWS for n in LENGTHS):
                    why = fault(function, case, m, n)
                    if why:
                        bad += 1
                        print(f"{case[0]}, {level}, {m} rows of {n}: {why}")
    print(f"{len(CASES)} programs, {len(LENGTHS)} lengths, {len(LEVELS)} instruction sets: {bad} wrong")
    sys.exit(bad != 0)


main()
