"""Specimens of operators that move, select, order and look up elements, and of those that build on them
(see run_dtypes.py). Expected values from NumPy, or from plain loops after the operators' definitions."""
import numpy as np

from dtypes import FLOATS, INTS, Tensor


def shape(g):
    x, nm = g.x((4, 6, 5)), {"x": ("n", "m", "k")}
    v = x.values
    first = {"x": ("n", None, None)}
    yield "reshape", "R.reshape({x}, ({n}, 30))", {"x": x}, g.t(v.reshape(4, 30)), 0, first
    yield "reshape", "R.reshape({x}, (-1, 10))", {"x": x}, g.t(v.reshape(12, 10)), 0, first
    yield "reshape", "R.reshape({x}, (1, 1))", {"x": g.t(1)}, g.t([[1]]), 0
    yield "flatten", "R.flatten({x})", {"x": x}, g.t(v.ravel()), 0, nm
    yield "nn.batch_flatten", "R.nn.batch_flatten({x})", {"x": x}, g.t(v.reshape(4, 30)), 0, nm
    yield "permute_dims", "R.permute_dims({x}, [1, -1, 0])", {"x": x}, g.t(v.transpose(1, 2, 0)), 0
    big = g.x((2, 1, 2, 1, 3, 1, 2, 1, 2))
    yield "permute_dims", "R.permute_dims({x})", {"x": big}, g.t(big.values.T), 0
    yield "expand_dims", "R.expand_dims({x}, [1, -1])", {"x": x}, g.t(v[:, None, ..., None]), 0, nm
    y = g.x((1, 4, 1))
    yield "squeeze", "R.squeeze({x}, [0, -1])", {"x": y}, g.t(y.values.reshape(4)), 0, {"x": (None, "n", None)}
    y = g.x((3, 1))
    yield "broadcast_to", "R.broadcast_to({x}, (2, {n}, 4))", {"x": y}, g.t(np.broadcast_to(y.values, (2, 3, 4))), 0, {"x": ("n", None)}
    yield "broadcast_to", "R.broadcast_to({x}, (2, 0))", {"x": g.x(())}, g.t(np.zeros((2, 0))), 0
    yield "tile", "R.tile({x}, (2, 1, 3))", {"x": x}, g.t(np.tile(v, (2, 1, 3))), 0, nm
    yield "repeat", "R.repeat({x}, 3, axis=1)", {"x": x}, g.t(np.repeat(v, 3, axis=1)), 0, nm
    yield "flip", "R.flip({x}, axis=-2)", {"x": x}, g.t(np.flip(v, -2)), 0, nm
    a, b = g.x((2, 3)), g.x((4, 3))
    z = g.x((0, 3))
    yield "concat", "R.concat(({a}, {z}, {b}), axis=-2)", {"a": a, "z": z, "b": b}, g.t(np.concatenate([a.values, b.values])), 0, {"a": ("n", "m"), "z": ("z", "m"), "b": ("k", "m")}
    yield "stack", "R.stack(({a}, {b}), axis=-1)", {"a": a, "b": g.t(a.values[::-1])}, g.t(np.stack([a.values, a.values[::-1]], -1)), 0
    yield "split", "R.split({x}, 3, axis=0)", {"x": x}, (g.t(v[:2]), g.t(v[2:4]), g.t(v[4:])), 0, nm
    yield "split", "R.split({x}, [1, 3], axis=-1)", {"x": x}, (g.t(v[..., :1]), g.t(v[..., 1:3]), g.t(v[..., 3:])), 0, nm
    yield "size", "R.size({x})", {"x": x}, np.int64(120), 0, nm
    yield "shape_of", "R.shape_to_tensor(R.shape_of({x}))", {"x": x}, np.int64([4, 6, 5]), 0, nm
    if g.dtype == "int64":
        yield "shape_to_tensor", "R.shape_to_tensor(R.shape([{n}, {m} * 2]))", {"x": g.x((3, 4))}, np.int64([3, 8]), 0, {"x": ("n", "m")}
    p = g.x((2, 8, 3, 2))
    want = p.values.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 4)
    yield "nn.pixel_shuffle", "R.nn.pixel_shuffle({x}, 2)", {"x": p}, g.t(want), 0, {"x": ("n", None, "h", "w")}
    y = g.x((4, 5))
    for mode, name in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        kw = {"constant_values": 1} if mode == "constant" else {}
        yield "nn.pad", f'R.nn.pad({{x}}, (1, 2, 0, 3), pad_mode="{mode}", pad_value=1.0)', {"x": y}, g.t(np.pad(y.values, ((1, 2), (0, 3)), name, **kw)), 0
    m = g.t(np.arange(14) % 5).values.reshape(2, 7)
    want = np.zeros((2, 8), m.dtype)
    want[:, :7] = m
    yield "layout_transform", "R.layout_transform({x}, index_map=lambda i, j: (j // 4, i, j % 4))", {"x": g.t(m)}, g.t(want.reshape(2, 2, 4).transpose(1, 0, 2)), 0, {"x": ("a", "b")}
    i, j = g.x((3,)), g.x((2,))
    for order in ("ij", "xy"):
        want = tuple(g.t(w) for w in np.meshgrid(i.values, j.values, indexing=order))
        yield "meshgrid", f'R.meshgrid(({{a}}, {{b}}), indexing="{order}")', {"a": i, "b": j}, want, 0, {"a": ("n",), "b": ("m",)}


