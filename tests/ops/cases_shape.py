"""Movement, joining, selection, creation and matrix products. Values from NumPy."""
import numpy as np

rng = np.random.default_rng(11)


def count(shape, dtype="float32"):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def shape(Case):
    out = []
    x = count((4, 6, 5))
    s3 = {"x": ("n", "m", "k")}
    add = lambda expr, want, x=x, sym=None, **kw: out.append(Case("shape", expr, {"x": x}, want, sym=sym, **kw))
    n = {"x": ("n", None, None)}
    add("R.reshape({x}, ({n}, 30))", x.reshape(4, 30), sym=n)
    add("R.reshape({x}, (0, 2, 3, -1))", x.reshape(4, 2, 3, 5), sym=n)
    add("R.reshape({x}, (-1, 10))", x.reshape(12, 10), sym=n)
    add("R.reshape({x}, ({n} * 6, 5))", x.reshape(24, 5), sym=n)
    add("R.reshape({x}, ({n}, {m} * {k}))", x.reshape(4, 30), sym=s3)
    add("R.reshape({x}, ({n} * {m}, 1, {k}))", x.reshape(24, 1, 5), sym=s3)
    add("R.reshape({x}, (2, 60))", x.reshape(2, 60), static_only=True)
    add("R.reshape({x}, (6, 4, 5))", x.reshape(6, 4, 5), static_only=True)
    add("R.reshape({x}, (5, 24))", x.reshape(5, 24), static_only=True)
    add("R.reshape({x}, (1, 1))", np.float32([[7]]), x=np.float32(7))
    add("R.reshape({x}, ())", np.float32(7), x=np.float32([[7]]), static_only=True)
    add("R.reshape({x}, (2, 0))", np.zeros((2, 0), "float32"), x=np.zeros((0, 3), "float32"), static_only=True)
    add("R.flatten({x})", x.ravel(), sym=s3)
    add("R.flatten({x})", np.int32([5]), x=np.int32(5))
    add("R.nn.batch_flatten({x})", x.reshape(4, 30), sym=s3)
    for dtype in ("float32", "int8", "bool", "float64"):
        y = count((2, 3, 4), "int32").astype(dtype)
        add("R.permute_dims({x})", y.T, x=y)
        add("R.permute_dims({x}, [1, -1, 0])", y.transpose(1, 2, 0), x=y)
    add("R.expand_dims({x}, 0)", x[None], sym=s3)
    add("R.expand_dims({x}, [1, -1])", x[:, None, ..., None], sym=s3)
    y = count((1, 4, 1))
    add("R.squeeze({x})", y.reshape(4), x=y, static_only=True)
    add("R.squeeze({x}, [0, 2])", y.reshape(4), x=y, sym={"x": (None, "n", None)})
    add("R.squeeze({x}, 0)", y.reshape(4, 1), x=y, sym={"x": ("one", "n", None)})
    y = count((3, 1))
    add("R.broadcast_to({x}, (2, {n}, 4))", np.broadcast_to(y, (2, 3, 4)), x=y, sym={"x": ("n", None)})
    add("R.broadcast_to({x}, (3, 5))", np.broadcast_to(np.float32([[9]]), (3, 5)), x=np.float32([[9]]), sym={"x": ("n", "m")})
    add("R.tile({x}, 2)", np.tile(x, 2), sym=s3)
    add("R.tile({x}, (2, 1, 3))", np.tile(x, (2, 1, 3)), sym=s3)
    add("R.tile({x}, (2, 1, 1, 2))", np.tile(x, (2, 1, 1, 2)), sym=s3)
    add("R.repeat({x}, 3, axis=1)", np.repeat(x, 3, axis=1), sym=s3)
    add("R.repeat({x}, 2)", np.repeat(x, 2), sym=n)
    for axis in (0, 1, -1):
        add(f"R.flip({{x}}, axis={axis})", np.flip(x, axis), sym=s3)
    # joining
    a, b, c = count((2, 3)), count((4, 3)), count((1, 3))
    add3 = lambda expr, want, ins, sym=None: out.append(Case("shape", expr, ins, want, sym=sym))
    cat = {"a": ("n", "m"), "b": ("k", "m"), "c": (None, "m")}
    add3("R.concat(({a}, {b}, {c}), axis=0)", np.concatenate([a, b, c]), {"a": a, "b": b, "c": c}, cat)
    add3("R.concat(({a}, {a}), axis=-1)", np.concatenate([a, a], -1), {"a": a})
    add3("R.concat(({a},))", a, {"a": a})
    z = np.zeros((0, 3), "float32")
    add3("R.concat(({a}, {z}, {b}))", np.concatenate([a, z, b]), {"a": a, "z": z, "b": b}, {"a": ("n", "m"), "z": ("z", "m"), "b": ("k", "m")})
    i = np.int64([1, 2])
    add3("R.concat(({i}, {i}), axis=None)", np.concatenate([i, i]), {"i": i})
    for axis in (0, 1, -1):
        add3(f"R.stack(({{a}}, {{a}}, {{e}}), axis={axis})", np.stack([a, a, -a], axis), {"a": a, "e": -a})
    add("R.split({x}, 2, axis=1)", tuple(np.split(x, 2, 1)), sym=s3)
    add("R.split({x}, 3, axis=0)", (x[:2], x[2:4], x[4:]), sym=s3)
    add("R.split({x}, [1, 3], axis=-1)", (x[..., :1], x[..., 1:3], x[..., 3:]), sym=s3)
    add("R.split({x}, [2, 9], axis=0)", (x[:2], x[2:], x[4:]), sym=s3)
    add("R.split({x}, 1)", x, sym=s3)
    # inspection
    add("R.size({x})", np.int64(120), sym=s3)
    add("R.shape_to_tensor(R.shape_of({x}))", np.int64([4, 6, 5]), sym=s3)
    add("R.shape_to_tensor(R.shape([{n}, {m} * 2 + 1]))", np.int64([4, 13]), sym=s3)
    return out


