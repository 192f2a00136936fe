"""Specimens of elementwise operators, conversions, reductions, scans and creation (see run_dtypes.py).
Expected values: NumPy in float64 or in Python's integers, rounded once; where NumPy leaves a case open the
operator's help text says what holds."""
import math

import numpy as np

from dtypes import ALL, FLOATS, INTS, NARROW, SIGNED, TABLES, Tensor, decode

erf = np.vectorize(math.erf, otypes=[float])
sigmoid = lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def sign(x):
    return np.sign(x) if x.dtype.kind == "f" else np.array([int(v > 0) - int(v < 0) for v in x.ravel()], object).reshape(x.shape)


def negative(x):
    return x if x.dtype.kind == "b" else -x


def whole(fn):
    return lambda x: fn(x) if x.dtype.kind == "f" else x


def relu(x):
    return np.where(x < 0, 0, x) if x.dtype.kind != "b" else x


# name: (function, error in units in the last place of float32 and narrower; None: exact)
FLOAT_UNARY = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": erf, "sigmoid": sigmoid,
}
ANY_UNARY = {
    "abs": lambda x: abs(x) if x.dtype.kind != "b" else x, "negative": negative, "sign": sign, "square": lambda x: x & x if x.dtype.kind == "b" else x * x,
    "ceil": whole(np.ceil), "floor": whole(np.floor), "round": whole(np.round), "trunc": whole(np.trunc),
    "nn.relu": relu, "nn.relu6": lambda x: np.clip(x, 0, 6) if x.dtype.kind != "b" else x,
    "builtin.stop_lift_params": lambda x: x, "grad.no_grad": lambda x: x, "grad.start_checkpoint": lambda x: x,
    "grad.end_checkpoint": lambda x: x,
}


def unary(g):
    row = g.row()
    inputs = [row, g.edge()]
    if g.dtype in FLOATS:
        for name, fn in FLOAT_UNARY.items():
            for x in (row, g.edge()):
                ulps = 2 if name not in ("sqrt",) else 1
                yield name, f"R.{name}({{x}})", {"x": x}, g.out(fn(x.wide())), ulps
    for name, fn in ANY_UNARY.items():
        for x in (row, g.edge()):
            yield name, f"R.{name}({{x}})", {"x": x}, g.out(fn(x.wide()), zeros=name == "nn.relu6"), 0
    for x in inputs:
        w = x.wide()
        for name in ("isnan", "isinf", "isfinite"):
            want = getattr(np, name)(w) if g.dtype in FLOATS else np.full(w.shape, name == "isfinite")
            yield name, f"R.{name}({{x}})", {"x": x}, want, 0
        yield "logical_not", "R.logical_not({x})", {"x": x}, g.out(w == 0), 0
        lo, hi = (-2, 2) if g.dtype not in ("bool",) else (0, 1)
        cut = np.clip(w, max(lo, 0) if g.dtype[0] == "u" else lo, hi) if g.dtype != "bool" else w
        yield "clip", f"R.clip({{x}}, {lo}, {hi})", {"x": x}, g.out(cut, zeros=True), 0
        if g.dtype not in FLOATS:
            yield "bitwise_not", "R.bitwise_not({x})", {"x": x}, g.out(~w if g.dtype == "bool" else -1 - w), 0
        if g.dtype in FLOATS:
            with np.errstate(all="ignore"):
                acts = {"nn.gelu": (0.5 * w * (1 + erf(w / np.sqrt(2))), ""), "nn.leakyrelu": (np.where(w < 0, w * np.float64(0.25), w), ", alpha=0.25"),
                        "nn.gelu_tanh": (0.5 * w * (1 + np.tanh(np.sqrt(2 / np.pi) * (w + 0.044715 * w**3))), ""),
                        "nn.selu": (1.0507009873554805 * np.where(w > 0, w, 1.6732632423543772 * np.expm1(w)), ""),
                        "nn.silu": (w * sigmoid(w), ""), "nn.softplus": (np.where(w > 20, w, np.log1p(np.exp(w))), "")}
            for name, (want, args) in acts.items():
                plain = np.isfinite(w) & (np.abs(w) < 50)  # infinities are tested in cases_elementwise
                v = g.t(w[plain]) if w.ndim == 1 else x
                yield name, f"R.{name}({{x}}{args})", {"x": v}, g.out(want[plain] if w.ndim == 1 else want), ("of 1", 8)
    for x in inputs[:2]:
        yield "wrap_param", f'R.wrap_param({{x}}, dtype="float32")', {"x": x}, Tensor(x.wide().astype(float), "float32"), 0
    if g.dtype in FLOATS:
        x, a = g.x((2, 3, 4)), g.x((3,))
        w = x.wide()
        yield "nn.prelu", "R.nn.prelu({x}, {a}, axis=1)", {"x": x, "a": a}, g.out(np.where(w < 0, w * a.wide()[:, None], w)), 0, {"x": ("n", "c", "m"), "a": ("c",)}
        yield "nn.dropout", "R.nn.dropout({x}, rate=0.5)", {"x": x}, (x, g.out(np.ones((2, 3, 4)))), 0
    else:
        x = g.x((2, 3))
        yield "nn.dropout", "R.nn.dropout({x}, rate=0.5)", {"x": x}, (x, g.out(np.ones((2, 3)))), 0


