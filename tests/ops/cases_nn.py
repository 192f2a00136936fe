"""Neural-network operators. Values from plain NumPy loops written after the operators' definitions."""
import itertools
import math
import re

import numpy as np

rng = np.random.default_rng(13)
TOL = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}


def real(shape, dtype="float32", lo=-2.0, hi=2.0):
    return rng.uniform(lo, hi, shape).astype(dtype)


def rounded(fn, *args):
    with np.errstate(all="ignore"):
        return fn(*(a.astype("float64") for a in args)).astype(args[0].dtype)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normalise(x, axes, eps):
    axes = tuple(axes)
    m = x.mean(axis=axes, keepdims=True)
    v = ((x - m) ** 2).mean(axis=axes, keepdims=True)
    return (x - m) / np.sqrt(v + eps)


def basic(Case):
    out = []
    for dtype in ("float32", "float64", "float16"):
        x = real((3, 4, 7), dtype, -5, 5)
        for axis in (-1, 1, 0):
            out.append(Case("nn", f"R.nn.softmax({{x}}, axis={axis})", {"x": x}, rounded(lambda v: softmax(v, axis), x), TOL[dtype]))
            out.append(Case("nn", f"R.nn.log_softmax({{x}}, axis={axis})", {"x": x}, rounded(lambda v: np.log(softmax(v, axis)), x), TOL[dtype] * 4))
        a = real((4,), dtype)
        out.append(Case("nn", "R.nn.prelu({x}, {a}, axis=1)", {"x": x, "a": a}, np.where(x < 0, rounded(lambda p, q: p * q[:, None], x, a), x), TOL[dtype], sym={"x": ("n", "c", "m"), "a": ("c",)}))
    big = np.float32([[1000, 1001, 999], [-1e30, 0, 1], [np.inf, 1, 2], [np.nan, 1, 2]])
    with np.errstate(all="ignore"):
        out.append(Case("nn", "R.nn.softmax({x}, axis=-1)", {"x": big}, rounded(softmax, big), 1e-6))
    wide = real((2, 100), "float32")
    out.append(Case("nn", "R.nn.softmax({x}, axis=-1)", {"x": wide}, rounded(softmax, wide), 1e-6))
    x = real((3, 4))
    out.append(Case("nn", "R.nn.prelu({x}, {a}, axis=-1)", {"x": x, "a": np.float32([0.25])}, np.where(x < 0, x * np.float32(0.25), x), 1e-6))
    out.append(Case("nn", "R.nn.dropout({x}, rate=0.5)", {"x": x}, (x, np.ones_like(x))))
    for mode, np_mode in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        kw = {"constant_values": 1.5} if mode == "constant" else {}
        y = real((4, 5))
        out.append(Case("nn", f"R.nn.pad({{x}}, (1, 2, 0, 3), pad_mode=\"{mode}\", pad_value=1.5)", {"x": y}, np.pad(y, ((1, 2), (0, 3)), np_mode, **kw)))
    i = np.arange(12, dtype="int32").reshape(3, 4)
    out.append(Case("nn", "R.nn.pad({x}, [0, 0, 1, 1])", {"x": i}, np.pad(i, ((0, 0), (1, 1)))))
    p = real((2, 8, 3, 2))
    out.append(Case("nn", "R.nn.pixel_shuffle({x}, 2)", {"x": p}, p.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 4), sym={"x": ("n", None, "h", "w")}))
    return out