def index(Case):
    out = []
    x = count((6, 5))
    nm = {"x": ("n", "m")}
    def add(expr, want, ins=None, sym=nm, **kw):
        out.append(Case("index", expr, ins or {"x": x}, want, sym=sym, **kw))
    def sl(axes, begin, end, strides=None):
        t = lambda v: "(" + ", ".join(map(str, v)) + ",)"
        return f"R.strided_slice({{x}}, {t(axes)}, {t(begin)}, {t(end)}" + (f", {t(strides)})" if strides else ")")
    for b, e, s in [(0, 1, 1), (1, 100, 2), (-3, 100, 1), (-100, 4, 3), (4, 1, 1), (100, -100, -1), (5, 1, -2), (-1, -100, -3), (2, 2, 1), (-2, 6, 1)]:
        add(sl([0], [b], [e], [s]), x[b:e:s])
    add(sl([1, 0], [1, 2], [4, 5]), x[2:5, 1:4])
    add("R.strided_slice({x}, (0,), (1,), ({n} - 1,))", x[1:5])
    add("R.strided_slice({x}, (0,), ({n} + 3,), ({n} + 50,))", x[9:56])
    add("R.strided_slice({x}, (0,), (1,), (4,), (2,), assume_inbound=True)", x[1:4:2])
    e = np.zeros((0, 5), "float32")
    add(sl([0], [-10], [100], [2]), e, {"x": e})
    t = {"x": ("n", "m"), "i": ("k",)}
    i = np.int64([3, 0, 5, 5])
    add("R.take({x}, {i}, axis=0)", x[i], {"x": x, "i": i}, t)
    add("R.take({x}, {i}, axis=-1)", x[:, [0, 4]], {"x": x, "i": np.int32([0, 4])}, t)
    far = np.int64([-2, 0, 7, 100])
    add("R.take({x}, {i}, axis=0)", x[[4, 0, 5, 5]], {"x": x, "i": far}, t)
    add("R.take({x}, {i}, axis=0, mode=\"clip\")", x[[0, 0, 5, 5]], {"x": x, "i": far}, t)
    add("R.take({x}, {i}, axis=0, mode=\"wrap\")", x[far % 6], {"x": x, "i": far}, t)
    w = x[[0, 0, 5, 5]].copy()
    w[[0, 2, 3]] = np.nan
    add("R.take({x}, {i}, axis=0, mode=\"nan\")", w, {"x": x, "i": far}, t)
    huge = np.uint64([2**64 - 1, 1, 2**63])
    add("R.take({x}, {i}, axis=0)", x[[5, 1, 5]], {"x": x, "i": huge}, t)
    add("R.take({x}, {i}, axis=0, mode=\"wrap\")", x[huge % 6], {"x": x, "i": huge}, t)
    add("R.gather_elements({x}, {i}, axis=0)", x[[5, 1, 5]], {"x": x, "i": np.repeat(huge[:, None], 5, 1)}, {"x": ("n", "m"), "i": ("k", "m")})
    i2 = np.int32([[1, 2], [0, 5]])
    add("R.take({x}, {i}, axis=0)", x[i2], {"x": x, "i": i2}, {"x": ("n", "m"), "i": ("k", None)})
    add("R.take({x}, {i}, axis=1)", x[:, 2], {"x": x, "i": np.int64(2)}, {"x": ("n", "m"), "i": ()})
    add("R.take({x}, R.prim_value(1), axis=0)", x[1])
    add("R.take({x}, {i})", np.float32([3, 1]), {"x": np.float32([1, 2, 3]), "i": np.int64([2, 0])}, {"x": ("n",), "i": ("k",)})
    add("R.take({x}, {i}, axis=0)", np.zeros((2, 3), "float32"), {"x": np.zeros((0, 3), "float32"), "i": np.int64([0, 1])}, t)
    c = rng.random((4, 5)) < 0.5
    a, b = count((4, 5)), -count((5,))
    wh = {"c": ("n", "m"), "a": ("n", "m"), "b": ("m",)}
    add("R.where({c}, {a}, {b})", np.where(c, a, b), {"c": c, "a": a, "b": b}, wh)
    add("R.where({c}, {a}, {b})", np.where(c, a.astype("int64"), np.int64(3)), {"c": c, "a": a.astype("int64"), "b": np.int64(3)}, {"c": ("n", "m"), "a": ("n", "m"), "b": ()})
    return out