def int_division(kind):
    def one(x, y):
        if y == 0:
            return 0
        q = x // y if "floor" in kind else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return q if "divide" in kind else x - q * y
    return np.vectorize(one, otypes=[object])


def int_power(x, y):
    if y < 0:
        return {1: 1, -1: 1 - 2 * (y % 2)}.get(x, 0)
    return pow(x, y, 1 << 64)


def arithmetic(kind):
    """Reference of two float64, object (integers) or bool arrays."""
    def run(a, b):
        t = a.dtype.kind
        if kind in ("maximum", "minimum"):
            return getattr(np, kind)(a, b)
        if t == "b":
            return {"add": a | b, "subtract": a ^ b, "multiply": a & b, "divide": a & b, "floor_divide": a & b,
                    "mod": a & b & False, "floor_mod": a & b & False, "power": a | ~b}[kind]
        if kind in ("add", "subtract", "multiply"):
            return getattr(np, kind)(a, b)
        if t == "O":
            if a.size * b.size == 0:
                return np.broadcast_arrays(a, b)[0] * np.broadcast_arrays(a, b)[1]
            return np.vectorize(int_power, otypes=[object])(a, b) if kind == "power" else int_division(kind)(a, b)
        return {"divide": np.divide, "floor_divide": lambda x, y: np.floor(x / y), "mod": np.fmod, "floor_mod": floor_mod,
                "power": np.power}[kind](a, b)
    return run


def floor_mod(a, b):
    m = np.fmod(a, b)
    return np.where((m != 0) & ((m < 0) != (b < 0)), m + b, m)


LOGIC = {"logical_and": lambda a, b: a & b, "logical_or": lambda a, b: a | b, "logical_xor": lambda a, b: a ^ b}
BITS = {"bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b}
COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
           "greater": np.greater, "greater_equal": np.greater_equal}


def edge_pairs(g):
    """Two operands and the names of their dims."""
    return [(g.x((3, 5)), g.x((3, 5)), None), (g.x((3, 1)), g.x((4,)), {"a": ("n", None), "b": ("m",)}),
            (g.x(()), g.x((0, 3)), {"a": (), "b": ("n", "m")}), (g.x(()), g.x(()), None),
            (g.x((2, 1, 1, 2, 1, 1, 2, 1, 2)), g.x((2, 1, 2, 2)), {"a": ("a", None, None, "b", None, None, "c", None, "d"), "b": ("e", None, "f", "d")})]


def pairs(g, k):
    """All pairs of special values, and one kind of shapes in turn."""
    s = g.special().values
    s = s[:9] if s.dtype.kind == "f" else s
    yield g.t(np.repeat(s, len(s))), g.t(np.tile(s, len(s))), None
    yield edge_pairs(g)[k % 5]


