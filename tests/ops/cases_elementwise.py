"""Elementwise operators, conversions and reductions. Values from NumPy; where NumPy leaves a case open
(division by zero, shifts out of range, conversions that overflow) from the operator's help text."""
import math

import numpy as np

rng = np.random.default_rng(7)
FLOATS = ("float32", "float64", "float16")
INTS = ("int8", "int32", "int64", "uint8")
TOL = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-12}


def real(shape, dtype="float32", lo=-3.0, hi=3.0):
    return rng.uniform(lo, hi, shape).astype(dtype)


def whole(shape, dtype="int32", lo=-20, hi=20):
    if dtype.startswith("u"):
        lo = 0
    return rng.integers(lo, hi, shape, endpoint=True).astype(dtype)


def special(dtype):
    return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.5, 0.5, -0.5, 1e-3],
                    dtype)


erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def wide(fn):
    """Computes in float64 and rounds once."""
    def run(*args):
        with np.errstate(all="ignore"):
            return fn(*(a.astype(np.float64) for a in args)).astype(args[0].dtype)
    return run


MATH = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": erf, "sigmoid": sigmoid, "nn.silu": lambda x: x * sigmoid(x),
    "nn.gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "nn.gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "nn.selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
}
DOMAIN = {"log": (0.01, 20), "sqrt": (0, 20), "rsqrt": (0.01, 20), "acosh": (1, 9), "asin": (-1, 1),
          "acos": (-1, 1), "atanh": (-0.95, 0.95), "tan": (-1.4, 1.4)}


def unary(Case):
    out = []
    for name, fn in MATH.items():
        for dtype in FLOATS:
            x = real((3, 17), dtype, *DOMAIN.get(name, (-4, 4)))
            out.append(Case("unary", f"R.{name}({{x}})", {"x": x}, wide(fn)(x), TOL[dtype] * 2))
    whole_fns = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round}
    for dtype in FLOATS:
        x = np.concatenate([special(dtype), real((8,), dtype, -50, 50)])
        for name, fn in whole_fns.items():
            out.append(Case("unary", f"R.{name}({{x}})", {"x": x}, fn(x)))
        out.append(Case("unary", "R.abs({x})", {"x": x}, np.abs(x)))
        out.append(Case("unary", "R.negative({x})", {"x": x}, -x, TOL[dtype]))
        out.append(Case("unary", "R.square({x})", {"x": x}, wide(np.square)(x)))
        with np.errstate(invalid="ignore"):
            out.append(Case("unary", "R.sign({x})", {"x": x}, np.sign(x)))
        for name in ("isnan", "isinf", "isfinite"):
            out.append(Case("unary", f"R.{name}({{x}})", {"x": x}, getattr(np, name)(x)))
        keep = np.where(x < 0, x.dtype.type(0), x)
        out.append(Case("unary", "R.nn.relu({x})", {"x": x}, keep))
        out.append(Case("unary", "R.nn.relu6({x})", {"x": x}, np.minimum(np.maximum(x, 0), 6).astype(dtype), TOL[dtype]))
        out.append(Case("unary", "R.nn.leakyrelu({x}, alpha=0.25)", {"x": x}, np.where(x < 0, x * x.dtype.type(0.25), x)))
        out.append(Case("unary", "R.clip({x}, -2, 1.5)", {"x": x}, np.clip(x, x.dtype.type(-2), x.dtype.type(1.5))))
        y = real((40,), dtype, -30, 30)
        sp = wide(lambda v: np.where(2 * v > 20, v, np.log1p(np.exp(2 * v)) / 2))(y)
        out.append(Case("unary", "R.nn.softplus({x}, beta=2.0, threshold=20.0)", {"x": y}, sp, TOL[dtype]))
        out.append(Case("unary", "R.logical_not({x})", {"x": x}, (x == 0).astype(dtype)))
    for dtype in INTS:
        info = np.iinfo(dtype)
        x = np.concatenate([np.array([info.min, info.max, 0, 1], dtype), whole((9,), dtype)])
        with np.errstate(over="ignore"):
            out += [Case("unary", "R.abs({x})", {"x": x}, np.abs(x)),
                    Case("unary", "R.negative({x})", {"x": x}, (np.zeros_like(x) - x).astype(dtype)),
                    Case("unary", "R.square({x})", {"x": x}, x * x)]
        out += [Case("unary", "R.sign({x})", {"x": x}, np.sign(x)),
                Case("unary", "R.floor({x})", {"x": x}, x),
                Case("unary", "R.isnan({x})", {"x": x}, np.zeros(x.shape, bool)),
                Case("unary", "R.bitwise_not({x})", {"x": x}, ~x),
                Case("unary", "R.logical_not({x})", {"x": x}, (x == 0).astype(dtype)),
                Case("unary", "R.nn.relu({x})", {"x": x}, np.maximum(x, 0).astype(dtype)),
                Case("unary", "R.clip({x}, -3, 5)", {"x": x}, np.clip(x.astype(object), -3 if info.min else 0, 5).astype(dtype))]
    b = np.array([True, False, True])
    out += [Case("unary", "R.logical_not({x})", {"x": b}, ~b), Case("unary", "R.bitwise_not({x})", {"x": b}, ~b)]
    return out