def create(Case):
    out = []
    x = count((3, 4))
    nm = {"x": ("n", "m")}
    def add(expr, want, ins=None, sym=nm, tol=0.0, **kw):
        out.append(Case("create", expr, ins or {"x": x}, want, tol, sym=sym, **kw))
    for dtype in ("float32", "int8", "bool", "float16", "int64"):
        add(f'R.zeros(R.shape([{{n}}, 2]), "{dtype}")', np.zeros((3, 2), dtype))
        add(f'R.ones(({{n}} * 2, {{m}}), "{dtype}")', np.ones((6, 4), dtype))
        add(f'R.ones_like({{x}}, "{dtype}")', np.ones((3, 4), dtype))
        add(f'R.eye({{n}}, {{m}}, 1, dtype="{dtype}")', np.eye(3, 4, 1, dtype=dtype))
    add("R.zeros_like({x})", np.zeros_like(x))
    add('R.full(({n},), R.const(2.5, "float32"), dtype="float32")', np.full(3, 2.5, "float32"))
    add('R.full(({n},), R.const(3, "int32"), dtype="float64")', np.full(3, 3.0))
    add("R.full(({n}, 2), {v})", np.full((3, 2), 7, "int64"), {"x": x, "v": np.int64(7)}, {"x": ("n", "m"), "v": ()})
    add("R.full_like({x}, {v})", np.full((3, 4), 7, "float32"), {"x": x, "v": np.int64(7)}, {"x": ("n", "m"), "v": ()})
    add("R.eye_like({x}, -1)", np.eye(3, 4, -1, dtype="float32"))
    add("R.eye(4)", np.eye(4, dtype="float32"))
    add("R.arange({n})", np.arange(3))
    add("R.arange(1, {n} * 4, 3)", np.arange(1, 12, 3))
    add("R.arange({n} * 3, step=2)", np.arange(0, 9, 2))
    add("R.eye({n}, k=1)", np.eye(3, k=1, dtype="float32"))
    add('R.arange(10, 0, -3, "int32")', np.arange(10, 0, -3, dtype="int32"))
    add("R.arange(5, 2)", np.arange(5, 2))
    add('R.arange(0.0, 1.0, 0.1, "float32")', np.arange(0, 1, 0.1).astype("float32"), tol=1e-6)
    for k in (-1, 0, 2):
        add(f"R.tril({{x}}, {k})", np.tril(x, k))
        add(f"R.triu({{x}}, {k})", np.triu(x, k))
    add("R.tril({x})", np.tril(count((2, 3, 3))), {"x": count((2, 3, 3))}, {"x": ("b", "n", "n")})
    i = np.int64([2, 0, 4, 9])
    hot = (i[:, None] == np.arange(5)).astype("float64")
    add("R.one_hot({i}, 1.0, 0.0, 5)", hot, {"i": i}, {"i": ("n",)})
    add("R.one_hot({i}, 7, -1, 5, axis=0)", np.where(hot.T == 1, 7, -1), {"i": i.astype("int32")}, {"i": ("n",)})
    return out