CODES = {"float64": (2, 64), "float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16), "float8_e4m3fn": (10, 8),
         "float8_e5m2": (12, 8), "bool": (6, 8)}


def inspect(g):
    x = g.x((4, 6, 5))
    code, bits = CODES.get(g.dtype) or (int(g.dtype[0] == "u"), np.iinfo(g.dtype).bits)
    for name, want in (("ndim", np.int32(3)), ("dtype_code", np.uint8(code)), ("dtype_bits", np.uint8(bits)),
                       ("dtype_lanes", np.uint16(1)), ("byte_offset", np.uint64(0)), ("elem_offset", np.uint64(0))):
        yield f"inspect.tensor_{name}", f"R.inspect.tensor_{name}({{x}})", {"x": x}, want, 0
    yield "inspect.tensor_shape_i", "R.inspect.tensor_shape_i({x}, 1)", {"x": x}, np.int64(6), 0
    yield "inspect.tensor_stride_i", "R.inspect.tensor_stride_i({x}, 0)", {"x": x}, np.int64(30), 0


def inner(g):
    """The operators that composites of data_dep.c consist of."""
    x = g.x((6, 2), 0, 1)
    v = x.values
    flat = np.flatnonzero(v)
    n = len(flat)
    positions = np.zeros(12, "int64")
    positions[:n] = flat
    yield "relaxc.head", "R.relaxc.head({x}, R.shape([2]))", {"x": x}, g.t(v[:2]), 0
    yield "relaxc.nonzero_positions", "R.sum(R.relaxc.nonzero_positions({x})[1])", {"x": x}, np.int64(n), 0
    yield "relaxc.nonzero_coordinates", f"R.relaxc.nonzero_coordinates({{x}}, {{p}}, R.shape([{n}]))", {"x": x, "p": positions}, np.stack(np.nonzero(v)).astype("int64"), 0, {"x": ("n", "m")}
    yield "relaxc.unique_groups", "R.sum(R.relaxc.unique_groups({x}, axis=0, sorted=True)[3])", {"x": x}, np.int64(len(np.unique(v, axis=0))), 0
    b, e, s = np.int64([5, 0]), np.int64([0, 2]), np.int64([-2, 1])
    bounds = {"x": x, "b": b, "e": e, "s": s}
    yield "relaxc.slice", "R.relaxc.slice({x}, {b}, {e}, {s}, R.shape([3, 2]))", bounds, g.t(v[5:0:-2]), 0, {"x": ("n", "m")}
    yield "relaxc.slice_lengths", "R.relaxc.slice_lengths({x}, {b}, {e}, {s})", bounds, np.int64([3, 2]), 0, {"x": ("n", "m")}
    if g.dtype in INTS:
        yield "tensor_to_shape", "R.shape_to_tensor(R.tensor_to_shape({x}))", {"x": g.t([3, 4])}, np.int64([3, 4]), 0, {}