def shapes_for_broadcast():
    """Operand shapes with the names of their dims."""
    return [((4, 5), (4, 5), ("n", "m"), ("n", "m")), ((4, 5), (5,), ("n", "m"), ("m",)),
            ((3, 1), (1, 6), ("n", None), (None, "m")), ((), (2, 3), (), ("n", "m")),
            ((2, 1, 3), (4, 1), ("n", None, "k"), ("m", None)), ((0, 3), (3,), ("n", "m"), ("m",))]


def binary_cases(Case, group, name, fn, dtypes, make, tol=None):
    out = []
    shapes = shapes_for_broadcast()
    for k, dtype in enumerate(dtypes):
        for j in (0, 1 + (k + len(name)) % 5):
            sa, sb, na, nb = shapes[j]
            a, b = make(sa, dtype, 0), make(sb, dtype, 1)
            with np.errstate(all="ignore"):
                want = fn(a, b)
            out.append(Case(group, f"R.{name}({{a}}, {{b}})", {"a": a, "b": b}, want,
                            (tol or {}).get(dtype, 0.0), sym={"a": na, "b": nb}))
    return out


def divide_ints(kind):
    def run(a, b):
        def one(x, y):
            x, y = int(x), int(y)
            if y == 0:
                return 0
            q = x // y if kind in ("floor_divide", "floor_mod") else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return q if kind in ("divide", "floor_divide") else x - q * y
        r = np.vectorize(one, otypes=[object])(*np.broadcast_arrays(a, b)) if np.broadcast(a, b).size else np.zeros(np.broadcast(a, b).shape, object)
        return np.array([v & ((1 << 64) - 1) for v in np.ravel(r)], np.uint64).reshape(np.shape(r)).astype(a.dtype)
    return run