def linalg(Case):
    out = []
    tol = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-2}
    def real(s, dtype):
        return rng.uniform(-1, 1, s).astype(dtype)
    shapes = [((5, 7), (7, 3), ("m", "k"), ("k", "n")), ((7,), (7, 3), ("k",), ("k", "n")), ((5, 7), (7,), ("m", "k"), ("k",)),
              ((7,), (7,), ("k",), ("k",)), ((2, 5, 7), (2, 7, 3), ("b", "m", "k"), ("b", "k", "n")),
              ((2, 5, 7), (7, 3), ("b", "m", "k"), ("k", "n")), ((2, 1, 4, 6), (3, 6, 2), ("b", None, "m", "k"), ("c", "k", "n")),
              ((7,), (2, 7, 3), ("k",), ("b", "k", "n")), ((1, 64), (64, 48), ("m", None), (None, None)), ((33, 65), (65, 17), ("m", "k"), ("k", "n")),
              ((3, 0), (0, 4), ("m", "k"), ("k", "n")), ((0, 3), (3, 4), ("m", "k"), ("k", "n"))]
    for sa, sb, na, nb in shapes:
        for dtype in ("float32", "float64") if len(sa) != 3 else ("float32", "float64", "float16"):
            a, b = real(sa, dtype), real(sb, dtype)
            want = np.matmul(a.astype("float64"), b.astype("float64")).astype(dtype)
            out.append(Case("linalg", "R.matmul({a}, {b})", {"a": a, "b": b}, want, tol[dtype], sym={"a": na, "b": nb}))
    for dtype in ("int32", "int64", "int8"):
        a, b = rng.integers(-9, 9, (4, 5)).astype(dtype), rng.integers(-9, 9, (5, 6)).astype(dtype)
        out.append(Case("linalg", "R.matmul({a}, {b})", {"a": a, "b": b}, a @ b, sym={"a": ("m", "k"), "b": ("k", "n")}))
    a, b = rng.integers(-128, 127, (4, 50)).astype("int8"), rng.integers(-128, 127, (50, 6)).astype("int8")
    out.append(Case("linalg", 'R.matmul({a}, {b}, out_dtype="int32")', {"a": a, "b": b}, a.astype("int32") @ b.astype("int32"), sym={"a": ("m", "k"), "b": ("k", "n")}))
    h, g = real((3, 8), "float16"), real((8, 2), "float16")
    out.append(Case("linalg", 'R.matmul({a}, {b}, out_dtype="float32")', {"a": h, "b": g}, (h.astype("float32") @ g.astype("float32")), 1e-5, sym={"a": ("m", "k"), "b": ("k", "n")}))
    x, w, c = real((2, 3, 6), "float32"), real((4, 6), "float32"), real((4,), "float32")
    names = {"x": ("b", "m", "k"), "w": ("n", "k"), "c": ("n",)}
    out.append(Case("linalg", "R.linear({x}, {w})", {"x": x, "w": w}, x @ w.T, 1e-5, sym=names))
    out.append(Case("linalg", "R.linear({x}, {w}, {c})", {"x": x, "w": w, "c": c}, x @ w.T + c, 1e-5, sym=names))
    u, v = real((3,), "float32"), real((4,), "float32")
    out.append(Case("linalg", "R.outer({u}, {v})", {"u": u, "v": v}, np.outer(u, v), sym={"u": ("m",), "v": ("n",)}))
    x, w, c = real((9, 20), "float32"), real((20, 33), "float32"), real((33,), "float32")
    out.append(Case("linalg", "R.nn.relu(R.add(R.matmul({x}, {w}), {c}))", {"x": x, "w": w, "c": c}, np.maximum(x @ w + c, 0), 2e-5, sym={"x": ("n", None)}))
    return out