def index(g):
    x = g.x((6, 5))
    v, nm = x.values, {"x": ("n", "m")}
    for b, e, s in ((-3, 100, 1), (100, -100, -2), (4, 1, 1)):
        yield "strided_slice", f"R.strided_slice({{x}}, (0,), ({b},), ({e},), ({s},))", {"x": x}, g.t(v[b:e:s]), 0, nm
    t = {"x": ("n", "m"), "i": ("k",)}
    far = np.int64([-2, 0, 7, 100])
    yield "take", "R.take({x}, {i}, axis=0)", {"x": x, "i": far}, g.t(v[np.clip(np.where(far < 0, far + 6, far), 0, 5)]), 0, t
    yield "take", 'R.take({x}, {i}, axis=-1, mode="wrap")', {"x": x, "i": far}, g.t(v[:, far % 5]), 0, t
    if g.dtype in FLOATS:
        w = v[[0, 0, 5, 5]].astype("float64")
        w[[0, 2, 3]] = np.nan
        yield "take", 'R.take({x}, {i}, axis=0, mode="nan")', {"x": x, "i": far}, g.t(w), 0, t
    j = np.int64([[0, 3], [2, -1], [1, 1], [3, 0], [5, -6]])
    yield "gather_elements", "R.gather_elements({x}, {i}, axis=0)", {"x": g.t(v[:, :2]), "i": j}, g.t(np.take_along_axis(v[:, :2], j, 0)), 0, {"x": ("n", "m"), "i": ("k", "m")}
    y = g.x((3, 4, 2))
    p = np.int64([[0, 1], [2, 3], [-1, 0]])
    s3 = {"x": ("a", "b", "c"), "i": ("k", None), "v": ("k", "c")}
    yield "gather_nd", "R.gather_nd({x}, {i})", {"x": y, "i": p}, g.t(y.values[p[:, 0], p[:, 1]]), 0, s3
    yield "index_tensor", "R.index_tensor({x}, ({i}, {j}))", {"x": y, "i": p[:, 0], "j": p[:, 1]}, g.t(y.values[p[:, 0], p[:, 1]]), 0, {"x": ("a", "b", "c"), "i": ("k",), "j": ("k",)}
    u = g.x((2, 5), -2, 2)
    k = np.int64([[0, 1, 2, 3, 0], [3, 1, -1, 0, 0]])
    combine = {"update": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}
    if g.dtype == "bool":
        combine.update(add=lambda a, b: a | b, mul=lambda a, b: a & b)
    for how, fn in combine.items():
        w = x.wide().copy()
        for at in np.ndindex(2, 5):
            w[k[at], at[1]] = fn(w[k[at], at[1]], u.wide()[at])
        yield "scatter_elements", f'R.scatter_elements({{x}}, {{i}}, {{u}}, axis=0, reduction="{how}")', {"x": x, "i": k, "u": u}, g.out(w), 0, {"x": ("n", "m"), "i": ("k", "m"), "u": ("k", "m")}
        w, q = y.wide().copy(), g.x((3, 2), -2, 2)
        for r in range(3):
            for c in range(2):
                w[p[r, 0], p[r, 1], c] = fn(w[p[r, 0], p[r, 1], c], q.wide()[r, c])
        yield "scatter_nd", f'R.scatter_nd({{x}}, {{i}}, {{v}}, reduction="{how}")', {"x": y, "i": p, "v": q}, g.out(w), 0, s3
    for add in (False, True):
        w, q = y.wide().copy(), g.x((3, 2), -2, 2)
        for r in range(3):
            at = (p[r, 0], p[r, 1])
            w[at] = (w[at] | q.wide()[r] if g.dtype == "bool" else w[at] + q.wide()[r]) if add else q.wide()[r]
        yield "index_put", f"R.index_put({{x}}, ({{i}}, {{j}}), {{v}}, accumulate={add})", {"x": y, "i": p[:, 0], "j": p[:, 1], "v": q}, g.out(w), 0, {"x": ("a", "b", "c"), "i": ("k",), "j": ("k",), "v": ("k", "c")}
    w = v.copy()
    src = g.x((2, 5))
    w[1:5:2] = src.values
    yield "slice_scatter", "R.slice_scatter({x}, {v}, 1, 5, 2)", {"x": x, "v": src}, g.t(w), 0
    n, w = np.int32([2, 4, 0, 1, 5, 3]), v.copy()
    for r, l in enumerate(n):
        w[r, :l] = v[r, :l][::-1]
    yield "reverse_sequence", "R.reverse_sequence({x}, {l}, seq_axis=1, batch_axis=0)", {"x": x, "l": n}, g.t(w), 0, {"x": ("n", "m"), "l": ("n",)}
    if g.dtype != "bool":
        e, og = g.x((5, 3)), g.x((2, 3))
        i = np.int64([4, 4])
        w = np.zeros((5, 3), object)
        np.add.at(w, i, og.wide())
        yield "grad.take_backward", "R.grad.take_backward({g}, {x}, {i}, axis=0)", {"g": og, "x": e, "i": i}, g.out(w), 0, {"x": ("n", "m"), "i": ("k",), "g": ("k", "m")}


