"""Specimens of products, networks, images and detection (see run_dtypes.py). Inputs are small integers, on
which sums and products are exact in every dtype; the loops that give the expected values are those of
cases_nn.py and cases_data.py."""
import numpy as np

import cases_data as data
import cases_nn as nn
from dtypes import FLOATS, INTS, Tensor
from specimens_elementwise import truncated


def exact(v):
    """Integers to compute with: floats as float64, the others as Python's."""
    return v.wide()


def linalg(g):
    for sa, sb, na, nb in (((5, 7), (7, 3), ("m", "k"), ("k", "n")), ((2, 3, 9), (9, 4), ("b", "m", "k"), ("k", "n")),
                           ((7,), (7,), ("k",), ("k",)), ((0, 3), (3, 4), ("m", "k"), ("k", "n")), ((3, 0), (0, 4), ("m", "k"), ("k", "n")),
                           ((18, 33), (33, 17), ("m", "k"), ("k", "n"))):
        a, b = g.x(sa, -2, 2), g.x(sb, -2, 2)
        p, q = exact(a), exact(b)
        if g.dtype == "bool":
            want = (p.astype(int) @ q.astype(int)) > 0
        else:
            want = np.matmul(p, q) if 0 not in sa else np.zeros((sa[0], sb[-1]))
        yield "matmul", "R.matmul({a}, {b})", {"a": a, "b": b}, g.out(want), 0, {"a": na, "b": nb}
    x, w, c = g.x((2, 3, 6), -2, 2), g.x((4, 6), -2, 2), g.x((4,))
    want = (x.wide() @ w.wide().T) | c.wide() if g.dtype == "bool" else None
    full = want if want is not None else x.wide() @ w.wide().T + c.wide()
    if g.dtype in FLOATS:  # matmul's result is rounded before the bias is added
        full = g.out(x.wide() @ w.wide().T).wide() + c.wide()
    yield "linear", "R.linear({x}, {w}, {c})", {"x": x, "w": w, "c": c}, g.out(full), 0, {"x": ("b", "m", "k"), "w": ("n", "k"), "c": ("n",)}
    u, v = g.x((3,)), g.x((4,))
    yield "outer", "R.outer({u}, {v})", {"u": u, "v": v}, g.out(np.multiply.outer(u.wide(), v.wide()) if g.dtype != "bool" else u.wide()[:, None] & v.wide()), 0, {"u": ("m",), "v": ("n",)}
    for spec, sa, sb, na, nb in (("ij,jk->ik", (3, 4), (4, 5), ("n", "k"), ("k", "m")), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4), ("b", "n", "k"), ("b", "m", "k")), ("i,i->", (6,), (6,), ("n",), ("n",))):
        a, b = g.x(sa, -2, 2), g.x(sb, -2, 2)
        if g.dtype == "bool":
            want = np.einsum(spec, a.values.astype(int), b.values.astype(int)) > 0
        else:
            want = np.einsum(spec, a.values.astype("float64"), b.values.astype("float64"))
        yield "einsum", f'R.einsum(({{a}}, {{b}}), subscripts="{spec}")', {"a": a, "b": b}, g.out(want), 0, {"a": na, "b": nb}