def gather(Case):
    out = []
    x, y = count((4, 5)), count((3, 4, 2))
    def add(expr, ins, want, sym=None, tol=0.0):
        out.append(Case("gather", expr, ins, want, tol, sym=sym))
    i = np.int64([[0, 3], [2, -1], [1, 1], [3, 0]])
    nm = {"x": ("n", "m"), "i": ("k", None)}
    add("R.gather_elements({x}, {i}, axis=1)", {"x": x, "i": i}, np.take_along_axis(x, i, 1), nm)
    j = np.int32([[3, 0, 1, -1, 2]])
    add("R.gather_elements({x}, {i})", {"x": x, "i": j}, np.take_along_axis(x, j.astype("int64"), 0), {"x": ("n", "m"), "i": (None, "m")})
    p = np.int64([[0, 1], [2, 3], [-1, 0]])
    add("R.gather_nd({x}, {i})", {"x": y, "i": p}, y[p[:, 0], p[:, 1]], {"x": ("a", "b", "c"), "i": ("k", None)})
    add("R.gather_nd({x}, {i}, batch_dims=1)", {"x": y, "i": np.int64([[3], [0], [2]])}, y[np.arange(3), [3, 0, 2]], {"x": ("a", "b", "c"), "i": ("a", None)})
    u = -count((2, 5))
    k = np.int64([[0, 1, 2, 3, 0], [3, 1, -1, 0, 0]])
    for how in ("update", "add", "mul", "max", "min"):
        w = x.copy()
        for r in range(2):
            for c in range(5):
                old, v = w[k[r, c], c], u[r, c]
                w[k[r, c], c] = {"update": v, "add": old + v, "mul": old * v, "max": max(old, v), "min": min(old, v)}[how]
        add(f"R.scatter_elements({{x}}, {{i}}, {{u}}, axis=0, reduction=\"{how}\")", {"x": x, "i": k, "u": u}, w, {"x": ("n", "m"), "i": ("k", "m"), "u": ("k", "m")})
    for how in ("update", "add"):
        w = y.copy()
        v = -count((3, 2))
        for r in range(3):
            w[tuple(p[r])] = v[r] if how == "update" else w[tuple(p[r])] + v[r]
        add(f"R.scatter_nd({{x}}, {{i}}, {{v}}, reduction=\"{how}\")", {"x": y, "i": p, "v": v}, w, {"x": ("a", "b", "c"), "i": ("k", None), "v": ("k", "c")})
    w = x.copy()
    w[1:4:2] = -1
    add("R.slice_scatter({x}, {v}, 1, 4, 2)", {"x": x, "v": np.full((2, 5), -1, "float32")}, w)
    w = x.copy()
    w[:, -2:] = 7
    add("R.slice_scatter({x}, {v}, -2, {m}, 1, axis=1)", {"x": x, "v": np.full((4, 2), 7, "float32")}, w, {"x": ("n", "m"), "v": ("n", None)})
    n = np.int32([2, 4, 0, 1])
    w = x.copy()
    for r, l in enumerate(n):
        w[r, :l] = x[r, :l][::-1]
    add("R.reverse_sequence({x}, {l}, seq_axis=1, batch_axis=0)", {"x": x, "l": n}, w, {"x": ("n", "m"), "l": ("n",)})
    a, b = count((3,)), -count((2,))
    for order in ("ij", "xy"):
        add(f"R.meshgrid(({{a}}, {{b}}), indexing=\"{order}\")", {"a": a, "b": b}, tuple(np.meshgrid(a, b, indexing=order)), {"a": ("n",), "b": ("m",)})
    z = rng.uniform(-1, 1, (3, 4, 5))
    for dtype in ("float32", "float64", "int32"):
        v = z.astype(dtype) if dtype[0] == "f" else count((3, 4, 5), dtype)
        for axis in (0, 1, -1):
            tol = {"float32": 1e-5}.get(dtype, 1e-12)
            add(f"R.cumsum({{x}}, axis={axis})", {"x": v}, np.cumsum(v, axis, dtype=dtype), None, tol)
        add("R.cumprod({x}, axis=1)", {"x": v}, np.cumprod(v, 1, dtype=dtype), None, 1e-5)
    add("R.cumsum({x})", {"x": x}, np.cumsum(x))
    add("R.cumsum({x}, axis=1, exclusive=True)", {"x": x}, np.cumsum(x, 1) - x)
    add("R.cumsum({x}, axis=1, dtype=\"int64\")", {"x": np.array([[True, False, True]])}, np.int64([[1, 1, 2]]))
    h = z.astype("float16")
    add("R.cumsum({x}, axis=1)", {"x": h}, np.cumsum(h.astype("float64"), 1).astype("float16"), None, 3e-3)
    e = np.float32([-1, 0, 2, 2, 5])
    q = np.float32([[-2, -1, 0.5], [2, 5, 9]])
    for right in (False, True):
        side = "right" if right else "left"
        add(f"R.bucketize({{x}}, {{e}}, right={right})", {"x": q, "e": e}, np.searchsorted(e, q, side).astype("int64"), {"x": ("n", "m"), "e": ("k",)})
    for n in (65, 300, 1024):  # many boundaries, some equal: found by halving
        e, q = np.sort(np.arange(n) * 7 % (n // 2)).astype("float32"), np.float32([[-1, 0, n], [n // 4, n // 4 + 0.5, np.nan]])
        for right in (False, True):
            side = "right" if right else "left"
            add(f"R.bucketize({{x}}, {{e}}, right={right})", {"x": q, "e": e}, np.searchsorted(e, q, side).astype("int64"), {"x": ("n", "m"), "e": ("k",)})
    e = np.float32([-1, 0, 2, 2, 5])
    add("R.bucketize({x}, {e}, out_int32=True)", {"x": np.int64([3, -7]), "e": e}, np.int32([4, 0]), {"x": ("n",), "e": ("k",)})
    return out


def build(Case):
    return gather(Case) + shape(Case) + index(Case) + create(Case) + linalg(Case)
