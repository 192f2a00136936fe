"""Values of every dtype, also of those that NumPy lacks.

A tensor of bfloat16 or float8 is a float32 array of values that the dtype holds, and its name beside it
(class Tensor). Encoding and decoding follow the formats' definitions: bfloat16 is float32's upper half;
float8_e4m3fn has 4 exponent bits of bias 7, no infinity, NaN where all other bits are set;
float8_e5m2 is float16's upper half. Rounding is to nearest, ties to even, done by search in the table of
all values, so that nothing here shares an idea with the compiler.
"""
import numpy as np

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
ALL = FLOATS + INTS + ("bool",)
NARROW = {"bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8}
# significant bits
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}


def decode(bits, dtype):
    """float32 values of bit patterns."""
    bits = np.asarray(bits)
    if dtype == "bfloat16":
        return (bits.ravel().astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)
    if dtype == "float8_e5m2":
        halves = (bits.ravel().astype(np.uint16) << 8).view(np.float16)
        with np.errstate(invalid="ignore"):
            return halves.astype(np.float32).reshape(bits.shape)
    b = bits.astype(np.int64)
    exp, man = b >> 3 & 15, b & 7
    size = np.where(exp == 0, man * 2.0**-9, (8 + man) * 2.0 ** (exp - 10.0))
    size = np.where((b & 127) == 127, np.nan, size)
    return np.where(b & 128, -size, size).astype(np.float32)


def _positive(dtype):
    """All finite values from 0 up, in order: the index is the bit pattern."""
    with np.errstate(invalid="ignore"):
        table = decode(np.arange(1 << (NARROW[dtype] - 1)), dtype).astype(np.float64)
    return table[np.isfinite(table)]


TABLES = {d: _positive(d) for d in NARROW}


def encode(values, dtype):
    """Bit patterns: nearest, ties to even; beyond the last finite value by half a step: infinity, or NaN
    in float8_e4m3fn, which has none."""
    v = np.asarray(values, np.float64)
    table, half = TABLES[dtype], 1 << (NARROW[dtype] - 1)
    a = np.abs(np.where(np.isnan(v), 0, v))
    last = len(table) - 1
    beyond = 2 * table[-1] - table[-2]  # what would follow the last one
    grown = np.append(table, beyond)
    lo = np.clip(np.searchsorted(grown, a, side="right") - 1, 0, last)
    with np.errstate(invalid="ignore"):
        down, up = a - grown[lo], grown[lo + 1] - a
    code = np.where((up < down) | ((up == down) & (lo % 2 == 1)) | (a >= beyond), lo + 1, lo)
    nan = {"bfloat16": 0x7FC0, "float8_e4m3fn": 0x7F, "float8_e5m2": 0x7E}[dtype]
    code = np.where(np.isnan(v), nan, code) + np.where(np.signbit(v), half, 0)
    return code.astype(np.uint16 if NARROW[dtype] == 16 else np.uint8)


def round_to(values, dtype):
    """Values of any kind as the dtype has them: floats rounded once, integers wrapped. NumPy's array of
    the dtype, or float32 for narrow ones."""
    v = np.asarray(values)
    with np.errstate(all="ignore"):
        if dtype in NARROW:
            return decode(encode(v.astype(np.float64), dtype), dtype)
        if dtype == "bool":
            return v != 0
        if dtype in INTS and v.dtype.kind in "fO":
            flat = [int(x) & (1 << 64) - 1 for x in v.ravel()]
            return np.array(flat, np.uint64).reshape(v.shape).astype(dtype)
        return v.astype(dtype)


class Tensor:
    """An array and the name of its dtype."""

    def __init__(self, values, dtype=None):
        self.dtype = dtype or str(np.asarray(values).dtype)
        self.values = round_to(values, self.dtype)

    def wide(self):
        """float64, int (of any size) or bool values, to compute the expected result with."""
        kind = self.values.dtype.kind
        return self.values if kind == "b" else self.values.astype(np.float64 if kind == "f" else object)

    def save(self, path):
        v = self.values
        if self.dtype == "bfloat16":
            v = encode(v, self.dtype).view("V2")
        elif self.dtype in NARROW:
            v = encode(v, self.dtype)
        np.save(path, v)


def from_file(array, dtype):
    """What a run wrote, as Tensor; None when its dtype is another one."""
    if dtype in NARROW:
        if array.dtype.kind not in "uV" or array.dtype.itemsize * 8 != NARROW[dtype]:
            return None
        return decode(array.view(np.uint16 if NARROW[dtype] == 16 else np.uint8), dtype)
    return array if str(array.dtype) == dtype else None


def spacing(values, dtype):
    """Distance of neighbours at each value, for errors in units in the last place."""
    least = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133, "float8_e4m3fn": -9,
             "float8_e5m2": -16}
    a = np.abs(np.asarray(values, np.float64))
    _, exp = np.frexp(np.where(np.isfinite(a), a, 1))
    return np.ldexp(1.0, np.maximum(np.where(a == 0, -2000, exp) - BITS[dtype], least[dtype]))