def order(x, axis, down=False):
    """Stable; NaN counts as greatest."""
    n = x.shape[axis]
    key = x if x.dtype.kind != "b" else x.astype(np.int8)
    if not down:
        return np.argsort(key, axis, kind="stable")
    back = np.argsort(np.flip(key, axis), axis, kind="stable")
    return np.flip(n - 1 - back, axis)


def sort(g):
    x = g.x((4, 7, 3), -2, 2)
    rows = [(x, 1), (g.special(), -1), (g.x((0, 3)), 0), (g.x((1,)), 0)]
    if g.dtype in FLOATS:
        rows.append((g.t(np.concatenate([g.special().values, g.special().values[::-1]])), 0))
    for y, axis in rows:
        v = y.values
        for down in (False, True):
            p = order(v, axis, down)
            yield "sort", f"R.sort({{x}}, axis={axis}, descending={down})", {"x": y}, g.t(np.take_along_axis(v, p, axis)), 0
            yield "argsort", f"R.argsort({{x}}, axis={axis}, descending={down})", {"x": y}, p.astype("int32"), 0
    for k, largest in ((2, True), (3, False), (7, True)):
        p = np.take(order(x.values, 1, largest), np.arange(k), 1)
        yield "topk", f"R.topk({{x}}, k={k}, axis=1, largest={largest})", {"x": x}, (g.t(np.take_along_axis(x.values, p, 1)), p.astype("int32")), 0, {"x": ("n", None, "m")}
    p = np.take(order(x.values, 1), [3], 1)
    yield "median", "R.median({x}, axis=1, keepdims=True)", {"x": x}, (g.t(np.take_along_axis(x.values, p, 1)), p.astype("int64")), 0
    yield "median", "R.median({x})", {"x": x}, g.t(np.sort(x.values.ravel())[(x.values.size - 1) // 2]), 0
    if g.dtype in FLOATS:
        p = g.t([[0.25, 0.25, 0.5], [0.0, 1.0, 0.0]])
        u = g.t([[0.0], [0.375], [0.875], [0.5]])
        r = np.int64([[0], [0], [0], [1]])
        yield "multinomial_from_uniform", 'R.multinomial_from_uniform({p}, {u}, {r}, dtype="int64")', {"p": p, "u": u, "r": r}, np.int64([[0], [1], [2], [1]]), 0, {"u": ("n", None), "r": ("n", None), "p": ("b", "c")}


def data_dep(g):
    for x in (g.x((3, 5), -2, 2), g.x((0, 2)), g.special()):
        v = x.values
        u, i, inv, n = np.unique(v, return_index=True, return_inverse=True, return_counts=True)
        yield "unique", "R.unique({x}, return_index=True, return_inverse=True, return_counts=True)", {"x": x}, (g.t(u), i, inv.ravel(), n), 0
        at = np.stack(np.nonzero(v)).astype("int64")
        yield "nonzero", "R.nonzero({x})", {"x": x}, at, 0
    x = g.x((6, 5))
    for b, e, s in (((1, 2), (5, 4), (2, 1)), ((-2, -1), (-9, -9), (-1, -2)), ((4, 0), (2, 5), (1, 1))):
        want = x.values[tuple(slice(p, q if not (k < 0 and q < -6) else None, k) for p, q, k in zip(b, e, s))]
        yield "dynamic_strided_slice", "R.dynamic_strided_slice({x}, {b}, {e}, {s})", {"x": x, "b": np.int64(b), "e": np.int64(e), "s": np.int64(s)}, g.t(want), 0, {"x": ("n", "m"), "b": (None,), "e": (None,), "s": (None,)}


GROUPS = {"shape": shape, "inspect": inspect, "inner": inner, "index": index, "sort": sort, "data_dep": data_dep}