def norms(Case):
    out = []
    for dtype in ("float32", "float64", "float16"):
        x = real((2, 6, 5), dtype)
        c, w, b = real((6, 5), dtype), real((5,), dtype), real((5,), dtype)
        g, h = real((6,), dtype), real((6,), dtype)
        s = {"x": ("n", None, None)}
        all_sym = {"x": ("n", "m", "k"), "w": ("k",), "b": ("k",)}
        out.append(Case("norm", "R.nn.layer_norm({x}, {w}, {b}, axes=[-1], epsilon=1e-3)", {"x": x, "w": w, "b": b}, rounded(lambda x, w, b: normalise(x, [2], 1e-3) * w + b, x, w, b), TOL[dtype], sym=all_sym))
        out.append(Case("norm", "R.nn.layer_norm({x}, {c}, {c}, axes=[1, 2])", {"x": x, "c": c}, rounded(lambda x, c: normalise(x, [1, 2], 1e-5) * c + c, x, c), TOL[dtype], sym=s))
        out.append(Case("norm", "R.nn.layer_norm({x}, {w}, {b}, axes=[-1], center=False, scale=False)", {"x": x, "w": w, "b": b}, rounded(lambda x: normalise(x, [2], 1e-5), x), TOL[dtype], sym=s))
        out.append(Case("norm", "R.nn.rms_norm({x}, {w}, axes=[-1])", {"x": x, "w": w}, rounded(lambda x, w: x / np.sqrt((x * x).mean(2, keepdims=True) + 1e-5) * w, x, w), TOL[dtype], sym=all_sym))
        out.append(Case("norm", "R.nn.instance_norm({x}, {g}, {h}, channel_axis=1, axes=[2])", {"x": x, "g": g, "h": h}, rounded(lambda x, g, h: normalise(x, [2], 1e-5) * g[:, None] + h[:, None], x, g, h), TOL[dtype] * 3, sym={"x": ("n", "c", "k"), "g": ("c",), "h": ("c",)}))
        def group(x, g, h):
            y = normalise(x.reshape(2, 3, 2, 5), [2, 3], 1e-5).reshape(x.shape)
            return y * g[:, None] + h[:, None]
        out.append(Case("norm", "R.nn.group_norm({x}, {g}, {h}, num_groups=3, channel_axis=1, axes=[2])", {"x": x, "g": g, "h": h}, rounded(group, x, g, h), TOL[dtype], sym={"x": ("n", None, "k")}))
        m, v = real((6,), dtype), real((6,), dtype, 0.5, 2)
        bn = {"x": x, "g": g, "h": h, "m": m, "v": v}
        col = lambda a: a[:, None]
        ev = rounded(lambda x, g, h, m, v: (x - col(m)) / np.sqrt(col(v) + 1e-5) * col(g) + col(h), x, g, h, m, v)
        sb = {"x": ("n", "c", "k"), "g": ("c",), "h": ("c",), "m": ("c",), "v": ("c",)}
        out.append(Case("norm", "R.nn.batch_norm({x}, {g}, {h}, {m}, {v}, axis=1, training=False)", bn, (ev, m, v), TOL[dtype], sym=sb))
        tr = rounded(lambda x, g, h: normalise(x, [0, 2], 1e-5) * col(g) + col(h), x, g, h)
        nm = rounded(lambda m, x: 0.9 * m + 0.1 * x.mean((0, 2)), m, x)
        nv = rounded(lambda v, x: 0.9 * v + 0.1 * x.var((0, 2)), v, x)
        out.append(Case("norm", "R.nn.batch_norm({x}, {g}, {h}, {m}, {v}, axis=1)", bn, (tr, nm, nv), TOL[dtype], sym=sb))
    big = np.float32([[80000, 80001, 80002, 80003]])
    one, zero = np.ones(4, "float32"), np.zeros(4, "float32")
    out.append(Case("norm", "R.nn.layer_norm({x}, {w}, {b}, axes=[-1])", {"x": big, "w": one, "b": zero}, rounded(lambda x: normalise(x, [1], 1e-5), big), 1e-4, sym={"x": ("n", None)}))
    return out