def binary(Case):
    out = []

    def reals(shape, dtype, which):
        return real(shape, dtype) if shape != () else real((), dtype).astype(dtype)

    def positive(shape, dtype, which):
        return real(shape, dtype, 0.2, 3) if which == 0 else reals(shape, dtype, which)

    def ints(shape, dtype, which):
        x = whole(shape, dtype, -6, 6)
        if x.size > 3 and x.ndim == 2:
            info = np.iinfo(dtype)
            x.flat[0], x.flat[1] = info.min if which == 0 else (-1 if info.min else 1), info.max
        return x

    arith = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
             "minimum": np.minimum}
    for name, fn in arith.items():
        out += binary_cases(Case, "binary", name, fn, FLOATS, reals)
        out += binary_cases(Case, "binary", name, fn, INTS, ints)
    rest = lambda a, b: np.fmod(a, b)
    out += binary_cases(Case, "binary", "divide", lambda a, b: a / b, FLOATS, reals, {"float16": 1e-3})
    out += binary_cases(Case, "binary", "floor_divide", lambda a, b: np.floor(a / b), ("float32", "float64"), reals)
    out += binary_cases(Case, "binary", "mod", rest, ("float32", "float64"), reals)
    out += binary_cases(Case, "binary", "floor_mod", np.mod, ("float32", "float64"), reals, {"float32": 1e-6, "float64": 1e-14})
    out += binary_cases(Case, "binary", "power", np.power, ("float32", "float64"), positive, {"float32": 4e-6, "float64": 1e-12})
    out += binary_cases(Case, "binary", "atan2", np.arctan2, ("float32", "float64"), reals, {"float32": 2e-6, "float64": 1e-12})
    out += binary_cases(Case, "binary", "log_add_exp", np.logaddexp, ("float32", "float64"), reals, {"float32": 3e-6, "float64": 1e-12})
    for kind in ("divide", "floor_divide", "mod", "floor_mod"):
        out += binary_cases(Case, "binary", kind, divide_ints(kind), INTS, ints)
    x = np.array([2, 3, -2, 0, 1, -1, 5, -1, 2], "int32")
    y = np.array([10, 4, 3, 0, -5, -3, -1, -2, 31], "int32")
    p = np.array([1024, 81, -8, 1, 1, -1, 0, 1, -(2**31)], "int64").astype("int32")
    out.append(Case("binary", "R.power({a}, {b})", {"a": x, "b": y}, p))
    s = special("float32")
    inputs = {"a": np.repeat(s, s.size), "b": np.tile(s, s.size)}
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
        with np.errstate(all="ignore"):
            want = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
                    "maximum": np.maximum, "minimum": np.minimum}[name](inputs["a"], inputs["b"])
        zero = name in ("maximum", "minimum")  # which zero of two is not specified
        out.append(Case("binary", f"R.{name}({{a}}, {{b}})", inputs, want, 1e-30 if zero else 0.0))
    c = rng.random((2, 3)) < 0.5
    out.append(Case("binary", "R.add({a}, {b})", {"a": c, "b": real((2, 3))}, np.ones((2, 3), bool)))
    x = real((2, 3))
    out.append(Case("binary", "R.multiply({a}, {b})", {"a": x, "b": c}, x * c))
    out.append(Case("binary", "R.ewise_fma({a}, {b}, {c})", {"a": np.float32([2, 3]), "b": np.float32([4, 5]), "c": np.float32([1, -1])}, np.float32([9, 14])))
    x = real((4, 3))
    out.append(Case("binary", "R.multiply({a}, R.const(0.5, \"float32\"))", {"a": x}, x * np.float32(0.5)))
    return out


