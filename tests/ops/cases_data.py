"""Sorting, einsum, losses, quantisation, indexing by tensors, data-dependent shapes. Values from NumPy
(stable sorts; NaN last, as NumPy orders it)."""
import numpy as np

rng = np.random.default_rng(5)


def ints(shape, lo=0, hi=9, dtype="float32"):
    return rng.integers(lo, hi, shape).astype(dtype)


def order(x, axis, descending=False):
    """Stable order in both directions."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    rev = np.flip(x, axis)
    n = x.shape[axis]
    return np.flip(n - 1 - np.argsort(rev, axis=axis, kind="stable"), axis)


def sort(Case):
    out = []
    add = lambda expr, x, want, **kw: out.append(Case("sort", expr, {"x": x}, want, **kw))
    x = ints((3, 7, 5))
    x[0, 2, 1] = np.nan
    x[1, 0, 0], x[1, 0, 1], x[1, 0, 2] = -np.inf, np.inf, -0.0
    for axis in (0, 1, -1):
        for d in (False, True):
            p = order(x, axis, d)
            add(f"R.sort({{x}}, axis={axis}, descending={d})", x, np.take_along_axis(x, p, axis))
            add(f"R.argsort({{x}}, axis={axis}, descending={d})", x, p.astype("int32"))
            add(f'R.argsort({{x}}, axis={axis}, descending={d}, dtype="int64")', x, p)
    for dtype in ("float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"):
        y = rng.integers(-100 if dtype[0] == "i" else 0, 100, (2, 9)).astype(dtype)
        add("R.sort({x})", y, np.sort(y))
        add("R.argsort({x}, descending=True)", y, order(y, -1, True).astype("int32"))
    for shape in ((0,), (1,), (2,), (3, 0), (0, 3), (1, 1), (33,), (2, 64)):
        y = ints(shape)
        add("R.sort({x})", y, np.sort(y))
        add("R.argsort({x})", y, order(y, -1).astype("int32"))
    for k, axis, largest in ((2, -1, True), (1, 0, False), (3, 1, True), (3, 1, False), (5, -1, False)):
        p = np.take(order(x, axis, largest), np.arange(k), axis)
        v = np.take_along_axis(x, p, axis)
        attrs = f"k={k}, axis={axis}, largest={largest}"
        add(f"R.topk({{x}}, {attrs})", x, (v, p.astype("int32")))
        add(f'R.topk({{x}}, {attrs}, ret_type="values")', x, v)
        add(f'R.topk({{x}}, {attrs}, ret_type="indices", dtype="int64")', x, p)
    y = ints((4, 3))
    add("R.topk({x}, k=100)", y, (np.take_along_axis(y, order(y, 1, True), 1), order(y, 1, True).astype("int32")), static_only=True)
    add("R.topk({x}, k=-1)", y, (np.take_along_axis(y, order(y, 1, True), 1), order(y, 1, True).astype("int32")))
    z = ints((4, 6, 3))
    for axis in (0, 1, -1):
        p = np.take(order(z, axis), [(z.shape[axis] - 1) // 2], axis)
        v = np.take_along_axis(z, p, axis)
        add(f"R.median({{x}}, axis={axis}, keepdims=True)", z, (v, p))
        add(f"R.median({{x}}, axis=[{axis}])", z, (v.squeeze(axis), p.squeeze(axis)))
    flat = np.sort(z.ravel())[(z.size - 1) // 2]
    add("R.median({x})", z, flat)
    add("R.median({x}, keepdims=True)", z, flat.reshape(1, 1, 1))
    add("R.median({x}, axis=[0, 2])", z, np.sort(z.transpose(1, 0, 2).reshape(6, 12))[:, 5])
    add("R.median({x}, axis=[0, 2], keepdims=True)", z, np.sort(z.transpose(1, 0, 2).reshape(6, 12))[:, 5].reshape(1, 6, 1))
    p = np.float32([[0.25, 0.25, 0.5], [0.0, 1.0, 0.0]])
    u = np.float32([[0.0], [0.25], [0.3], [0.999], [0.5]])
    rows = np.int64([[0], [0], [0], [0], [1]])
    want = np.int64([[0], [1], [1], [2], [1]])
    s = {"u": ("n", None), "r": ("n", None), "p": ("b", "c")}
    for dtype in ("int64", "int32"):
        out.append(Case("sort", f'R.multinomial_from_uniform({{p}}, {{u}}, {{r}}, dtype="{dtype}")',
                        {"p": p, "u": u, "r": rows}, want.astype(dtype), sym=s))
    return out


def einsum(Case):
    out = []

    def add(spec, *xs, syms=None, tol=1e-5):
        names = [f"x{i}" for i in range(len(xs))]
        args = ", ".join("{" + n + "}" for n in names) + ("," if len(xs) == 1 else "")
        want = np.einsum(spec, *[x.astype("float64") if x.dtype.kind == "f" else x for x in xs]).astype(xs[0].dtype)
        sym = dict(zip(names, syms)) if syms else None
        out.append(Case("einsum", f'R.einsum(({args}), subscripts="{spec}")', dict(zip(names, xs)), want, tol=tol, sym=sym))

    f = lambda *s: rng.standard_normal(s).astype("float32")
    nk, km = ("n", "k"), ("k", "m")
    add("ij,jk->ik", f(3, 4), f(4, 5), syms=(nk, km))
    add("ij,jk", f(3, 4), f(4, 5), syms=(nk, km))
    add("ij,kj->ki", f(3, 4), f(5, 4), syms=(nk, ("m", "k")))
    add("i,j->ij", f(3), f(4), syms=(("n",), ("m",)))
    add("i,j", f(3), f(4), syms=(("n",), ("m",)))
    add("i,i->", f(7), f(7))
    add("ij->ji", f(3, 4))
    add("ij->", f(3, 4))
    add("ij->j", f(3, 4))
    add("ii->i", f(4, 4), syms=(("n", "n"),))
    add("ii", f(4, 4), syms=(("n", "n"),))
    add("bij,bjk->bik", f(2, 3, 4), f(2, 4, 5), syms=(("b", "n", "k"), ("b", "k", "m")))
    add("...ij,...jk->...ik", f(2, 3, 4), f(4, 5), syms=(("b", "n", "k"), km))
    add("...ij,...jk", f(2, 1, 3, 4), f(6, 4, 5), syms=(("b", None, "n", "k"), ("c", "k", "m")))
    add("b...->...", f(2, 3, 4))
    add("ij,jk,kl->il", f(3, 4), f(4, 5), f(5, 2), syms=(nk, km, ("m", "l")))
    add("i,ij,j->", f(3), f(3, 4), f(4), syms=(("n",), ("n", "m"), ("m",)))
    add("ab,bc,cd,da->", f(2, 3), f(3, 4), f(4, 2), f(2, 2), syms=(("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")))
    add("ij,ij->ij", f(3, 4), f(1, 4), syms=(("n", "m"), (None, "m")))
    add("i,i->", f(0), f(0), tol=0)
    add("ij,jk->ik", f(3, 0), f(0, 2), syms=(nk, km), tol=0)
    for dtype in ("int8", "int32", "int64", "float64"):
        add("ij,jk->ik", ints((3, 4), dtype=dtype), ints((4, 2), dtype=dtype), syms=(nk, km))
    add("ij,jk->ik", ints((3, 4), dtype="float16"), ints((4, 2), dtype="float16"), syms=(nk, km))
    return out


def loss(Case):
    out = []
    add = lambda expr, ins, want, sym=None, tol=1e-5, **kw: out.append(Case("loss", expr, ins, want, sym=sym, tol=tol, **kw))
    p, l = rng.standard_normal((4, 5)).astype("float32"), rng.standard_normal((4, 5)).astype("float32")
    add("R.nn.cross_entropy_with_logits({p}, {l})", {"p": p, "l": l}, np.float32(-(p.astype("float64") * l).sum() / 4))
    add("R.nn.cross_entropy_with_logits({p}, {l})", {"p": p[0], "l": l[0]}, np.float32(-(p[0].astype("float64") * l[0]).sum()))
    t, w = np.int64([0, 3, -100, 3]), np.float32([1, 2, 3, 4, 5])
    s = {"p": ("n", "c"), "t": ("n",), "w": ("c",), "g": ()}
    for dtype in ("float32", "float64", "float16"):
        q, v = ints((4, 5), -4, 5, dtype), w.astype(dtype)
        keep = t >= 0
        term = np.where(keep, -q[np.arange(4), np.where(keep, t, 0)].astype("float64"), 0)
        tw = np.where(keep, v[np.where(keep, t, 0)].astype("float64"), 0)
        for name, weights in (("", keep.astype("float64")), (", {w}", tw)):
            ins = {"p": q, "t": t, **({"w": v} if name else {})}
            for how, want in (("none", term * weights), ("sum", (term * weights).sum()), ("mean", (term * weights).sum() / weights.sum())):
                tol = 1e-3 if dtype == "float16" else 1e-5
                add(f'R.nn.nll_loss({{p}}, {{t}}{name}, reduction="{how}")', ins, np.asarray(want).astype(dtype), sym=s, tol=tol)
                grad = np.zeros((4, 5))
                g = np.float64([1, 2, 3, 4]) if how == "none" else np.full(4, 2.0)
                grad[np.arange(4), np.where(keep, t, 0)] -= weights * g / (weights.sum() if how == "mean" else 1)
                gin = (np.float64([1, 2, 3, 4]) if how == "none" else np.float64(2)).astype(dtype)
                gs = dict(s, g=("n",)) if how == "none" else s
                add(f'R.grad.nll_loss_backward({{g}}, {{p}}, {{t}}{name}, reduction="{how}")', {"g": gin, **ins}, grad.astype(dtype), sym=gs, tol=tol)
    q = ints((2, 3, 2, 2), -4, 5)
    t = rng.integers(0, 3, (2, 2, 2))
    want = -np.take_along_axis(q, t[:, None], 1)[:, 0]
    s = {"p": ("n", "c", "h", "w"), "t": ("n", "h", "w")}
    add('R.nn.nll_loss({p}, {t}, reduction="none")', {"p": q, "t": t}, want, sym=s)
    add('R.nn.nll_loss({p}, {t}, ignore_index=1, reduction="sum")', {"p": q, "t": t}, np.float32(np.where(t == 1, 0, want).sum()), sym=s)
    add("R.nn.nll_loss({p}, {t})", {"p": w, "t": np.int64(2)}, np.float32(-3), sym={"p": ("c",), "t": ()})
    # quantisation
    x = np.float32([[-1000, -1.26, -0.25, 0.25, 0.75, 12.7], [1000, np.inf, -np.inf, 0.3, 3.3, 7.77]])
    for dtype in ("int8", "uint8", "int16", "uint16"):
        lo, hi = np.iinfo(dtype).min, np.iinfo(dtype).max
        for zp in (0, 3):
            want = np.clip(np.round(x / np.float32(0.5)) + zp, lo, hi).astype(dtype)
            add(f'R.quantize({{x}}, R.const(0.5, "float32"), R.const({zp}, "int8"), out_dtype="{dtype}")', {"x": x}, want, tol=0)
        sc, zp = np.float32([0.5, 1, 2, 0.25, 1, 3]), np.int8([0, 1, 2, -3, 4, 5])
        want = np.clip(np.round(x / sc) + zp, lo, hi).astype(dtype)
        sym = {"x": ("n", "c"), "s": ("c",), "z": ("c",)}
        add(f'R.quantize({{x}}, {{s}}, {{z}}, axis=1, out_dtype="{dtype}")', {"x": x, "s": sc, "z": zp}, want, sym=sym, tol=0)
    for dtype in ("int8", "uint8", "int16", "int32", "uint16"):
        q = rng.integers(0, 120, (2, 6)).astype(dtype)
        want = (q.astype("float32") - zp) * sc
        add("R.dequantize({x}, {s}, {z}, axis=-1)", {"x": q, "s": sc, "z": zp}, want, sym=sym, tol=0)
        add('R.dequantize({x}, {s}, {z}, axis=-1, out_dtype="float16")', {"x": q, "s": sc * 512, "z": zp}, np.clip(want * 512, -65504, 65504).astype("float16"), sym=sym, tol=0)
    row = np.float32([[0.5, 2]]).T
    add('R.dequantize({x}, {s}, R.const(1, "int8"), axis=0)', {"x": np.int8([[1, 2], [3, 4]]), "s": row[:, 0]}, (np.float32([[1, 2], [3, 4]]) - 1) * row, sym={"x": ("c", "n"), "s": ("c",)}, tol=0)
    return out


def indexing(Case):
    out = []
    add = lambda expr, ins, want, sym=None, **kw: out.append(Case("advanced", expr, ins, want, sym=sym, **kw))
    x = ints((4, 5, 3))
    i, j = np.int64([[0, -1], [3, 2]]), np.int32([1, -5])
    si = {"x": ("a", "b", "c"), "i": ("m", "n"), "j": ("n",), "v": (None, "n", "c")}
    add("R.index_tensor({x}, ({i},))", {"x": x, "i": i}, x[i], si)
    add("R.index_tensor({x}, ({i}, {j}))", {"x": x, "i": i, "j": j}, x[i, j], si)
    add("R.index_tensor({x}, ({i}, {j}, {j}))", {"x": x, "i": i, "j": np.int32([1, -1])}, x[i, np.int32([1, -1]), np.int32([1, -1])], si)
    add("R.index_tensor({x}, ({i},))", {"x": x, "i": np.int64([[9, -9]])}, x[[[3, 0]]], si)  # cut to the axis
    add("R.index_tensor({x}, ({i},))", {"x": x, "i": np.zeros((0, 2), "int64")}, x[np.zeros((0, 2), "int64")], si)
    v = ints((1, 2, 3))
    for dtype in ("float32", "int8", "float16", "int64"):
        y, w = x.astype(dtype), v.astype(dtype)
        put = y.copy()
        put[i, j] = np.broadcast_to(w, (2, 2, 3))
        add("R.index_put({x}, ({i}, {j}), {v})", {"x": y, "i": i, "j": j, "v": w}, put, si)
        put = y.copy()
        np.add.at(put, (np.int64([[0, 0], [3, 0]]), j), np.broadcast_to(w, (2, 2, 3)))
        add("R.index_put({x}, ({i}, {j}), {v}, accumulate=True)", {"x": y, "i": np.int64([[0, 0], [3, 0]]), "j": j, "v": w}, put, si)
    put = x.copy()
    put[[0, 1], [1, 1], [2, 2]] = 7
    add("R.index_put({x}, ({k}, {l}, {m}), {v})", {"x": x, "k": np.int64([0, 1]), "l": np.int64([1, 1]), "m": np.int64([2, 2]), "v": np.float32([7])}, put,
        {"x": ("a", "b", "c"), "k": ("n",), "l": ("n",), "m": ("n",), "v": (None,)})
    # sums down to a shape
    s = {"x": ("a", "b", "c")}
    for dtype in ("float32", "int32", "float16", "float64"):
        y = ints((4, 5, 3), dtype=dtype)
        add("R.collapse_sum_to({x}, ({b}, {c}))", {"x": y}, y.sum(0, dtype=dtype), s)
        add("R.collapse_sum_to({x}, ({b}, 1))", {"x": y}, y.sum((0, 2), dtype=dtype)[:, None], s)
        add("R.collapse_sum_to({x}, ({a}, 1, 1))", {"x": y}, y.sum((1, 2), keepdims=True, dtype=dtype), s)
        add("R.collapse_sum_to({x}, ({a}, {b}, {c}))", {"x": y}, y, s)
        add("R.collapse_sum_to({x}, ())", {"x": y}, y.sum(dtype=dtype), s)
        add("R.collapse_sum_like({x}, {t})", {"x": y, "t": np.zeros((1, 3), "float32")}, y.sum((0, 1), dtype=dtype)[None], {"x": ("a", "b", "c"), "t": (None, "c")})
    y = np.zeros((0, 3), "float32")
    add("R.collapse_sum_to({x}, (1, {b}))", {"x": y}, np.zeros((1, 3), "float32"), {"x": ("a", "b")})
    # layouts
    y = np.arange(4 * 5 * 3, dtype="float32").reshape(4, 5, 3)
    add("R.layout_transform({x}, index_map=lambda i, j, k: (k, i, j))", {"x": y}, y.transpose(2, 0, 1), s)
    z = np.arange(2 * 8, dtype="int32").reshape(2, 8)
    blocked = z.reshape(2, 2, 4).transpose(1, 0, 2)
    add("R.layout_transform({x}, index_map=lambda i, j: (j // 4, i, j % 4))", {"x": z}, blocked, {"x": ("a", "b")})
    z = np.arange(14, dtype="float32").reshape(2, 7)
    for pad, value in (("None", 0), ("9.0", 9)):
        want = np.full((2, 8), value, "float32")
        want[:, :7] = z
        add(f"R.layout_transform({{x}}, index_map=lambda i, j: (j // 4, i, j % 4), pad_value={pad})", {"x": z}, want.reshape(2, 2, 4).transpose(1, 0, 2), {"x": ("a", "b")})
    add("R.layout_transform({x}, index_map=lambda i, j: (i * 7 + j,))", {"x": z}, z.ravel(), {"x": ("a", None)})
    add("R.layout_transform({x}, index_map=lambda i, j: (i, 6 - j))", {"x": z}, z[:, ::-1], {"x": ("a", None)})
    return out


def data_dep(Case):
    out = []
    add = lambda expr, ins, want, sym=None, **kw: out.append(Case("data_dep", expr, ins, want, sym=sym, **kw))

    def by_appearance(x, axis=None):
        _, first, inv, cnt = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
        o = np.argsort(first, kind="stable")
        name = np.empty_like(o)
        name[o] = np.arange(len(o))
        return np.take(x.ravel() if axis is None else x, first[o], axis=0 if axis is None else axis), first[o], name[inv.ravel()], cnt[o]

    for x in (ints((5, 4)), ints((3, 2, 4), 0, 4, "int32"), ints((17,), 0, 5, "uint8"), ints((6,), 0, 2, "bool"), ints((9,), -3, 3, "float64"), ints((8,), 0, 3, "float16"),
              np.float32([]), np.float32([3]), np.float32([[1, np.nan], [np.nan, 1]])):
        v, i, inv, n = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        inv = inv.ravel()
        add("R.unique({x})", {"x": x}, v)
        add("R.unique({x}, return_index=True)", {"x": x}, (v, i))
        add("R.unique({x}, return_counts=True)", {"x": x}, (v, n))
        add("R.unique({x}, return_index=True, return_inverse=True, return_counts=True)", {"x": x}, (v, i, inv, n))
        add("R.unique({x}, sorted=False, return_index=True, return_inverse=True, return_counts=True)", {"x": x}, by_appearance(x))
    x = ints((6, 2, 3), 0, 2, "int32")
    for axis in (0, 1, -1):
        v, i, inv, n = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
        add(f"R.unique({{x}}, axis={axis})", {"x": x}, v)
        add(f"R.unique({{x}}, return_index=True, return_inverse=True, return_counts=True, axis={axis})", {"x": x}, (v, i, inv.ravel(), n))
        add(f"R.unique({{x}}, sorted=False, return_index=True, return_inverse=True, return_counts=True, axis={axis})", {"x": x}, by_appearance(x, axis))
    for x in (ints((3, 4), 0, 2), ints((2, 3, 2), 0, 2, "bool"), ints((7,), 0, 2, "int8"), np.zeros((0, 3), "float32"), np.zeros((4,), "int64"), np.float32([0.0, -0.0, np.nan, 1]),
              ints((3, 3), 0, 2, "float16"), np.ones((1, 1, 1), "uint8")):
        add("R.nonzero({x})", {"x": x}, np.stack(np.nonzero(x)).astype("int64"))
    # a result is used on
    x = ints((5, 4), 0, 3)
    add("R.multiply(R.unique({x}), R.unique({x}))", {"x": x}, np.unique(x) ** 2)
    add("R.sum(R.nonzero({x}), axis=[1])", {"x": x}, np.stack(np.nonzero(x)).sum(1))
    y = np.arange(6 * 5, dtype="float32").reshape(6, 5)
    s = {"x": ("n", "m"), "b": (None,), "e": (None,), "s": (None,)}
    for b, e, st in (((0, 0), (6, 5), (1, 1)), ((1, 2), (5, 4), (2, 1)), ((-2, -1), (-9, -9), (-1, -2)), ((5, 4), (0, 0), (-2, -3)), ((4, 0), (2, 5), (1, 1)),
                     ((-100, 1), (100, 100), (3, 2)), ((6, 0), (9, 1), (1, 1))):
        want = y[tuple(slice(p, q if not (k < 0 and q < -6) else None, k) for p, q, k in zip(b, e, st))]
        add("R.dynamic_strided_slice({x}, {b}, {e}, {s})", {"x": y, "b": np.int64(b), "e": np.int64(e), "s": np.int64(st)}, want, s)
    return out


def ref_grid_sample(x, g, method, mode, align):
    """ONNX's GridSample with the coordinates in axis 1, point by point."""
    n, c, *size = x.shape
    nd = len(size)
    out = np.zeros((n, c) + g.shape[2:], "float64")

    def mirror(v, d):
        lo, span = (0.0, d - 1.0) if align else (-0.5, float(d))
        if span <= 0:
            return 0.0
        far = abs(v - lo)
        extra, turns = far % span, int(far // span)
        return (extra if turns % 2 == 0 else span - extra) + lo

    def pad(v, d):
        if mode == "reflection":
            v = mirror(v, d)
        return min(max(v, 0.0), d - 1.0) if mode != "zeros" else v

    def pixel(b, at):
        inside = all(0 <= i < d for i, d in zip(at, size))
        return x[(b, slice(None)) + tuple(at)].astype("float64") if inside else np.zeros(c)

    def weights(t):
        a = -0.75
        inner = lambda v: ((a + 2) * v - (a + 3)) * v * v + 1
        outer = lambda v: ((a * v - 5 * a) * v + 8 * a) * v - 4 * a
        return [outer(t + 1), inner(t), inner(1 - t), outer(2 - t)]

    for b in range(n):
        for o in np.ndindex(*g.shape[2:]):
            v = [float(g[(b, nd - 1 - i) + o]) for i in range(nd)]
            p = [(q + 1) * (d - 1) / 2 if align else ((q + 1) * d - 1) / 2 for q, d in zip(v, size)]
            if method != "bicubic":
                p = [pad(q, d) for q, d in zip(p, size)]
            low = [int(np.floor(q)) for q in p]
            total = np.zeros(c)
            if method == "nearest":
                total = pixel(b, [int(np.round(q)) for q in p])
            elif method == "bilinear":
                for k in np.ndindex(*(2,) * nd):
                    w = np.prod([q - l if i else 1 - (q - l) for i, q, l in zip(k, p, low)])
                    total = total + w * pixel(b, [l + i for l, i in zip(low, k)])
            else:
                w = [weights(q - l) for q, l in zip(p, low)]
                for k in np.ndindex(4, 4):
                    at = [int(pad(float(l - 1 + i), d)) for l, i, d in zip(low, k, size)]
                    total = total + w[0][k[0]] * w[1][k[1]] * pixel(b, at)
            out[(b, slice(None)) + o] = total
    return out.astype(x.dtype)


def sample(Case):
    out = []
    add = lambda expr, ins, want, sym=None, tol=2e-5, **kw: out.append(Case("sample", expr, ins, want, sym=sym, tol=tol, **kw))
    x, g = ints((2, 3, 4, 5)), (rng.random((2, 2, 3, 2)) * 3.2 - 1.6).astype("float32")
    s = {"x": ("n", "c", "h", "w"), "g": ("n", None, "p", "q")}
    for method in ("nearest", "bilinear", "bicubic"):
        for mode in ("zeros", "border", "reflection"):
            for align in (False, True):
                attrs = f'method="{method}", padding_mode="{mode}", align_corners={align}'
                add(f"R.image.grid_sample({{x}}, {{g}}, {attrs})", {"x": x, "g": g}, ref_grid_sample(x, g, method, mode, align), s, tol=2e-4)
    far = np.float32([[[[1e30, -np.inf]], [[0, 0]]]])
    add("R.image.grid_sample({x}, {g})", {"x": x[:1], "g": far}, np.zeros((1, 3, 1, 2), "float32"), {"x": ("n", "c", "h", "w"), "g": ("n", None, "p", "q")})
    x, g = ints((1, 2, 3, 4, 2)), (rng.random((1, 3, 2, 2, 3)) * 2.4 - 1.2).astype("float32")
    s = {"x": ("n", "c", "d", "h", "w"), "g": ("n", None, "o", "p", "q")}
    for method in ("nearest", "bilinear"):
        for mode in ("zeros", "border", "reflection"):
            add(f'R.image.grid_sample({{x}}, {{g}}, method="{method}", layout="NCDHW", padding_mode="{mode}")', {"x": x, "g": g}, ref_grid_sample(x, g, method, mode, False), s, tol=2e-4)
    for dtype in ("float32", "float64", "float16"):
        for size in ((3, 4), (1, 5), (2, 3, 4)):
            nd = len(size)
            theta = ints((2, nd, nd + 1), -3, 4, dtype)
            for align in (True, False):
                axes = [(np.linspace(-1, 1, d) if d > 1 else np.zeros(1)) if align else (2 * np.arange(d) + 1) / d - 1 for d in size]
                pos = np.stack(list(np.meshgrid(*axes, indexing="ij"))[::-1] + [np.ones(size)])
                want = np.einsum("nij,j...->ni...", theta.astype("float64"), pos).astype(dtype)
                add(f"R.image.affine_grid({{t}}, {size}, align_corners={align})", {"t": theta}, want, {"t": ("n", None, None)}, tol=2e-3 if dtype == "float16" else 1e-5)
    for size in (1, 2, 10):
        for whole in (False, True):
            want = (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(size) / (size if whole else max(size - 1, 1)))) if size > 1 else np.ones(1)
            for dtype in ("float32", "float64", "float16"):
                add(f'R.hamming_window({size}, {whole}, 0.54, 0.46, "{dtype}")', {}, want.astype(dtype), tol=1e-3 if dtype == "float16" else 1e-6)
    return out