def conv(x, w, stride, pad, dil, groups):
    """x (N, C, *sp), w (O, I, *k); pad: all before, then all after."""
    nd = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(pad[i], pad[nd + i]) for i in range(nd)])
    size = [(x.shape[2 + i] - dil[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(nd)]
    og, ig = w.shape[0] // groups, w.shape[1]
    out = np.zeros((x.shape[0], w.shape[0], *size))
    for at in itertools.product(*map(range, size)):
        for k in itertools.product(*map(range, w.shape[2:])):
            pos = tuple(at[i] * stride[i] + k[i] * dil[i] for i in range(nd))
            for g in range(groups):
                out[(slice(None), slice(g * og, (g + 1) * og), *at)] += x[(slice(None), slice(g * ig, (g + 1) * ig), *pos)] @ w[(slice(g * og, (g + 1) * og), slice(None), *k)].T
    return out


def conv_transpose(x, w, stride, pad, dil, groups, extra):
    """w (I, O / groups, *k)."""
    nd = x.ndim - 2
    full = [(x.shape[2 + i] - 1) * stride[i] + dil[i] * (w.shape[2 + i] - 1) + 1 + extra[i] for i in range(nd)]
    og, ig = w.shape[1], w.shape[0] // groups
    out = np.zeros((x.shape[0], og * groups, *full))
    for at in itertools.product(*map(range, x.shape[2:])):
        for k in itertools.product(*map(range, w.shape[2:])):
            pos = tuple(at[i] * stride[i] + k[i] * dil[i] for i in range(nd))
            for g in range(groups):
                out[(slice(None), slice(g * og, (g + 1) * og), *pos)] += x[(slice(None), slice(g * ig, (g + 1) * ig), *at)] @ w[(slice(g * ig, (g + 1) * ig), slice(None), *k)]
    return out[(slice(None), slice(None), *(slice(pad[i], full[i] - pad[nd + i]) for i in range(nd)))]


def in_layout(x, plain, layout):
    """x, whose axes are the letters of `plain`, in `layout`, which may have inner parts such as 16c."""
    parts = [(c, int(size or 0)) for size, c in re.findall(r"(\d*)([A-Za-z])", layout)]
    dims, axes = [], []  # each axis as its blocks, with their letters
    for c, d in zip(plain, x.shape):
        inner = [(i, s) for i, s in parts if i == c.lower()]
        dims += [d // int(np.prod([s for _, s in inner]))] + [s for _, s in inner]
        axes += [c] + [i for i, _ in inner]
    return np.ascontiguousarray(x.reshape(dims).transpose([axes.index(c) for c, _ in parts]))


def sym_of(layout, names):
    """Symbolic dims of a tensor in this layout: none for an axis in blocks nor for the blocks."""
    parts = re.findall(r"(\d*)([A-Za-z])", layout)
    inner = [c.upper() for size, c in parts if size]
    return tuple(None if size or c in inner else names[c] for size, c in parts)


def blocked(Case):
    """Layouts with axes in two parts: what the same operator gives in the plain layout, in blocks."""
    out = []
    names = {"N": "n", "C": None, "H": "h", "W": "w"}
    def add_conv(xs, ws, data, kernel, to=None, stride=1, pad=0, groups=1, dtype="float32", transpose=False, sym=True):
        x, w = real(xs, dtype), real(ws, dtype)
        x64, w64 = x.astype("float64"), w.astype("float64")
        if transpose:
            want = conv_transpose(x64, w64, [stride] * 2, [pad] * 4, [1, 1], groups, [0, 0])
        else:
            want = conv(x64, w64, [stride] * 2, [pad] * 4, [1, 1], groups)
        name = "conv2d_transpose" if transpose else "conv2d"
        expr = f"R.nn.{name}({{x}}, {{w}}, strides={stride}, padding={pad}, groups={groups}, data_layout=\"{data}\", kernel_layout=\"{kernel}\", out_layout=\"{to or data}\")"
        ins = {"x": in_layout(x, "NCHW", data), "w": in_layout(w, "IOHW" if transpose else "OIHW", kernel)}
        out.append(Case("conv", expr, ins, in_layout(want, "NCHW", to or data).astype(dtype), {"float32": 3e-5, "float16": 2e-2}[dtype], sym={"x": sym_of(data, names)} if sym else {}))
    add_conv((2, 32, 7, 9), (48, 32, 3, 3), "NCHW16c", "OIHW16i16o", pad=1)
    add_conv((2, 32, 7, 9), (16, 32, 1, 1), "NCHW16c", "OIHW16i16o")
    add_conv((1, 8, 7, 6), (12, 8, 3, 3), "NCHW4c", "OIHW4o", stride=2)
    add_conv((1, 8, 7, 6), (12, 8, 3, 3), "NCHW8c", "OIHW4i4o", "NHWC4c", pad=1)
    add_conv((1, 8, 7, 6), (12, 8, 3, 3), "NCHW", "OHWI4o", "NCHW4c")
    add_conv((1, 8, 7, 6), (12, 8, 3, 3), "NHWC4c", "OIHW4i", "NCHW")
    add_conv((1, 8, 7, 6), (12, 8, 3, 3), "NCHW4c", "OIHW4i4o", dtype="float16")
    add_conv((1, 32, 7, 7), (32, 1, 3, 3), "NCHW16c", "OIHW16o", groups=32, pad=1)
    add_conv((1, 32, 7, 7), (32, 1, 3, 3), "NCHW16c", "OIHW1i16o", groups=32, stride=2, pad=1)
    add_conv((1, 4, 7, 7), (8, 1, 3, 3), "NCHW4c", "OIHW4o", groups=4)
    add_conv((1, 16, 5, 5), (32, 8, 3, 3), "NCHW4c", "OIHW4i8o", "NCHW8c", groups=2)
    add_conv((1, 6, 5, 5), (6, 3, 3, 3), "NCHW2c", "OIHW3i2o", groups=2)
    add_conv((4, 4, 6, 8), (4, 4, 3, 3), "NCHW2n4w", "OIHW3w", pad=1, sym=False)
    add_conv((1, 4, 5, 5), (4, 8, 3, 3), "NCHW4c", "IOHW2i4o", "NCHW8c", stride=2, transpose=True)
    add_conv((1, 4, 5, 5), (4, 8, 3, 3), "NCHW4c", "IOHW", transpose=True, pad=1)
    def add_pool(kind, xs, k, layout, to=None, stride=1, pad=0, ceil=False, border=False, dtype="float32", sym=True):
        x = real(xs, dtype)
        want = pool(x.astype("float64"), kind, [k] * 2, [stride] * 2, [pad] * 4, [1, 1], ceil, border)
        expr = f"R.nn.{kind}_pool2d({{x}}, pool_size={k}, strides={stride}, padding={pad}, ceil_mode={ceil}, count_include_pad={border}, layout=\"{layout}\", out_layout=\"{to or layout}\")"
        names = {"N": "n", "C": "c", "H": "h", "W": "w"}
        out.append(Case("pool", expr, {"x": in_layout(x, "NCHW", layout)}, in_layout(want, "NCHW", to or layout).astype(dtype), 0.0 if kind == "max" else TOL[dtype], sym={"x": sym_of(layout, names)} if sym else {}))
    for kind in ("max", "avg"):
        add_pool(kind, (2, 32, 8, 9), 3, "NCHW16c", stride=2, pad=1)
        add_pool(kind, (1, 8, 7, 6), 2, "NCHW4c", "NHWC8c", stride=2, ceil=True)
        add_pool(kind, (1, 8, 7, 6), 2, "NCHW4c", "NCHW", border=True, pad=1)
        add_pool(kind, (1, 4, 8, 8), 2, "NCHW4w", "NCHW2h", stride=2, sym=False)
    x = real((2, 8, 6, 9))
    for layout, to in (("NCHW4c", None), ("NCHW4c", "NCHW"), ("NCHW2h", "NHWC8c")):
        want = x.astype("float64").reshape(2, 8, 3, 2, 3, 3).mean((3, 5)).astype("float32")
        out.append(Case("pool", f"R.nn.adaptive_avg_pool2d({{x}}, output_size=[3, 3], layout=\"{layout}\", out_layout=\"{to or layout}\")", {"x": in_layout(x, "NCHW", layout)}, in_layout(want, "NCHW", to or layout), 1e-5, sym={"x": sym_of(layout, {"N": "n", "C": None, "H": None, "W": None})}))
    x = real((2, 6, 3, 4))
    for layout in ("NCHW2c", "N3cCHW", "NCHW2w"):
        want = x.repeat(2, axis=2).repeat(3, axis=3)
        out.append(Case("image", f"R.image.resize2d({{x}}, (6, 12), layout=\"{layout}\", method=\"nearest_neighbor\", coordinate_transformation_mode=\"asymmetric\", rounding_method=\"floor\")", {"x": in_layout(x, "NCHW", layout)}, in_layout(want, "NCHW", layout), 0.0))
    return out


def convs(Case):
    out = []
    def add(xs, ws, stride=1, pad=0, dil=1, groups=1, data="NCHW", kernel="OIHW", dtype="float32", sym=("n", None, "h", "w"), transpose=False, extra=0, out_layout=None):
        nd = len(xs) - 2
        sp = "DHW"[3 - nd:]
        full = lambda v: [v] * nd if isinstance(v, int) else list(v)
        p = [pad] * 2 * nd if isinstance(pad, int) else list(pad) * 2 if len(pad) == nd else list(pad)
        x, w = real(xs, dtype), real(ws, dtype)
        std, kstd = "NC" + sp, ("IO" if transpose else "OI") + sp
        data, kernel = data if nd == 2 else std, kernel if nd == 2 else kstd
        xx = x.astype("float64").transpose([data.index(c) for c in std])
        ww = w.astype("float64").transpose([kernel.index(c) for c in kstd])
        if transpose:
            want = conv_transpose(xx, ww, full(stride), p, full(dil), groups, full(extra))
        else:
            want = conv(xx, ww, full(stride), p, full(dil), groups)
        to = out_layout or data
        want = want.transpose([std.index(c) for c in to]).astype(dtype)
        args = f"strides={stride}, padding={pad}, dilation={dil}, groups={groups}, data_layout=\"{data}\", kernel_layout=\"{kernel}\""
        args += f", output_padding={extra}" if transpose else ""
        args += f", out_layout=\"{out_layout}\"" if out_layout else ""
        name = f"R.nn.conv{nd}d" + ("_transpose" if transpose else "")
        names = (sym + ("e",))[:nd + 2] if nd != 2 else tuple({"N": sym[0], "C": sym[1], "H": sym[2], "W": sym[3]}[c] for c in data)
        out.append(Case("conv", f"{name}({{x}}, {{w}}, {args})", {"x": x, "w": w}, want, {"float32": 3e-5, "float64": 1e-11, "float16": 2e-2}[dtype], sym={"x": names}))
    add((2, 3, 8, 9), (4, 3, 3, 3))
    add((2, 3, 8, 9), (4, 3, 3, 3), dtype="float64")
    add((1, 3, 6, 6), (4, 3, 3, 3), dtype="float16", pad=1)
    add((2, 3, 8, 9), (4, 3, 3, 3), pad=1)
    add((2, 3, 8, 9), (4, 3, 3, 2), stride=[2, 1], pad=[1, 2, 0, 1])
    add((1, 3, 9, 9), (4, 3, 3, 3), stride=2, pad=(1, 2), dil=2)
    add((2, 4, 7, 7), (6, 2, 3, 3), groups=2, pad=1)
    add((1, 5, 7, 6), (5, 1, 3, 3), groups=5, pad=1)
    add((1, 3, 7, 6), (6, 1, 3, 3), groups=3, stride=2)
    add((2, 5, 4, 4), (7, 5, 1, 1))
    add((2, 8, 9, 3), (3, 3, 3, 5), data="NHWC", kernel="HWIO", pad=1)
    add((2, 8, 9, 3), (5, 3, 3, 3), data="NHWC", kernel="OHWI", stride=2)
    add((1, 6, 6, 4), (3, 3, 1, 4), data="NHWC", kernel="HWIO", groups=4, pad=1)
    add((2, 3, 8, 9), (4, 3, 3, 3), out_layout="NHWC")
    add((0, 3, 5, 5), (4, 3, 3, 3))
    add((2, 3, 12), (4, 3, 5), pad=2, stride=2)
    add((1, 4, 10), (4, 1, 3), groups=4, dil=2)
    add((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), pad=1)
    add((2, 3, 5, 4), (3, 4, 3, 3), kernel="IOHW", transpose=True)
    add((2, 3, 5, 4), (3, 4, 3, 3), kernel="IOHW", transpose=True, stride=2, pad=1, extra=1)
    add((1, 4, 3, 3), (4, 2, 2, 2), kernel="IOHW", transpose=True, stride=2, groups=2)
    add((1, 2, 4, 4), (2, 3, 3, 3), kernel="IOHW", transpose=True, dil=2, pad=(1, 0))
    add((1, 3, 6), (3, 2, 4), transpose=True, stride=2, pad=1)
    add((1, 4, 4, 3), (3, 3, 3, 2), data="NHWC", kernel="HWIO", transpose=True, stride=2, pad=1)
    return out


def pool(x, kind, k, stride, pad, dil, ceil, count_border):
    """x (N, C, *sp)."""
    nd = x.ndim - 2
    size = []
    for i in range(nd):
        room = x.shape[2 + i] + pad[i] + pad[nd + i] - dil[i] * (k[i] - 1) - 1
        n = (room + (stride[i] - 1 if ceil else 0)) // stride[i] + 1
        if ceil and (n - 1) * stride[i] >= x.shape[2 + i] + pad[i]:
            n -= 1
        size.append(n)
    out = np.zeros((*x.shape[:2], *size))
    for at in itertools.product(*map(range, size)):
        values, counted = [], 0
        for t in itertools.product(*map(range, k)):
            pos = [at[i] * stride[i] - pad[i] + t[i] * dil[i] for i in range(nd)]
            if all(0 <= pos[i] < x.shape[2 + i] for i in range(nd)):
                values.append(x[(slice(None), slice(None), *pos)])
            counted += all(-pad[i] <= pos[i] < x.shape[2 + i] + pad[nd + i] for i in range(nd))
        at = (slice(None), slice(None), *at)
        if kind == "max":
            out[at] = np.max(values, axis=0) if values else -np.inf
        else:
            out[at] = np.sum(values, axis=0) / max(counted if count_border else len(values), 1)
    return out


def pools(Case):
    out = []
    def add(kind, xs, k, stride=1, pad=0, dil=1, ceil=False, border=False, layout="NCHW", dtype="float32"):
        nd = len(xs) - 2
        full = lambda v: [v] * nd if isinstance(v, int) else list(v)
        p = [pad] * 2 * nd if isinstance(pad, int) else list(pad) * 2 if len(pad) == nd else list(pad)
        std = "NC" + "DHW"[3 - nd:]
        layout = layout if nd == 2 else std
        x = real(xs, dtype) if dtype[0] == "f" else rng.integers(-50, 50, xs).astype(dtype)
        want = pool(x.astype("float64").transpose([layout.index(c) for c in std]), kind, full(k), full(stride), p, full(dil), ceil, border)
        want = want.transpose([std.index(c) for c in layout]).astype(dtype)
        expr = f"R.nn.{kind}_pool{nd}d({{x}}, pool_size={k}, strides={stride}, padding={pad}, dilation={dil}, ceil_mode={ceil}, count_include_pad={border}, layout=\"{layout}\")"
        names = tuple({"N": "n", "C": "c"}.get(c, c.lower()) for c in layout)
        out.append(Case("pool", expr, {"x": x}, want, 0.0 if kind == "max" else TOL[dtype], sym={"x": names}))
    for kind in ("max", "avg"):
        add(kind, (2, 3, 8, 9), 2, 2)
        add(kind, (2, 3, 8, 9), [3, 2], [2, 1])
        add(kind, (2, 3, 8, 9), 3, 2, 1)
        add(kind, (2, 3, 8, 9), 3, 2, [0, 0, 1, 1])
        add(kind, (1, 2, 8, 7), 3, 2, 0, ceil=True)
        add(kind, (1, 2, 8, 7), 2, 3, 1, ceil=True)
        add(kind, (1, 2, 9, 9), 3, 1, 1, dil=2)
        add(kind, (1, 8, 9, 2), 2, 2, layout="NHWC")
        add(kind, (1, 2, 8, 9), 3, 2, 1, dtype="float64")
        add(kind, (1, 2, 6, 6), 3, 2, 1, dtype="float16")
        add(kind, (1, 2, 10), 3, 2, 1)
        add(kind, (1, 2, 4, 5, 6), 2, 2)
    add("max", (1, 2, 6, 6), 3, 2, 1, dtype="int32")
    add("avg", (2, 3, 8, 9), 3, 2, 1, border=True)
    add("avg", (1, 2, 8, 7), 3, 2, 1, ceil=True, border=True)
    def adaptive(x, size):
        y = np.zeros((*x.shape[:2], *size))
        for i in range(size[0]):
            for j in range(size[1]):
                h, w = x.shape[2:]
                y[:, :, i, j] = x[:, :, i * h // size[0]:-(-(i + 1) * h // size[0]), j * w // size[1]:-(-(j + 1) * w // size[1])].mean((2, 3))
        return y
    for xs, size in (((2, 3, 8, 6), 1), ((2, 3, 8, 6), [4, 3]), ((1, 2, 7, 9), [3, 4]), ((1, 2, 3, 3), [5, 2]), ((1, 2, 4, 4), None)):
        x = real(xs)
        want = rounded(lambda v: adaptive(v, [size] * 2 if isinstance(size, int) else size or xs[2:]), x)
        out.append(Case("pool", f"R.nn.adaptive_avg_pool2d({{x}}, output_size={size})", {"x": x}, want, 1e-5, sym={"x": ("n", "c", "h", "w")}))
    x = real((1, 6, 4, 3))
    out.append(Case("pool", "R.nn.adaptive_avg_pool2d({x}, output_size=[2, 2], layout=\"NHWC\")", {"x": x}, rounded(lambda v: adaptive(v.transpose(0, 3, 1, 2), [2, 2]).transpose(0, 2, 3, 1), x), 1e-5, sym={"x": ("n", "h", "w", "c")}))
    x = real((2, 3, 10))
    out.append(Case("pool", "R.nn.adaptive_avg_pool1d({x}, output_size=5)", {"x": x}, rounded(lambda v: v.reshape(2, 3, 5, 2).mean(3), x), 1e-5))
    return out


def attention(q, k, v, bias=None, scale=None, mask=None):
    heads, kv = q.shape[2], k.shape[2]
    k, v = np.repeat(k, heads // kv, 2), np.repeat(v, heads // v.shape[2], 2)
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * (scale if scale is not None else 1 / math.sqrt(q.shape[3]))
    if bias is not None:
        s = s + bias
    if mask:
        off = abs(s.shape[3] - s.shape[2]) if mask == "BottomRight" else 0
        s = np.where(np.arange(s.shape[3]) <= np.arange(s.shape[2])[:, None] + off, s, -np.inf)
    return np.einsum("bhqk,bkhd->bqhd", softmax(s), v)


def attentions(Case):
    out = []
    names = {"q": ("b", "n", None, None), "k": ("b", "m", None, None), "v": ("b", "m", None, None), "c": ("b", None, "n", "m")}
    for dtype in ("float32", "float16"):
        q, k, v, c = real((2, 5, 4, 8), dtype), real((2, 7, 4, 8), dtype), real((2, 7, 4, 6), dtype), real((2, 4, 5, 7), dtype)
        ins = {"q": q, "k": k, "v": v}
        out.append(Case("attention", "R.nn.attention({q}, {k}, {v})", ins, rounded(attention, q, k, v), TOL[dtype], sym=names))
        out.append(Case("attention", "R.nn.attention({q}, {k}, {v}, {c}, scale=0.25)", {**ins, "c": c}, rounded(lambda q, k, v, c: attention(q, k, v, c, 0.25), q, k, v, c), TOL[dtype], sym=names))
        out.append(Case("attention", "R.nn.attention_bias({q}, {k}, {v}, {c})", {**ins, "c": c}, rounded(attention, q, k, v, c), TOL[dtype], sym=names))
        for mask in ("TopLeft", "BottomRight"):
            out.append(Case("attention", f"R.nn.attention({{q}}, {{k}}, {{v}}, causal_mask=\"{mask}\")", ins, rounded(lambda q, k, v: attention(q, k, v, mask=mask), q, k, v), TOL[dtype], sym=names))
        short = {"q": real((2, 9, 4, 8), dtype), "k": k, "v": v}
        out.append(Case("attention", "R.nn.attention({q}, {k}, {v}, causal_mask=\"BottomRight\")", short, rounded(lambda q, k, v: attention(q, k, v, mask="BottomRight"), *short.values()), TOL[dtype], sym=names))
        near = np.arange(7) > np.arange(5)[:, None] - 2
        out.append(Case("attention", "R.nn.attention({q}, {k}, {v}, causal_mask=\"TopLeft\", window_size=2)", ins, rounded(lambda q, k, v: attention(q, k, v, np.where(near, 0, -np.inf), mask="TopLeft"), q, k, v), TOL[dtype], sym=names))
        sq, sk = np.int32([0, 2, 2, 5]), np.int32([0, 3, 4, 7])
        lens = {"q": (None, "n", None, None), "k": (None, "m", None, None), "v": (None, "m", None, None), "s": ("w",), "t": ("w",), "g": (), "h": ()}
        parts = {"q": q[:1], "k": k[:1], "v": v[:1], "s": sq, "t": sk, "g": np.int32(3), "h": np.int32(3)}
        for mask in (None, "TopLeft", "BottomRight"):
            seqs = lambda q, k, v: np.concatenate([attention(q[:, a:b], k[:, c:d], v[:, c:d], mask=mask) for a, b, c, d in zip(sq, sq[1:], sk, sk[1:])], 1)
            want = rounded(seqs, q[:1], k[:1], v[:1])
            text = "None" if mask is None else f"\"{mask}\""
            for args in ("{s}, {t}, {g}, {h}", "{s}, {g}, {t}, {h}"):
                out.append(Case("attention", f"R.nn.attention_var_len({{q}}, {{k}}, {{v}}, {args}, causal_mask={text})", parts, want, TOL[dtype], sym=lens))
        k2, v2 = real((2, 7, 2, 8), dtype), real((2, 7, 2, 6), dtype)
        out.append(Case("attention", "R.nn.attention({q}, {k}, {v})", {"q": q, "k": k2, "v": v2}, rounded(attention, q, k2, v2), TOL[dtype], sym=names))
    return out


def resize(x, size, method, mode, rounding, alpha=-0.75):
    """x (N, C, H, W) after the definitions of the coordinate modes, in float32 positions."""
    f = np.float32
    for axis, out in zip((2, 3), size):
        dim = x.shape[axis]
        o, scale = np.arange(out, dtype=f), f(dim) / f(out)
        p = {"half_pixel": (o + f(0.5)) * scale - f(0.5), "asymmetric": o * scale, "tf_half_pixel_for_nn": (o + f(0.5)) * scale,
             "align_corners": o * (f(dim - 1) / f(max(out - 1, 1))), "pytorch_half_pixel": (o + f(0.5)) * scale - f(0.5) if out > 1 else o * 0}[mode]
        k = np.floor(p).astype(int)
        t = (p - k).astype("float64")
        if method == "nearest_neighbor":
            r = rounding or ("round" if mode == "align_corners" else "floor")
            near = {"round": np.round(p), "floor": np.floor(p + f(1e-5)), "ceil": np.ceil(p - f(1e-5)), "round_prefer_floor": np.ceil(p - f(0.5)), "round_prefer_ceil": np.floor(p + f(0.5))}[r]
            taps, weights = [near.astype(int)], [np.ones(out)]
        elif method == "linear":
            taps, weights = [k, k + 1], [1 - t, t]
        else:
            a = alpha
            taps = [k - 1, k, k + 1, k + 2]
            weights = [a * (t**3 - 2 * t**2 + t), (a + 2) * t**3 - (a + 3) * t**2 + 1, -(a + 2) * t**3 + (3 + 2 * a) * t**2 - a * t, -a * t**3 + a * t**2]
        shape = [1] * 4
        shape[axis] = out
        x = sum(np.take(x, np.clip(i, 0, dim - 1), axis) * w.reshape(shape) for i, w in zip(taps, weights))
    return x


def images(Case):
    out = []
    for method in ("nearest_neighbor", "linear", "cubic"):
        for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"):
            for size in ((8, 9), (3, 7), (10, 1)) if mode != "tf_half_pixel_for_nn" else ((8, 9),):
                for rounding in ("round", "floor", "") if method == "nearest_neighbor" else ("round",):
                    x = real((1, 2, 4, 5))
                    want = resize(x.astype("float64"), size, method, mode, rounding).astype("float32")
                    expr = f"R.image.resize2d({{x}}, {size}, method=\"{method}\", coordinate_transformation_mode=\"{mode}\", rounding_method=\"{rounding}\")"
                    out.append(Case("image", expr, {"x": x}, want, 1e-5, sym={"x": ("n", "c", "h", "w")}))
    x = real((1, 4, 5, 2))
    want = resize(x.transpose(0, 3, 1, 2).astype("float64"), (6, 6), "linear", "half_pixel", "").transpose(0, 2, 3, 1).astype("float32")
    out.append(Case("image", "R.image.resize2d({x}, (6, 6), layout=\"NHWC\")", {"x": x}, want, 1e-5))
    v = real((1, 1, 2, 3, 4))
    near = v.repeat(2, 2).repeat(2, 3).repeat(2, 4)
    out.append(Case("image", "R.image.resize3d({x}, (4, 6, 8), method=\"nearest_neighbor\", coordinate_transformation_mode=\"asymmetric\", rounding_method=\"floor\")", {"x": v}, near))
    return out


def build(Case):
    return basic(Case) + norms(Case) + convs(Case) + pools(Case) + attentions(Case) + images(Case) + blocked(Case)