def binary(g):
    arith = ("add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "power", "maximum", "minimum")
    every = [*arith, *COMPARE, *LOGIC] + (["atan2", "log_add_exp"] if g.dtype in FLOATS else list(BITS))
    for k, name in enumerate(every):
        for a, b, sym in pairs(g, k + ALL.index(g.dtype)):
            p, q, ulps = a.wide(), b.wide(), 0
            if name == "log_add_exp" and p.size > 30:  # infinities are tested in cases_elementwise
                a, b = g.f((30,), -5, 5), g.f((30,), -5, 5)
                p, q = a.wide(), b.wide()
            if name in COMPARE:
                want = COMPARE[name](p, q).astype(bool)
            elif name in LOGIC:
                want = g.out(LOGIC[name](p != 0, q != 0))
            elif name in BITS:
                want = g.out(BITS[name](p, q))
            elif name == "atan2":
                want, ulps = g.out(np.arctan2(p, q)), 2
            elif name == "log_add_exp":
                want, ulps = g.out(np.logaddexp(p, q)), ("of 1", 4)
            elif name == "floor_divide" and g.dtype in FLOATS:  # the quotient is rounded before
                t = "float64" if g.dtype == "float64" else "float32"
                want = g.out(np.floor(p.astype(t) / q.astype(t)))
            else:
                want = g.out(arithmetic(name)(p, q), zeros=name in ("maximum", "minimum"))
                ulps = 2 if g.dtype in FLOATS and name == "power" else 0
            yield name, f"R.{name}({{a}}, {{b}})", {"a": a, "b": b}, want, ulps, sym
    shape = g.shapes[ALL.index(g.dtype) % 4]
    a, b, c = (g.x(shape) for _ in range(3))
    p, q, z = a.wide(), b.wide(), c.wide()
    fma = (p & q) | z if g.dtype == "bool" else p * q + z
    yield "ewise_fma", "R.ewise_fma({a}, {b}, {c})", {"a": a, "b": b, "c": c}, g.out(fma), 0
    if g.dtype in INTS:
        bits = np.iinfo(g.dtype).bits
        counts = [n for n in (0, 1, bits - 1, bits, 100, -1) if n >= 0 or g.dtype in SIGNED]
        w = g.special().wide()
        a, b = g.t(np.repeat(w, len(counts))), g.t(np.tile(np.array(counts, object), len(w)))
        both = list(zip(a.wide(), b.wide()))
        left = [v << n if 0 <= n < bits else 0 for v, n in both]
        right = [v >> n if 0 <= n < bits else v >> 200 for v, n in both]
        yield "left_shift", "R.left_shift({a}, {b})", {"a": a, "b": b}, g.out(np.array(left, object)), 0
        yield "right_shift", "R.right_shift({a}, {b})", {"a": a, "b": b}, g.out(np.array(right, object)), 0
    cond = g.rng.random((3, 1)) < 0.5
    a, b, sym = edge_pairs(g)[1]
    p, q = np.broadcast_arrays(a.values, b.values)
    yield "where", "R.where({c}, {a}, {b})", {"a": a, "b": b, "c": cond}, g.t(np.where(cond, p, q)), 0, dict(sym, c=("n", None))


def saturate(x, dtype):
    """To integers: towards zero, cut to the range, NaN to 0."""
    info = np.iinfo(dtype)
    flat = [0 if np.isnan(v) else min(max(int(v) if np.isfinite(v) else (info.max if v > 0 else info.min), info.min), info.max)
            for v in x.ravel()]
    return np.array(flat, object).reshape(x.shape)


def convert(g):
    row = g.row()
    for to in ALL:
        for v in (row, g.edge()) if to == "float32" else (row,):
            w = v.wide()
            if w.dtype.kind == "f" and to in INTS:
                w = saturate(w, to)
            elif w.dtype.kind == "O" and to in FLOATS:
                # half types take integers by way of float32
                w = w.astype(g.dtype).astype("float64" if to == "float64" else "float32").astype("float64")
            elif w.dtype.kind == "b":
                w = w.astype(float)
            yield "astype", f'R.astype({{x}}, "{to}")', {"x": v}, Tensor(w, to), 0


def convert_all(g):
    """Conversions without a gap: every value of a narrow type to all others; from wide ones every value of a
    narrow one, the middle of every two neighbours, and what lies beside the middle, so that each rounding
    decision is taken once."""
    if g.dtype in ("float16", *NARROW):
        bits = np.arange(1 << (16 if g.dtype in ("float16", "bfloat16") else 8))
        x = g.t(bits.astype(np.uint16).view(np.float16) if g.dtype == "float16" else decode(bits, g.dtype))
        for to in ALL:
            w = x.wide()
            yield "astype", f'R.astype({{x}}, "{to}")', {"x": x}, Tensor(saturate(w, to) if to in INTS else w, to), 0
    elif g.dtype in FLOATS:
        for to in ("float16", *NARROW):
            t = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(float) if to == "float16" else TABLES[to]
            t = np.append(t, 2 * t[-1] - t[-2])
            mid = ((t[1:] + t[:-1]) / 2).astype(g.dtype)
            some = np.concatenate([t.astype(g.dtype), mid, np.nextafter(mid, mid.dtype.type(0)), np.nextafter(mid, mid.dtype.type(np.inf))])
            x = g.t(np.concatenate([some, -some]))
            yield "astype", f'R.astype({{x}}, "{to}")', {"x": x}, Tensor(x.wide(), to), 0
    else:
        x = g.t(np.arange(-300, 70000, 1 if g.dtype not in ("int8", "uint8") else 273))
        for to in ("float16", *NARROW):
            yield "astype", f'R.astype({{x}}, "{to}")', {"x": x}, Tensor(x.values.astype("float32").astype(float), to), 0


truncated = np.vectorize(lambda s, n: abs(s) // n * (1 if s >= 0 else -1), otypes=[object])


def reduce_(g):
    every = [("None", None, False), ("[1]", 1, True), ("[-1, 0]", (-1, 0), False), ("[0]", 0, False)]
    ops = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
    if g.dtype == "bool":
        ops = {"sum": np.any, "prod": np.all, "max": np.any, "min": np.all}
    for x, layouts in ((g.x((3, 4, 2), -2, 2), every), (g.x((2, 3, 70), -1, 1), every[2:]), (g.x((2, 300), 1, 3), every[1:2])):
        w = x.wide()
        for name, fn in ops.items():
            for text, axis, keep in layouts:
                yield name, f"R.{name}({{x}}, axis={text}, keepdims={keep})", {"x": x}, g.out(fn(w, axis=axis, keepdims=keep)), 0
        if g.dtype in FLOATS:
            for name, fn in {"mean": np.mean, "variance": np.var, "std": np.std}.items():
                for text, axis, keep in layouts:
                    yield name, f"R.{name}({{x}}, axis={text}, keepdims={keep})", {"x": x}, g.out(fn(w, axis=axis, keepdims=keep)), ("of 1", 16)
        elif g.dtype != "bool":  # integers: summed without wrapping, the quotient truncated
            for text, axis, keep in layouts:
                n = w.size // np.sum(w * 0 + 0, axis=axis, keepdims=True).size
                m = truncated(np.sum(w, axis=axis, keepdims=True), n)
                v = truncated(np.sum((w - m) ** 2, axis=axis, keepdims=True), n)
                shape = np.asarray(np.sum(w, axis=axis, keepdims=keep)).shape
                for name, want in (("mean", m), ("variance", v), ("std", np.sqrt(v.astype(float)).astype(int))):
                    yield name, f"R.{name}({{x}}, axis={text}, keepdims={keep})", {"x": x}, g.out(np.asarray(want).reshape(shape)), 0
        for name in ("argmax", "argmin"):
            v = x.values
            for text, axis, keep in (("None", None, False), ("1", 1, True), ("0", 0, False))[:len(layouts)]:
                want = np.asarray(getattr(np, name)(v, axis=axis, keepdims=keep)).astype("int64")
                yield name, f"R.{name}({{x}}, axis={text}, keepdims={keep})", {"x": x}, want, 0
    e = g.x((3, 0))
    start = {"sum": 0, "prod": 1}
    for name in ("sum", "prod"):
        yield name, f"R.{name}({{x}}, axis=[1])", {"x": e}, g.out(np.full(3, start[name])), 0
    if g.dtype in FLOATS and g.dtype != "float8_e4m3fn":
        yield "max", "R.max({x}, axis=[1])", {"x": e}, g.out(np.full(3, -np.inf)), 0
        yield "min", "R.min({x}, axis=[1])", {"x": e}, g.out(np.full(3, np.inf)), 0
        yield "mean", "R.mean({x}, axis=[1])", {"x": e}, g.out(np.full(3, np.nan)), 0
    s = g.x(())
    for name, fn in ops.items():
        yield name, f"R.{name}({{x}})", {"x": s}, g.out(fn(s.wide())), 0
        m = g.x((2, 3))
        yield name, f"R.{name}({{x}}, axis=[])", {"x": m}, m, 0
    yield "argmax", "R.argmax({x})", {"x": s}, np.int64(0), 0
    if g.dtype in FLOATS:
        t = g.t([[1, np.nan, 3, np.nan], [2, -1, 2, -1], [-0.0, 0.0, -0.0, 0.0], [np.nan, np.nan, 1, 2]])
        for name in ("max", "min"):
            yield name, f"R.{name}({{x}}, axis=1)", {"x": t}, g.out(getattr(np, name)(t.wide(), axis=1), zeros=True), 0
        for name in ("argmax", "argmin"):
            yield name, f"R.{name}({{x}}, axis=1)", {"x": t}, getattr(np, name)(t.wide(), axis=1).astype("int64"), 0
    x = g.x((2, 3, 4), 0, 2)
    for name, fn in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
        for axis in (None, 0, -1):
            w = x.wide()
            if g.dtype == "bool":
                want = (np.logical_or if name == "cumsum" else np.logical_and).accumulate(w.ravel() if axis is None else w, axis=axis or 0)
            else:
                want = fn(w, axis=axis)
            yield name, f"R.{name}({{x}}, axis={axis})", {"x": x}, g.out(want), 0, {"x": (None,) * 3} if axis is None else None
    w = x.wide()
    before = np.logical_or.accumulate(np.pad(w, ((0, 0), (1, 0), (0, 0)))[:, :-1], 1) if g.dtype == "bool" else np.cumsum(w, 1) - w
    yield "cumsum", "R.cumsum({x}, axis=1, exclusive=True)", {"x": x}, g.out(before), 0
    e = g.t(np.unique(g.x((6,)).values))
    q = g.x((3, 4))
    for right in (False, True):
        want = np.searchsorted(e.values, q.values, "right" if right else "left").astype("int64")
        yield "bucketize", f"R.bucketize({{q}}, {{e}}, right={right})", {"q": q, "e": e}, want, 0, {"q": ("n", "m"), "e": ("k",)}
    y = g.x((4, 5, 3), -1, 1)
    s3 = {"x": ("a", "b", "c")}
    total = (lambda v, a: v.any(axis=a)) if g.dtype == "bool" else (lambda v, a: v.sum(axis=a))
    yield "collapse_sum_to", "R.collapse_sum_to({x}, ({b}, {c}))", {"x": y}, g.out(total(y.wide(), 0)), 0, s3
    yield "collapse_sum_like", "R.collapse_sum_like({x}, {t})", {"x": y, "t": g.x((1, 3))}, g.out(total(y.wide(), (0, 1))[None]), 0, {"x": ("a", "b", "c"), "t": (None, "c")}


def create(g):
    d, x = g.dtype, g.x((3, 4))
    nm = {"x": ("n", "m")}
    yield "zeros", f'R.zeros(R.shape([{{n}}, 2]), "{d}")', {"x": x}, g.out(np.zeros((3, 2))), 0, nm
    yield "ones", f'R.ones(({{n}} * 2, 0), "{d}")', {"x": x}, g.out(np.ones((6, 0))), 0, nm
    yield "ones", f'R.ones((), "{d}")', {}, g.out(np.ones(())), 0
    yield "zeros", f'R.zeros((2, 3), "{d}")', {}, g.out(np.zeros((2, 3))), 0
    yield "ones_like", "R.ones_like({x})", {"x": x}, g.out(np.ones((3, 4))), 0
    yield "zeros_like", "R.zeros_like({x})", {"x": x}, g.out(np.zeros((3, 4))), 0
    yield "full", "R.full(({n}, 2), {v})", {"x": x, "v": g.t(1)}, g.out(np.full((3, 2), 1)), 0, {"x": ("n", "m"), "v": ()}
    yield "full_like", "R.full_like({x}, {v})", {"x": x, "v": g.t(1)}, g.out(np.full((3, 4), 1)), 0, {"x": ("n", "m"), "v": ()}
    yield "eye", f'R.eye({{n}}, {{m}}, 1, dtype="{d}")', {"x": x}, g.out(np.eye(3, 4, 1)), 0, nm
    yield "eye_like", "R.eye_like({x}, -1)", {"x": x}, g.out(np.eye(3, 4, -1)), 0
    yield "tril", "R.tril({x}, 1)", {"x": x}, g.t(np.tril(x.values, 1)), 0
    yield "triu", "R.triu({x}, -1)", {"x": x}, g.t(np.triu(x.values, -1)), 0
    if d != "bool":
        lo = 0 if d[0] == "u" else -2
        yield "arange", f'R.arange({lo}, {{n}} * 2, 2, "{d}")', {"x": x}, g.out(np.arange(lo, 6, 2)), 0, nm
    if d in INTS:
        i = g.t([2, 0, 4, 9])
        hot = (i.values.astype("int64")[:, None] == np.arange(5)).astype("float32")
        yield "one_hot", 'R.one_hot({i}, R.prim_value(T.float32(1.0)), R.prim_value(T.float32(0.0)), 5)', {"i": i}, hot, 0, {"i": ("n",)}
    if d in FLOATS:
        i = np.arange(8)
        yield "hamming_window", f'R.hamming_window(8, True, 0.54, 0.46, "{d}")', {}, g.out(0.54 - 0.46 * np.cos(2 * np.pi * i / 8)), 1


GROUPS = {"unary": unary, "binary": binary, "convert": convert, "convert_all": convert_all, "reduce": reduce_, "create": create}