def compare(Case):
    out = []
    fns = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
           "greater": np.greater, "greater_equal": np.greater_equal}

    def few(shape, dtype, which):
        return whole(shape, "int32", -2, 2).astype(dtype) if not dtype.startswith("u") else whole(shape, dtype, 0, 3)

    for name, fn in fns.items():
        out += binary_cases(Case, "compare", name, fn, ("float32", "float64", "int32", "int64", "uint8"), few)
        s = special("float32")
        out.append(Case("compare", f"R.{name}({{a}}, {{b}})", {"a": np.repeat(s, s.size), "b": np.tile(s, s.size)}, fn(np.repeat(s, s.size), np.tile(s, s.size))))
        a, b = few((5,), "int32", 0), few((5,), "float32", 1)
        out.append(Case("compare", f"R.{name}({{a}}, {{b}})", {"a": a, "b": b}, fn(a, b)))
    for name, fn in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items():
        for dtype in ("bool", "float32", "int32"):
            a = (rng.random((3, 4)) < 0.5).astype(dtype)
            b = (rng.random((4,)) < 0.5).astype(dtype)
            out.append(Case("compare", f"R.{name}({{a}}, {{b}})", {"a": a, "b": b}, fn(a, b).astype(dtype), sym={"a": ("n", "m"), "b": ("m",)}))
    for name, fn in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items():
        for dtype in INTS + ("bool",):
            a = (rng.random((3, 4)) < 0.5) if dtype == "bool" else whole((3, 4), dtype, -99, 99)
            b = (rng.random((3, 4)) < 0.5) if dtype == "bool" else whole((3, 4), dtype, -99, 99)
            out.append(Case("compare", f"R.{name}({{a}}, {{b}})", {"a": a, "b": b}, fn(a, b)))
    for dtype in INTS:
        bits = np.iinfo(dtype).bits
        a = whole((12,), dtype, -99, 99)
        b = np.array([0, 1, 2, 3, bits - 1, bits, bits + 1, 100, 0, 1, 5, 7], dtype)
        left = [(int(x) << int(y)) if y < bits else 0 for x, y in zip(a, b)]
        right = [int(x) >> min(int(y), 127) for x, y in zip(a, b)]
        wrap = lambda v: np.array([k & ((1 << 64) - 1) for k in v], np.uint64).astype(dtype)
        out.append(Case("compare", "R.left_shift({a}, {b})", {"a": a, "b": b}, wrap(left)))
        out.append(Case("compare", "R.right_shift({a}, {b})", {"a": a, "b": b}, wrap(right)))
    return out


def saturate(x, dtype):
    info = np.iinfo(dtype)
    out = []
    for v in x.astype(np.float64).ravel():
        out.append(0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v))
    return np.array(out, dtype=dtype).reshape(x.shape)