def networks(g):
    a, b = g.x((4, 5)), g.x((4, 5), -1, 1)
    if g.dtype not in FLOATS:
        if g.dtype in INTS:
            want = -np.sum(a.wide() * b.wide())
            yield "nn.cross_entropy_with_logits", "R.nn.cross_entropy_with_logits({p}, {l})", {"p": a, "l": b}, g.out(truncated(want, 4) if g.dtype[0] == "i" else (int(want) % 2 ** np.iinfo(g.dtype).bits) // 4), 0
        return
    x = g.x((3, 4, 7))
    w = x.wide()
    for axis in (-1, 1):
        s = nn.softmax(w, axis)
        yield "nn.softmax", f"R.nn.softmax({{x}}, axis={axis})", {"x": x}, g.out(s), ("of 1", 2)
        yield "nn.log_softmax", f"R.nn.log_softmax({{x}}, axis={axis})", {"x": x}, g.out(np.log(s)), ("of 1", 4)
    q, k, v, c = g.x((2, 5, 4, 8), -1, 1), g.x((2, 7, 4, 8), -1, 1), g.x((2, 7, 4, 6)), g.x((2, 4, 5, 7), -1, 1)
    names = {"q": ("b", "n", None, None), "k": ("b", "m", None, None), "v": ("b", "m", None, None), "c": ("b", None, "n", "m")}
    ins = {"q": q, "k": k, "v": v}
    wide = [t.wide() for t in (q, k, v, c)]
    loose = ("of 1", 16)
    yield "nn.attention", "R.nn.attention({q}, {k}, {v})", ins, g.out(nn.attention(*wide[:3])), loose, names
    yield "nn.attention", 'R.nn.attention({q}, {k}, {v}, {c}, scale=0.25, causal_mask="TopLeft")', {**ins, "c": c}, g.out(nn.attention(*wide, 0.25, "TopLeft")), loose, names
    yield "nn.attention_bias", "R.nn.attention_bias({q}, {k}, {v}, {c})", {**ins, "c": c}, g.out(nn.attention(*wide)), loose, names
    sq, sk = np.int32([0, 2, 2, 5]), np.int32([0, 3, 4, 7])
    want = np.concatenate([nn.attention(wide[0][:1, a:b], wide[1][:1, c:d], wide[2][:1, c:d]) for a, b, c, d in zip(sq, sq[1:], sk, sk[1:])], 1)
    parts = {"q": g.t(q.values[:1]), "k": g.t(k.values[:1]), "v": g.t(v.values[:1]), "s": sq, "t": sk}
    yield "nn.attention_var_len", "R.nn.attention_var_len({q}, {k}, {v}, {s}, {t})", parts, g.out(want), loose, {"q": (None, "n", None, None), "k": (None, "m", None, None), "v": (None, "m", None, None), "s": ("w",), "t": ("w",)}
    # normalisation
    x = g.x((2, 6, 5), -4, 4)
    p = x.wide()
    gamma, beta, ch, chb = g.x((5,), 1, 2), g.x((5,)), g.x((6,), 1, 2), g.x((6,))
    col = lambda a: a.wide()[:, None]
    s = {"x": ("n", "m", "k"), "w": ("k",), "b": ("k",), "g": ("m",), "h": ("m",), "m": ("m",), "v": ("m",)}
    yield "nn.layer_norm", "R.nn.layer_norm({x}, {w}, {b}, axes=[-1])", {"x": x, "w": gamma, "b": beta}, g.out(nn.normalise(p, [2], 1e-5) * gamma.wide() + beta.wide()), loose, s
    yield "nn.rms_norm", "R.nn.rms_norm({x}, {w}, axes=[-1])", {"x": x, "w": gamma}, g.out(p / np.sqrt((p * p).mean(2, keepdims=True) + 1e-5) * gamma.wide()), loose, s
    yield "nn.instance_norm", "R.nn.instance_norm({x}, {g}, {h}, channel_axis=1, axes=[2])", {"x": x, "g": ch, "h": chb}, g.out(nn.normalise(p, [2], 1e-5) * col(ch) + col(chb)), loose, s
    y = nn.normalise(p.reshape(2, 3, 2, 5), [2, 3], 1e-5).reshape(p.shape)
    yield "nn.group_norm", "R.nn.group_norm({x}, {g}, {h}, num_groups=3, channel_axis=1, axes=[2])", {"x": x, "g": ch, "h": chb}, g.out(y * col(ch) + col(chb)), loose, {"x": ("n", None, "k")}
    mean, var = g.x((6,)), g.x((6,), 1, 2)
    bn = {"x": x, "g": ch, "h": chb, "m": mean, "v": var}
    ev = (p - col(mean)) / np.sqrt(col(var) + 1e-5) * col(ch) + col(chb)
    yield "nn.batch_norm", "R.nn.batch_norm({x}, {g}, {h}, {m}, {v}, axis=1, training=False)", bn, (g.out(ev), mean, var), loose, s
    tr = nn.normalise(p, [0, 2], 1e-5) * col(ch) + col(chb)
    nm, nv = 0.9 * mean.wide() + 0.1 * p.mean((0, 2)), 0.9 * var.wide() + 0.1 * p.var((0, 2))
    yield "nn.batch_norm", "R.nn.batch_norm({x}, {g}, {h}, {m}, {v}, axis=1)", bn, (g.out(tr), g.out(nm), g.out(nv)), loose, s
    # losses
    yield "nn.cross_entropy_with_logits", "R.nn.cross_entropy_with_logits({p}, {l})", {"p": a, "l": b}, g.out(-(a.wide() * b.wide()).sum() / 4), 0
    t, cls = np.int64([0, 3, -100, 4]), g.x((5,), 1, 2)
    keep = t >= 0
    tw = np.where(keep, cls.wide()[np.where(keep, t, 0)], 0)
    terms = -a.wide()[np.arange(4), np.where(keep, t, 0)] * tw
    s = {"p": ("n", "c"), "t": ("n",), "w": ("c",), "g": ()}
    ins = {"p": a, "t": t, "w": cls}
    yield "nn.nll_loss", 'R.nn.nll_loss({p}, {t}, {w}, reduction="none")', ins, g.out(terms, zeros=True), 0, s
    yield "nn.nll_loss", 'R.nn.nll_loss({p}, {t}, {w}, reduction="sum")', ins, g.out(terms.sum()), 0, s
    yield "nn.nll_loss", "R.nn.nll_loss({p}, {t}, {w})", ins, g.out(terms.sum() / tw.sum()), 1, s
    grad = np.zeros((4, 5))
    grad[np.arange(4), np.where(keep, t, 0)] -= tw * 2
    yield "grad.nll_loss_backward", 'R.grad.nll_loss_backward({g}, {p}, {t}, {w}, reduction="sum")', {"g": g.t(2), **ins}, g.out(grad), 0, s
    scale, zero = np.float32([0.5, 1, 2, 0.25, 1]), np.int8([0, 1, 2, -3, 4])
    for to in ("int8", "uint8", "int16") if g.dtype in ("float32", "float16") else ():
        info = np.iinfo(to)
        want = np.clip(np.round(a.wide() / scale) + zero, info.min, info.max)
        yield "quantize", f'R.quantize({{x}}, {{s}}, {{z}}, axis=1, out_dtype="{to}")', {"x": a, "s": scale, "z": zero}, Tensor(want, to), 0, {"x": ("n", "c"), "s": ("c",), "z": ("c",)}


def dequantize(g):
    if g.dtype not in INTS + ("float32", "float16", "float8_e4m3fn", "float8_e5m2"):
        return
    x, scale, zero = g.x((4, 5)), np.float32([0.5, 1, 2, 0.25, 1]), np.int8([0, 1, 2, -3, 4])
    want = (x.wide().astype(float) - zero) * scale
    for to in ("float32", "float16"):
        yield "dequantize", f'R.dequantize({{x}}, {{s}}, {{z}}, axis=1, out_dtype="{to}")', {"x": x, "s": scale, "z": zero}, Tensor(want, to), 0, {"x": ("n", "c"), "s": ("c",), "z": ("c",)}


def convs(g):
    for nd in (1, 2, 3):
        size = (9, 8, 5)[:nd] if nd < 3 else (4, 5, 4)
        std = "NC" + "DHW"[3 - nd:]
        names = {"x": ("n", None, "d", "h", "w")[:nd + 2]}
        for groups, stride, pad, dil in ((1, 1, 1, 1), (2, 2, 0, 1), (1, 2, 1, 2)):
            x, w = g.x((2, 4, *size), -1, 1), g.x((6, 4 // groups, *[3] * nd), -1, 1)
            p, q = x.values.astype("float64"), w.values.astype("float64")
            want = nn.conv(p, q, [stride] * nd, [pad] * 2 * nd, [dil] * nd, groups)
            if g.dtype == "bool":
                want = want > 0
            args = f"strides={stride}, padding={pad}, dilation={dil}, groups={groups}"
            yield f"nn.conv{nd}d", f"R.nn.conv{nd}d({{x}}, {{w}}, {args})", {"x": x, "w": w}, g.out(want), 0, names
            if dil == 2:
                last = [0, *range(2, nd + 2), 1]
                y, v = g.t(x.values.transpose(last)), g.t(w.values.transpose([*range(2, nd + 2), 1, 0]))
                layouts = f'data_layout="N{std[2:]}C", kernel_layout="{std[2:]}IO"'
                yield f"nn.conv{nd}d", f"R.nn.conv{nd}d({{x}}, {{w}}, {args}, {layouts})", {"x": y, "w": v}, g.t(g.out(want).values.transpose(last)), 0, {"x": ("n", *("d", "h", "w")[:nd], None)}
        w = g.x((4, 3, *[3] * nd), -1, 1)
        want = nn.conv_transpose(p, w.values.astype("float64"), [2] * nd, [1] * 2 * nd, [1] * nd, 1, [1] * nd)
        if g.dtype == "bool":
            want = want > 0
        yield f"nn.conv{nd}d_transpose", f"R.nn.conv{nd}d_transpose({{x}}, {{w}}, strides=2, padding=1, output_padding=1)", {"x": x, "w": w}, g.out(want), 0, names


def adaptive(x, size):
    out = np.zeros((*x.shape[:2], *size))
    for at in np.ndindex(*size):
        part = tuple(slice(i * d // n, -(-(i + 1) * d // n)) for i, d, n in zip(at, x.shape[2:], size))
        out[(slice(None), slice(None), *at)] = x[(slice(None), slice(None), *part)].mean(tuple(range(2, x.ndim)))
    return out


def pools(g):
    for nd in (1, 2, 3):
        x = g.x((2, 3, *(8, 7, 6)[:nd]))
        names = {"x": ("n", "c", "d", "h", "w")[:nd + 2]}
        args = "pool_size=3, strides=2, padding=1"
        full = ([3] * nd, [2] * nd, [1] * 2 * nd, [1] * nd)
        w = x.values.astype("float64")
        yield f"nn.max_pool{nd}d", f"R.nn.max_pool{nd}d({{x}}, {args})", {"x": x}, g.out(nn.pool(w, "max", *full, False, False)), 0, names
        if g.dtype in FLOATS:
            for ceil, border in ((False, False), (True, True)):
                want = nn.pool(w, "avg", *full, ceil, border)
                yield f"nn.avg_pool{nd}d", f"R.nn.avg_pool{nd}d({{x}}, {args}, ceil_mode={ceil}, count_include_pad={border})", {"x": x}, g.out(want), 1, names
            size = (3, 7, 4)[:nd]
            yield f"nn.adaptive_avg_pool{nd}d", f"R.nn.adaptive_avg_pool{nd}d({{x}}, output_size={list(size)})", {"x": x}, g.out(adaptive(w, size)), 2, names
        elif g.dtype in INTS:  # the quotient is truncated; sums don't wrap
            big = g.t(np.full((1, 2, *(18, 13, 4)[:nd]), 50))
            for y in (x, big):
                w = y.values.astype("float64")
                want = np.trunc(nn.pool(w, "avg", *full, False, False) * (1 + 1e-12))
                yield f"nn.avg_pool{nd}d", f"R.nn.avg_pool{nd}d({{x}}, {args}, count_include_pad=False)", {"x": y}, g.out(want), 0, names
                want = np.trunc(adaptive(w, [2] * nd) * (1 + 1e-12))
                yield f"nn.adaptive_avg_pool{nd}d", f"R.nn.adaptive_avg_pool{nd}d({{x}}, output_size={[2] * nd})", {"x": y}, g.out(want), 0, names
    if g.dtype not in FLOATS:
        return
    x, og = g.t(np.arange(60).reshape(1, 2, 6, 5) * 7 % 16), g.x((1, 2, 3, 2))
    most, mean = np.zeros((1, 2, 6, 5)), np.zeros((1, 2, 6, 5))
    for n, c, h, w in np.ndindex(1, 2, 3, 2):
        taps = [(h * 2 + a, w * 2 + b) for a in (0, 1) for b in (0, 1)]
        best = max(taps, key=lambda t: (x.wide()[(n, c) + t], -taps.index(t)))
        most[(n, c) + best] += og.wide()[n, c, h, w]
        for t in taps:
            mean[(n, c) + t] += og.wide()[n, c, h, w] / 4
    s = {"g": ("n", "c", None, None), "x": ("n", "c", None, None)}
    for name, want in (("max", most), ("avg", mean)):
        yield f"grad.{name}_pool2d_backward", f"R.grad.{name}_pool2d_backward({{g}}, {{x}}, pool_size=2, strides=2, padding=0, dilation=1)", {"g": og, "x": x}, g.out(want), 0, s


def images(g):
    x = g.x((1, 2, 4, 5))
    v = x.values.astype("float64")
    s = {"x": ("n", "c", "h", "w")}
    want = nn.resize(v, (8, 10), "nearest_neighbor", "asymmetric", "floor")
    yield "image.resize2d", 'R.image.resize2d({x}, (8, 10), method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor")', {"x": x}, g.out(want), 0, s
    vol = g.x((1, 1, 2, 3, 4))
    near = vol.values.repeat(2, 2).repeat(2, 3).repeat(2, 4)
    yield "image.resize3d", 'R.image.resize3d({x}, (4, 6, 8), method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor")', {"x": vol}, g.t(near), 0
    if g.dtype not in FLOATS:
        return
    for method in ("linear", "cubic"):
        want = nn.resize(v, (7, 9), method, "half_pixel", "")
        # positions are computed in float32
        error = 2**32 if g.dtype == "float64" else 16
        yield "image.resize2d", f'R.image.resize2d({{x}}, (7, 9), method="{method}")', {"x": x}, g.out(want), ("of 1", error), s
    grid = g.t(np.float64([[-1.5, -0.5, 0, 0.5], [0.25, 1, -0.75, 1.5]]).reshape(1, 2, 2, 2))
    s = {"x": ("n", "c", "h", "w"), "g": ("n", None, "p", "q")}
    for method in ("nearest", "bilinear"):
        want = data.ref_grid_sample(v, grid.wide(), method, "zeros", False)
        yield "image.grid_sample", f'R.image.grid_sample({{x}}, {{g}}, method="{method}")', {"x": x, "g": grid}, g.out(want), ("of 1", 8), s
    theta = g.x((2, 2, 3))
    axes = [np.linspace(-1, 1, d) for d in (3, 5)]
    pos = np.stack(list(np.meshgrid(*axes, indexing="ij"))[::-1] + [np.ones((3, 5))])
    yield "image.affine_grid", "R.image.affine_grid({t}, (3, 5))", {"t": theta}, g.out(np.einsum("nij,jhw->nihw", theta.wide(), pos)), ("of 1", 4), {"t": ("n", None, None)}


def vision(g):
    if g.dtype not in FLOATS:
        return
    x = g.x((2, 3, 8, 8))
    rois = g.t([[0, 0, 0, 6, 5], [1, 2, 1, 7, 7], [1, 3, 3, 3, 3]])
    s = {"x": ("n", "c", "h", "w"), "r": ("k", None)}
    want = data.ref_roi(x.wide(), rois.wide(), (2, 3), 1.0, 0, False, "max", True)
    yield "vision.roi_pool", "R.vision.roi_pool({x}, {r}, pooled_size=(2, 3), spatial_scale=1.0)", {"x": x, "r": rois}, g.out(want), 0, s
    want = data.ref_roi(x.wide(), rois.wide(), (2, 3), 1.0, 2, False, "avg", False)
    yield "vision.roi_align", 'R.vision.roi_align({x}, {r}, pooled_size=(2, 3), spatial_scale=1.0, sample_ratio=2)', {"x": x, "r": rois}, g.out(want), ("of 1", 8), s
    cls, loc = g.x((2, 3, 2)), g.x((2, 8), -1, 1)
    anchor = g.t([[[0, 0, 0.5, 0.5], [0.25, 0.5, 1, 1]]])
    a, l = anchor.wide()[0], loc.wide().reshape(2, 2, 4)
    size, mid = a[:, 2:] - a[:, :2], (a[:, 2:] + a[:, :2]) / 2
    ctr, reach = l[..., :2] * size + mid, np.exp(l[..., 2:]) * size / 2
    box = np.concatenate([(ctr - reach)[..., ::-1], (ctr + reach)[..., ::-1]], -1)
    e = np.exp(cls.wide())
    yield "vision.multibox_transform_loc", "R.vision.multibox_transform_loc({c}, {l}, {a}, threshold=0.0, variances=[1.0, 1.0, 1.0, 1.0])", {"c": cls, "l": loc, "a": anchor}, (g.out(box), g.out(e / e.sum(1, keepdims=True))), ("of 1", 4), {"c": ("b", "k", None), "l": ("b", None), "a": (None, None, None)}
    boxes = g.t([[[0, 4, 0, 0, 4, 4], [0, 3, 0, 0, 4, 3], [1, -1, 0, 0, 2, 2], [1, 2, 6, 6, 8, 8], [0, 1, 7, 0, 8, 1]]])
    keep = [0, 1, 3, 4]
    top, pos = np.full((1, 5, 6), -1.0), np.full((1, 5), -1, "int32")
    top[0, :4], pos[0, :4] = boxes.values[0, keep], keep
    yield "vision.get_valid_counts", "R.vision.get_valid_counts({x}, score_threshold=0.0)", {"x": boxes}, (np.int32([4]), g.out(top), pos), 0, {"x": ("b", "n", None)}
    want = np.int32([[0, 3, 4, -1, -1]])
    s = {"x": ("b", "n", None), "v": ("b",), "i": ("b", "n")}
    yield "vision.non_max_suppression", "R.vision.non_max_suppression({x}, {v}, {i})", {"x": g.out(top), "v": np.int32([4]), "i": pos}, (want, np.int32([[3]])), 0, s
    b4, sc = g.t(boxes.values[..., 2:]), g.t([[[4, 3, 0, 2, 1]]])
    flat = np.zeros((5, 3), "int64")
    flat[:4, 2] = [0, 3, 4, 2]
    call = 'R.vision.all_class_non_max_suppression({b}, {s}, R.const(9, "int64"), R.const(0.5, "float32"), R.const(-1.0, "float32")'
    yield "vision.all_class_non_max_suppression", call + ', output_format="tensorflow")', {"b": b4, "s": sc}, (flat[None, :, 1:], np.float32([[4, 2, 1, 0, 0]]), np.int64([4])), 0, {"b": ("b", "n", None), "s": ("b", "c", "n")}


GROUPS = {"linalg": linalg, "networks": networks, "dequantize": dequantize, "convs": convs, "pools": pools,
          "images": images, "vision": vision}
