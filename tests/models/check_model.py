"""Runs a model on its stored calls and compares with the stored outputs.

    check_model.py run    RELAXC MODEL.rx TOLERANCE [RELAXC OPTION...]
    check_model.py eval   RELAXC MODEL.rx TOLERANCE [...]    the reference interpreter
    check_model.py shared MODEL.rx MODEL.so TOLERANCE        the DLPack entry of a compiled library

MODEL.safetensors and MODEL.io.npz (inK.<parameter>, outK.<name>) stand beside MODEL.rx. Scratch files go
to the current folder.
"""
import ctypes
import os
import re
import subprocess
import sys

import numpy as np


def calls(path):
    """The stored calls: a list of (inputs by name, outputs in order)."""
    result = []
    with np.load(path) as f:
        for key in f.files:
            kind, name = key.split(".", 1)
            number = int(kind.lstrip("inout"))
            while len(result) <= number:
                result.append(({}, []))
            if kind.startswith("in"):
                result[number][0][name] = f[key]
            else:
                result[number][1].append(f[key])
    return result


def run_tool(command, relaxc, model, options, number, inputs):
    args = [relaxc, command, model, "--weights", model[:-3] + ".safetensors", "--entry=main"]
    for name, value in inputs.items():
        file = f"in{number}.{name}.npy"
        np.save(file, value)
        args += ["--input", f"{name}={file}"]
    output = f"out{number}.npz"
    subprocess.run(args + ["--output", output] + options, check=True)
    with np.load(output) as f:
        return [f[k] for k in f.files]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


def dl_tensors(arrays):
    """An array of pointers to DLTensors over NumPy's memory (which must outlive it)."""
    code = {"i": 0, "u": 1, "f": 2, "b": 6}
    tensors = [DLTensor(x.ctypes.data, 1, 0, x.ndim, code[x.dtype.kind], 8 * x.dtype.itemsize, 1,
                        (ctypes.c_int64 * max(x.ndim, 1))(*x.shape), None, 0) for x in arrays]
    return (ctypes.POINTER(DLTensor) * len(arrays))(*[ctypes.pointer(t) for t in tensors])


def run_shared(library, model, inputs, outputs):
    """Through the DLPack entry, which binds symbolic dims from the shapes."""
    entry = ctypes.CDLL(os.path.abspath(library))[os.path.basename(model)[:-3] + "_main_dl"]
    signature = re.search(r"def main\((.*)", open(model).read())[1]
    order = [name for name in re.findall(r"(\w+): [RT]\.", signature) if name in inputs]
    arrays = [np.array(inputs[name], order="C") for name in order]
    results = [np.full_like(x, np.nan) for x in outputs]
    code = entry(dl_tensors(arrays), len(arrays), dl_tensors(results), len(results))
    if code != 0:
        rx_error = ctypes.CDLL(os.path.abspath(library)).rx_error
        rx_error.restype = ctypes.c_char_p
        sys.exit(f"the entry returned {code}: {rx_error().decode()}")
    return results


def main():
    command = sys.argv[1]
    if command == "shared":
        model, library, tolerance = sys.argv[2:5]
    else:
        relaxc, model, tolerance = sys.argv[2:5]
    worst = 0.0
    stored = calls(model[:-3] + ".io.npz")
    for number, (inputs, outputs) in enumerate(stored):
        if command == "shared":
            got = run_shared(library, model, inputs, outputs)
        else:
            got = run_tool(command, relaxc, model, sys.argv[5:], number, inputs)
        if len(got) != len(outputs):
            sys.exit(f"expected {len(outputs)} outputs but got {len(got)}")
        for g, want in zip(got, outputs):
            if g.shape != want.shape or g.dtype != want.dtype:
                sys.exit(f"expected {want.dtype}{want.shape} but got {g.dtype}{g.shape}")
            worst = max(worst, float(np.abs(g.astype(np.float64) - want).max()))
    if not worst <= float(tolerance):  # a NaN is a failure too
        sys.exit(f"largest difference {worst}, allowed {tolerance}")
    print(f"{len(stored)} calls, largest difference {worst:.2g}")


if __name__ == "__main__":
    main()