def grad(Case):
    out = []
    add = lambda expr, ins, want, sym=None, tol=1e-5, **kw: out.append(Case("grad", expr, ins, want, sym=sym, tol=tol, **kw))
    x = ints((2, 3))
    for name in ("no_grad", "start_checkpoint", "end_checkpoint"):
        add(f"R.grad.{name}({{x}})", {"x": x}, x)
    x, i = ints((5, 3)), np.int64([[1, 1], [4, 0]])
    for axis, n in ((0, 5), (1, 3)):
        j = np.minimum(i, n - 1)
        og = np.take(x, j, axis)
        g = ints(og.shape)
        want = np.zeros_like(x)
        for k in np.ndindex(*g.shape):
            at = k[:axis] + (j[k[axis:axis + 2]],) + k[axis + 2:]
            want[at] += g[k]
        dims = ("n", "m")
        s = {"x": dims, "i": ("p", "q"), "g": dims[:axis] + ("p", "q") + dims[axis + 1:]}
        for dtype in ("float32", "float16", "float64"):
            add(f"R.grad.take_backward({{g}}, {{x}}, {{i}}, axis={axis})", {"g": g.astype(dtype), "x": x.astype(dtype), "i": i}, want.astype(dtype), s)
    for k, st, pad, dil, count in (((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False), ((3, 2), (1, 2), (1, 0, 1, 1), (1, 1), True), ((3, 3), (2, 1), (1, 1, 1, 1), (1, 1), False), ((2, 2), (1, 1), (0, 0, 0, 0), (2, 1), False)):
        x = ints((2, 2, 6, 5))
        oh = (6 + pad[0] + pad[2] - dil[0] * (k[0] - 1) - 1) // st[0] + 1
        ow = (5 + pad[1] + pad[3] - dil[1] * (k[1] - 1) - 1) // st[1] + 1
        g = ints((2, 2, oh, ow))
        most, mean = np.zeros((2, 2, 6, 5)), np.zeros((2, 2, 6, 5))
        for n, c, h, w in np.ndindex(*g.shape):
            taps = [(h * st[0] - pad[0] + a * dil[0], w * st[1] - pad[1] + b * dil[1]) for a in range(k[0]) for b in range(k[1])]
            good = [t for t in taps if 0 <= t[0] < 6 and 0 <= t[1] < 5]
            best = max(good, key=lambda t: x[(n, c) + t])
            most[(n, c) + best] += g[n, c, h, w]
            for t in good:
                mean[(n, c) + t] += g[n, c, h, w] / (len(taps) if count else len(good))
        attrs = f"pool_size={k}, strides={st}, padding={pad}, dilation={dil}, count_include_pad={count}"
        s = {"g": ("n", "c", None, None), "x": ("n", "c", None, None)}
        for dtype in ("float32", "float16"):
            ins = {"g": g.astype(dtype), "x": x.astype(dtype)}
            add(f"R.grad.max_pool2d_backward({{g}}, {{x}}, {attrs})", ins, most.astype(dtype), s)
            add(f"R.grad.avg_pool2d_backward({{g}}, {{x}}, {attrs})", ins, mean.astype(dtype), s, tol=1e-5 if dtype == "float32" else 2e-3)
    return out


def iou_of(a, b):
    lo, hi = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    lo2, hi2 = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    cut = np.prod(np.maximum(0, np.minimum(hi, hi2) - np.maximum(lo, lo2)))
    both = np.prod(hi - lo) + np.prod(hi2 - lo2) - cut
    return cut / both if both > 0 else 0.0


def ref_nms(x, valid, names, top, iou, force, top_k, cls, sigma, least):
    """Boxes (class, score, x1, y1, x2, y2): rows in the order chosen with final scores, and positions."""
    rows, order = [], []
    for b in range(len(x)):
        n = int(valid[b])
        place = np.argsort(-x[b, :n, 1], kind="stable")[:top_k if top_k > 0 else n]
        pool = [(x[b, i].astype("float64").copy(), int(i)) for i in place]
        picked, seq = [], []
        while pool and (top <= 0 or len(picked) < top):
            best = max(range(len(pool)), key=lambda k: (pool[k][0][1], -k)) if sigma else 0
            row, i = pool.pop(best)
            if row[1] <= (least if sigma else 0):
                continue
            picked.append(row)
            seq.append(i)
            rest = []
            for r, k in pool:
                same = force or cls < 0 or row[cls] == r[cls]
                v = iou_of(row[2:6], r[2:6]) if same else 0.0
                if same and v >= iou:
                    continue
                if sigma and same:
                    r[1] *= np.exp(-v * v / (2 * sigma))
                    if r[1] <= least:
                        continue
                rest.append((r, k))
            pool = rest
        rows.append(picked)
        order.append([int(names[b][i]) for i in seq])
    return rows, order


def ref_roi(x, rois, size, scale, ratio, aligned, mode, pool):
    n, c, h, w = x.shape
    out = np.zeros((len(rois), c) + size)
    for r, roi in enumerate(rois.astype("float64")):
        img = x[int(roi[0])].astype("float64")
        x1, y1, x2, y2 = roi[1:] * scale
        if pool:
            x1, y1, x2, y2 = (int(np.floor(v + 0.5)) for v in (x1, y1, x2, y2))
            bh, bw = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
        else:
            rh, rw = y2 - y1, x2 - x1
            if not aligned:
                rh, rw = max(rh, 1.0), max(rw, 1.0)
            bh, bw = rh / size[0], rw / size[1]
        for p in np.ndindex(*size):
            if pool:
                a = [min(max(int(np.floor(p[0] * bh)) + y1, 0), h), min(max(int(np.ceil((p[0] + 1) * bh)) + y1, 0), h)]
                b = [min(max(int(np.floor(p[1] * bw)) + x1, 0), w), min(max(int(np.ceil((p[1] + 1) * bw)) + x1, 0), w)]
                part = img[:, a[0]:a[1], b[0]:b[1]]
                out[(r, slice(None)) + p] = part.max((1, 2)) if part.size else 0
                continue
            gh, gw = (ratio, ratio) if ratio > 0 else (int(np.ceil(bh)), int(np.ceil(bw)))
            vals = []
            for i in range(gh):
                for j in range(gw):
                    y, z = y1 + p[0] * bh + (i + 0.5) * bh / gh, x1 + p[1] * bw + (j + 0.5) * bw / gw
                    if y < -1 or z < -1 or y > h or z > w:
                        vals.append(np.zeros(c))
                        continue
                    y, z = min(max(y, 0), h - 1), min(max(z, 0), w - 1)
                    y0, z0 = int(y), int(z)
                    yh, zh = min(y0 + 1, h - 1), min(z0 + 1, w - 1)
                    fy, fz = y - y0, z - z0
                    vals.append((img[:, y0, z0] * (1 - fz) + img[:, y0, zh] * fz) * (1 - fy) + (img[:, yh, z0] * (1 - fz) + img[:, yh, zh] * fz) * fy)
            out[(r, slice(None)) + p] = np.mean(vals, 0) if mode == "avg" else np.max(vals, 0)
    return out.astype(x.dtype)


def vision(Case):
    out = []
    add = lambda expr, ins, want, sym=None, tol=2e-5, **kw: out.append(Case("vision", expr, ins, want, sym=sym, tol=tol, **kw))
    x = ints((2, 3, 7, 8))
    rois = np.float32([[0, 0, 0, 6, 5], [1, 2.3, 1.1, 9.7, 14.2], [1, 3, 3, 3, 3], [0, -4, -5, 2, 2], [1, 40, 40, 50, 50]])
    s = {"x": ("n", "c", "h", "w"), "r": ("k", None)}
    last = {"x": ("n", "h", "w", "c"), "r": ("k", None)}
    for size in ((2, 3), (1, 1)):
        for scale in (1.0, 0.5):
            want = ref_roi(x, rois, size, scale, 0, False, "max", True)
            add(f"R.vision.roi_pool({{x}}, {{r}}, pooled_size={size}, spatial_scale={scale})", {"x": x, "r": rois}, want, s)
            for ratio, aligned, mode in ((2, False, "avg"), (-1, False, "avg"), (3, True, "max"), (1, False, "max")):
                want = ref_roi(x, rois, size, scale, ratio, aligned, mode, False)
                attrs = f'pooled_size={size}, spatial_scale={scale}, sample_ratio={ratio}, aligned={aligned}, mode="{mode}"'
                add(f"R.vision.roi_align({{x}}, {{r}}, {attrs})", {"x": x, "r": rois}, want, s, tol=1e-4)
                add(f'R.vision.roi_align({{x}}, {{r}}, {attrs}, layout="NHWC")', {"x": np.ascontiguousarray(x.transpose(0, 2, 3, 1)), "r": rois}, want.transpose(0, 2, 3, 1), last, tol=1e-4)
    # boxes from anchors
    cls, loc = rng.standard_normal((2, 3, 4)).astype("float32"), rng.standard_normal((2, 16)).astype("float32")
    anchor = np.sort(rng.random((1, 4, 2, 2)), 2).reshape(1, 4, 4).astype("float32")
    for clip, th, keep, soft in ((False, 0.0, True, True), (True, 0.3, False, True), (False, 0.1, True, False)):
        a, l = anchor[0].astype("float64"), loc.reshape(2, 4, 4).astype("float64")
        var = (0.1, 0.2, 0.3, 0.4)
        size, mid = a[:, 2:] - a[:, :2], (a[:, 2:] + a[:, :2]) / 2
        ctr, reach = l[..., :2] * var[:2] * size + mid, np.exp(l[..., 2:] * var[2:]) * size / 2
        box = np.concatenate([(ctr - reach)[..., ::-1], (ctr + reach)[..., ::-1]], -1)
        e = np.exp(cls.astype("float64"))
        sc = e / e.sum(1, keepdims=True) if soft else cls.astype("float64")
        sc = np.where(sc >= th, sc, 0)
        if not keep:
            sc[:, 0] = 0
        attrs = f"clip={clip}, threshold={th}, variances=[0.1, 0.2, 0.3, 0.4], keep_background={keep}, apply_softmax={soft}"
        add(f"R.vision.multibox_transform_loc({{c}}, {{l}}, {{a}}, {attrs})", {"c": cls, "l": loc, "a": anchor}, ((np.clip(box, 0, 1) if clip else box).astype("float32"), sc.astype("float32")), {"c": ("b", "k", None), "l": ("b", None), "a": (None, None, None)})
    # suppression
    n = 12
    xy = rng.integers(0, 12, (2, n, 2))
    boxes = np.concatenate([rng.integers(0, 2, (2, n, 1)), rng.permutation(2 * n).reshape(2, n, 1) / 25 - 0.1, xy, xy + rng.integers(3, 9, (2, n, 2))], 2).astype("float32")
    for th in (0.0, 0.3):
        good = boxes[..., 1] > np.float32(th)
        cnt = good.sum(1).astype("int32")
        top, pos = np.full_like(boxes, -1), np.full((2, n), -1, "int32")
        for b in range(2):
            top[b, :cnt[b]], pos[b, :cnt[b]] = boxes[b, good[b]], np.flatnonzero(good[b])
        add(f"R.vision.get_valid_counts({{x}}, score_threshold={th})", {"x": boxes}, (cnt, top, pos), tol=0)
    s = {"x": ("b", "n", None), "v": ("b",), "i": ("b", "n")}
    ins = {"x": top, "v": cnt, "i": pos}
    for mx, iou, force, tk, cid in ((-1, 0.5, False, -1, 0), (3, 0.3, True, -1, 0), (-1, 0.2, False, 5, 0), (-1, 0.4, False, -1, -1)):
        attrs = f"max_output_size={mx}, iou_threshold={iou}, force_suppress={force}, top_k={tk}, id_index={cid}"
        rows, seq = ref_nms(top, cnt, pos, mx, iou, force, tk, cid, 0, 0)
        want, num = np.full((2, n), -1, "int32"), np.int32([[len(q)] for q in seq])
        data = np.full_like(top, -1)
        for b in range(2):
            want[b, :len(seq[b])] = seq[b]
            data[b, :len(seq[b])] = rows[b]
        add(f"R.vision.non_max_suppression({{x}}, {{v}}, {{i}}, {attrs})", ins, (want, num), s, tol=0)
        add(f"R.vision.non_max_suppression({{x}}, {{v}}, {{i}}, {attrs}, return_indices=False, invalid_to_bottom=True)", ins, data, s, tol=0)
        rows, seq = ref_nms(top, cnt, pos, mx, iou, force, tk, cid, 0.5, 0.1)
        want, num, data = np.full((2, n), -1, "int32"), np.int32([[len(q)] for q in seq]), np.full_like(top, -1)
        for b in range(2):
            want[b, :len(seq[b])] = seq[b]
            data[b, :len(seq[b])] = rows[b]
        add(f"R.vision.non_max_suppression({{x}}, {{v}}, {{i}}, {attrs}, soft_nms_sigma=0.5, score_threshold=0.1)", ins, (data, want, num), s, tol=1e-5)
    b4, sc = boxes[..., 2:], rng.permutation(2 * 3 * n).reshape(2, 3, n).astype("float32") / 80
    s = {"b": ("b", "n", None), "s": ("b", "c", "n")}
    for mx, iou, th in ((3, 0.5, 0.0), (100, 0.2, 0.4), (0, 0.5, 0.1), (5, 0.0, 0.0)):
        picks = []
        for i, c in np.ndindex(2, 3):
            left = [k for k in np.argsort(-sc[i, c], kind="stable") if sc[i, c, k] > np.float32(th)]
            got = []
            while left and len(got) < mx:
                k = left.pop(0)
                got.append((i, c, k))
                left = [m for m in left if not (iou_of(b4[i, k], b4[i, m]) >= iou and iou_of(b4[i, k], b4[i, m]) > 0)]
            picks += got
        flat = np.zeros((2 * 3 * n, 3), "int64")
        flat[:len(picks)] = np.array(picks, "int64").reshape(-1, 3)
        call = f'R.vision.all_class_non_max_suppression({{b}}, {{s}}, R.const({mx}, "int64"), R.const({iou}, "float32"), R.const({th}, "float32")'
        add(call + ")", {"b": b4, "s": sc}, (flat, np.int64([len(picks)])), s, tol=0)
        ind, score, num = np.zeros((2, 3 * n, 2), "int64"), np.zeros((2, 3 * n), "float32"), np.zeros(2, "int64")
        for i, c, k in picks:
            ind[i, num[i]], score[i, num[i]] = (c, k), sc[i, c, k]
            num[i] += 1
        add(call + ', output_format="tensorflow")', {"b": b4, "s": sc}, (ind, score, num), s, tol=0)
    return out


def build(Case):
    return vision(Case) + (sort(Case) + einsum(Case) + loss(Case) + indexing(Case) + data_dep(Case) + sample(Case)
            + grad(Case))