def convert(Case):
    out = []
    f = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.6, 128, -128.7, -129, 255.5,
                  256, 3e9, -3e9, 4294967296.0, 1e19, -1e19, 2**31 - 1, 2**63], "float64")
    for src in ("float32", "float64"):
        x = f.astype(src)
        for dst in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
            out.append(Case("convert", f"R.astype({{x}}, \"{dst}\")", {"x": x}, saturate(x, dst)))
        out.append(Case("convert", "R.astype({x}, \"bool\")", {"x": x}, x != 0))
        with np.errstate(over="ignore"):
            out.append(Case("convert", "R.astype({x}, \"float16\")", {"x": x}, x.astype("float16")))
            out.append(Case("convert", "R.astype({x}, \"float32\")", {"x": x}, x.astype("float32")))
    h = special("float16")
    for dst in ("float32", "float64", "bool"):
        out.append(Case("convert", f"R.astype({{x}}, \"{dst}\")", {"x": h}, h.astype(dst) if dst != "bool" else h != 0))
    out.append(Case("convert", "R.astype({x}, \"int32\")", {"x": h}, saturate(h, "int32")))
    for src in INTS + ("bool",):
        x = (rng.random(9) < 0.5) if src == "bool" else np.concatenate([whole((9,), src, -100, 100), np.array([np.iinfo(src).min, np.iinfo(src).max], src)])
        for dst in ("int8", "int16", "int64", "uint8", "float32", "float64", "bool"):
            out.append(Case("convert", f"R.astype({{x}}, \"{dst}\")", {"x": x}, x.astype(dst)))
    x = np.float32([1.0, 1.00390625, 3.14159, -2.71828, 65535.0, 1e-3])
    u = x.view(np.uint32).astype(np.uint64)  # bfloat16: nearest even on the upper half
    u = ((u + 0x7fff + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    out.append(Case("convert", "R.astype(R.astype({x}, \"bfloat16\"), \"float32\")", {"x": x}, u))
    out.append(Case("convert", "R.astype(R.add({x}, {x}), \"int16\")", {"x": np.uint8([128, 255, 127, 0, 200])}, np.int16([0, 254, 254, 0, 144])))
    return out


def reduce_(Case):
    out = []
    fns = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "variance": np.var, "std": np.std}
    tol = {"float16": 3e-3, "float32": 5e-6, "float64": 1e-12}
    layouts = [(None, False), (None, True), ([0], False), ([1], True), ([-1], False), ([0, 2], False), ([-1, 1], True), ([0, 1, 2], False)]
    for name, fn in fns.items():
        for k, dtype in enumerate(("float32", "float64", "float16")):
            for axis, keep in layouts[k % 2::2] if dtype != "float32" else layouts:
                x = real((3, 4, 9), dtype, 0.5, 1.5)
                want = fn(x.astype(np.float64), axis=None if axis is None else tuple(axis), keepdims=keep).astype(dtype)
                out.append(Case("reduce", f"R.{name}({{x}}, axis={axis}, keepdims={keep})", {"x": x}, want, tol[dtype]))
    for name in ("sum", "max", "min", "prod"):
        for dtype in ("int32", "int64", "int8"):
            x = whole((4, 5), dtype, -3, 3)
            with np.errstate(over="ignore"):
                want = fns[name](x, axis=1, **({"dtype": dtype} if name in ("sum", "prod") else {}))
            out.append(Case("reduce", f"R.{name}({{x}}, axis=1)", {"x": x}, want))
    b = rng.random((4, 5)) < 0.3
    out += [Case("reduce", "R.max({x}, axis=1)", {"x": b}, b.max(axis=1)), Case("reduce", "R.min({x}, axis=1)", {"x": b}, b.min(axis=1)),
            Case("reduce", "R.sum({x}, axis=0)", {"x": b}, b.any(axis=0)), Case("reduce", "R.prod({x}, axis=0)", {"x": b}, b.all(axis=0))]
    e = np.zeros((3, 0), "float32")
    out += [Case("reduce", "R.sum({x}, axis=1)", {"x": e}, np.zeros(3, "float32")), Case("reduce", "R.prod({x}, axis=1)", {"x": e}, np.ones(3, "float32")),
            Case("reduce", "R.sum({x}, axis=0)", {"x": e}, np.zeros(0, "float32")), Case("reduce", "R.max({x}, axis=1)", {"x": e}, np.full(3, -np.inf, "float32")),
            Case("reduce", "R.mean({x}, axis=1)", {"x": e}, np.full(3, np.nan, "float32"))]
    s = np.float32([3.5])[0].reshape(())
    out.append(Case("reduce", "R.sum({x})", {"x": s}, s))
    x = np.float32([[1, np.nan, 3], [np.inf, 2, -np.inf], [5, 4, 6]])
    with np.errstate(invalid="ignore"):
        out += [Case("reduce", f"R.{n}({{x}}, axis=1)", {"x": x}, fns[n](x, axis=1)) for n in ("max", "min", "sum")]
    big = np.float32([[80000, 80001, 80002, 80003], [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3]])
    out.append(Case("reduce", "R.variance({x}, axis=1)", {"x": big}, np.float32([1.25, 1.25]), 1e-6))
    for name in ("argmax", "argmin"):
        fn = getattr(np, name)
        for dtype in ("float32", "int32", "int8", "float16"):
            x = whole((4, 3, 5), "int32", -3, 3).astype(dtype)
            for axis in (None, 0, 1, -1):
                out.append(Case("reduce", f"R.{name}({{x}}, axis={axis})", {"x": x}, np.asarray(fn(x, axis=axis)).astype("int64")))
            out.append(Case("reduce", f"R.{name}({{x}}, axis=1, keepdims=True)", {"x": x}, np.expand_dims(fn(x, axis=1), 1).astype("int64")))
        x = np.float32([[1, np.nan, 3, np.nan], [np.inf, -np.inf, np.inf, -np.inf], [2, 2, 2, 2]])
        out.append(Case("reduce", f"R.{name}({{x}}, axis=1)", {"x": x}, fn(x, axis=1).astype("int64")))
    return out


def build(Case):
    return unary(Case) + binary(Case) + compare(Case) + convert(Case) + reduce_(Case)
