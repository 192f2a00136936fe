"""Edges of operators that the other tables don't reach: no elements, negative axes, NaN, infinities. Expected values
from NumPy or by hand: what is computed of no elements is the start value of the sum, product or count."""
import numpy as np

F = np.float32
NAN, INF = np.nan, np.inf


def empty(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


def without_elements(add):
    """(expression, inputs, expected): some dim is 0."""
    e, f, i = empty(0, 4), np.arange(8, dtype="float32").reshape(2, 4), empty(0, 4, dtype="int64")
    for text in ("R.nn.softmax({x})", "R.nn.log_softmax({x}, axis=-1)", "R.nn.gelu({x})", "R.nn.dropout({x})[0]", "R.flip({x}, axis=0)",
                 "R.tril({x})", "R.triu({x})", "R.cumsum({x}, axis=0)", "R.cumprod({x}, axis=1)", "R.zeros_like({x})", "R.ones_like({x})",
                 "R.collapse_sum_like({x}, {x})",                  "R.nn.pad({x}, (0, 0, 0, 0))", "R.layout_transform({x}, index_map=lambda i, j: (i, j))", "R.sort({x}, axis=0)",
                 "R.split({x}, [4], axis=1)[0]", "R.where(R.greater({x}, {x}), {x}, {x})", "R.nn.prelu({x}, R.const([0.5, 0.5, 0.5, 0.5], \"float32\"))"):
        add(text, {"x": e}, e)
    add("R.squeeze({x})", {"x": empty(1, 0, 4)}, e, static_only=True)
    add("R.nn.softmax({x}, axis=0)", {"x": e}, e)
    add("R.left_shift({i}, {i})", {"i": i}, i)
    add("R.right_shift({i}, {i})", {"i": i}, i)
    add("R.full_like({x}, R.const(3, \"float32\"))", {"x": e}, e)
    add("R.flatten({x})", {"x": e}, empty(0))
    add("R.nn.batch_flatten({x})", {"x": empty(0, 2, 3)}, empty(0, 6))
    add("R.permute_dims({x})", {"x": e}, empty(4, 0))
    add("R.expand_dims({x}, [-1])", {"x": e}, empty(0, 4, 1))
    add("R.repeat({x}, 2, axis=1)", {"x": e}, empty(0, 8))
    add("R.tile({x}, (2, 2))", {"x": e}, empty(0, 8))
    add("R.stack(({x}, {x}), axis=1)", {"x": e}, empty(0, 2, 4))
    add("R.concat(({x}, {y}))", {"x": e, "y": f}, f, {"x": ("n", "k"), "y": ("m", "k")})
    add("R.nn.pad({x}, (1, 1, 0, 0), pad_value=2.0)", {"x": e}, np.full((2, 4), 2, "float32"))
    add("R.broadcast_to({x}, (0, 4))", {"x": empty(1, 4)}, e, static_only=True)
    add("R.topk({x}, k=2, axis=1)", {"x": e}, (empty(0, 2), empty(0, 2, dtype="int32")), {"x": ("n", None)})
    add("R.median({x}, axis=1)", {"x": e}, (empty(0), empty(0, dtype="int64")), {"x": ("n", None)})
    add("R.one_hot({i}, R.prim_value(1), R.prim_value(0), depth=3)", {"i": empty(0, dtype="int64")}, empty(0, 3, dtype="int64"))
    # Sums, means and their kin: of no elements, and of no rows.
    for name, of_none in (("sum", 0), ("prod", 1), ("mean", NAN), ("variance", NAN), ("std", NAN)):
        add(f"R.{name}({{x}}, axis=0)", {"x": e}, np.full(4, of_none, "float32"))
        add(f"R.{name}({{x}}, axis=1)", {"x": e}, empty(0))
    add("R.argmax({x}, axis=1)", {"x": e}, empty(0, dtype="int64"))
    add("R.argmin({x}, axis=-1)", {"x": e}, empty(0, dtype="int64"))
    # Products: a sum over no elements is 0.
    add("R.matmul({x}, {y})", {"x": empty(2, 0), "y": empty(0, 3)}, empty(2, 3), {"x": ("n", "k"), "y": ("k", "m")})
    add("R.linear({x}, {w})", {"x": empty(2, 0), "w": empty(3, 0)}, empty(2, 3), {"x": ("n", "k"), "w": ("m", "k")})
    add("R.outer({x}, {y})", {"x": empty(0), "y": np.ones(3, "float32")}, empty(0, 3), {"x": ("n",), "y": ("m",)})
    add("R.einsum(({x}, {y}), \"ij,jk->ik\")", {"x": empty(2, 0), "y": empty(0, 3)}, empty(2, 3), {"x": ("n", "k"), "y": ("k", "m")})
    # Convolutions, pools, images: no images, no output channels, no input channels (a sum over none).
    for d in (1, 2, 3):
        w = np.ones((3, 2) + (1,) * d, "float32")
        add(f"R.nn.conv{d}d({{x}}, {{w}})", {"x": empty(0, 2, *(4,) * d), "w": w}, empty(0, 3, *(4,) * d), {"x": ("n",) + (None,) * (d + 1)})
        add(f"R.nn.conv{d}d({{x}}, {{w}})", {"x": np.ones((1, 2) + (4,) * d, "float32"), "w": empty(0, 2, *(1,) * d)}, empty(1, 0, *(4,) * d),
            {"x": ("n",) + (None,) * (d + 1)})
        add(f"R.nn.conv{d}d_transpose({{x}}, {{w}})", {"x": empty(0, 3, *(4,) * d), "w": w}, empty(0, 2, *(4,) * d), {"x": ("n",) + (None,) * (d + 1)})
        for pool in ("max_pool", "avg_pool"):
            add(f"R.nn.{pool}{d}d({{x}}, pool_size={[2] * d})", {"x": empty(0, 2, *(4,) * d)}, empty(0, 2, *(3,) * d), {"x": ("n", "c") + (None,) * d})
        add(f"R.nn.adaptive_avg_pool{d}d({{x}}, output_size={[2] * d})", {"x": empty(0, 2, *(4,) * d)}, empty(0, 2, *(2,) * d),
            {"x": ("n", "c") + (None,) * d})
    add("R.image.resize2d({x}, (2, 2), layout=\"NCHW\")", {"x": empty(0, 2, 4, 4)}, empty(0, 2, 2, 2), {"x": ("n", "c", None, None)})
    add("R.image.resize3d({x}, (2, 2, 2))", {"x": empty(0, 2, 4, 4, 4)}, empty(0, 2, 2, 2, 2), {"x": ("n", "c", None, None, None)})
    add("R.image.affine_grid({x}, (2, 2))", {"x": empty(0, 2, 3)}, empty(0, 2, 2, 2), {"x": ("n", None, None)})
    add("R.image.grid_sample({x}, {y})", {"x": empty(0, 2, 4, 4), "y": empty(0, 2, 3, 3)}, empty(0, 2, 3, 3),
        {"x": ("n", "c", None, None), "y": ("n", None, None, None)})
    add("R.nn.pixel_shuffle({x}, 2)", {"x": empty(0, 4, 2, 2)}, empty(0, 1, 4, 4), {"x": ("n", None, None, None)})
    # Norms over no rows.
    g = np.ones(4, "float32")
    add("R.nn.layer_norm({x}, {g}, {g}, axes=[-1])", {"x": e, "g": g}, e, {"x": ("n", None)})
    add("R.nn.rms_norm({x}, {g}, axes=[-1])", {"x": e, "g": g}, e, {"x": ("n", None)})
    add("R.nn.group_norm({x}, {g}, {g}, num_groups=2, channel_axis=1, axes=[2])", {"x": empty(0, 4, 3), "g": g}, empty(0, 4, 3), {"x": ("n", None, None)})
    add("R.nn.instance_norm({x}, {g}, {g}, channel_axis=1, axes=[2])", {"x": empty(0, 4, 3), "g": g}, empty(0, 4, 3), {"x": ("n", None, None)})
    # Attention over no queries.
    add("R.nn.attention({q}, {k}, {k})", {"q": empty(1, 0, 2, 4), "k": np.ones((1, 3, 2, 4), "float32")}, empty(1, 0, 2, 4),
        {"q": ("b", "s", None, None), "k": ("b", "t", None, None)})
    # Selection and scattering: nothing picked, nothing written.
    none = empty(0, dtype="int64")
    add("R.take({x}, {i}, axis=0)", {"x": f, "i": none}, e, {"x": ("n", "m"), "i": ("k",)})
    add("R.gather_elements({x}, {i}, axis=0)", {"x": f, "i": i}, e, {"x": ("n", "m"), "i": ("k", "m")})
    add("R.gather_nd({x}, {i})", {"x": f, "i": empty(0, 1, dtype="int64")}, e, {"x": ("n", "m"), "i": ("k", None)})
    add("R.scatter_elements({x}, {i}, {u}, axis=0)", {"x": f, "i": i, "u": e}, f, {"x": ("n", "m"), "i": ("k", "m"), "u": ("k", "m")})
    add("R.scatter_nd({x}, {i}, {u})", {"x": f, "i": empty(0, 1, dtype="int64"), "u": e}, f, {"x": ("n", "m"), "i": ("k", None), "u": ("k", "m")})
    add("R.index_put({x}, ({i},), {u})", {"x": np.arange(3, dtype="float32"), "i": none, "u": empty(0)}, np.arange(3, dtype="float32"),
        {"x": ("n",), "i": ("k",), "u": ("k",)})
    add("R.slice_scatter({x}, {u}, R.prim_value(1), R.prim_value(1), R.prim_value(1), axis=0)", {"x": f, "u": e}, f, static_only=True)
    add("R.meshgrid(({x}, {y}))", {"x": empty(0), "y": np.ones(3, "float32")}, (empty(0, 3), empty(0, 3)), {"x": ("n",), "y": ("m",)})
    add("R.reverse_sequence({x}, {i}, seq_axis=1, batch_axis=0)", {"x": e, "i": none}, e, {"x": ("n", None), "i": ("n",)})
    add("R.bucketize({x}, {b})", {"x": np.ones(3, "float32"), "b": empty(0)}, np.zeros(3, "int64"), {"x": ("n",), "b": ("m",)})
    add("R.dynamic_strided_slice({x}, {b}, {b}, {s})", {"x": f, "b": np.int64([1, 1]), "s": np.int64([1, 1])}, empty(0, 0), static_only=True)
    # Losses of no rows: a sum of none; a mean of none is NaN.
    add("R.nn.cross_entropy_with_logits({x}, {y})", {"x": e, "y": e}, np.float32(NAN), {"x": ("n", "c"), "y": ("n", "c")})
    add("R.nn.nll_loss({x}, {t}, reduction=\"sum\")", {"x": e, "t": none}, np.float32(0), {"x": ("n", None), "t": ("n",)})
    # Created from a dim that is 0.
    for name in ("zeros", "ones"):
        add(f"R.{name}(R.shape([0, 2]), \"float32\")", {"x": f}, empty(0, 2), static_only=True)
    add("R.full(R.shape([0, 2]), R.const(1, \"float32\"), \"float32\")", {"x": f}, empty(0, 2), static_only=True)
    add("R.arange(R.prim_value(3), R.prim_value(1), R.prim_value(1), \"int64\")", {"x": f}, none, static_only=True)
    add("R.eye(0, 3, 0, \"float32\")", {"x": f}, empty(0, 3), static_only=True)
    add("R.eye_like({x})", {"x": e}, e)


def negative_axes(add):
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    t = {"x": ("a", "b", "c")}
    add("R.expand_dims({x}, [-1, -5])", {"x": x}, x[None, ..., None], t)
    add("R.permute_dims({x}, [-1, 0, -2])", {"x": x}, x.transpose(2, 0, 1), t)
    add("R.repeat({x}, 2, axis=-2)", {"x": x}, np.repeat(x, 2, -2), t)
    add("R.squeeze({x}, [-2])", {"x": x[:, :1]}, x[:, 0], {"x": ("a", None, "c")})
    add("R.flip({x}, axis=-1)", {"x": x}, x[..., ::-1], t)
    i = np.int64([[[1, 0, -1, -2]]]) * np.ones((2, 2, 1), "int64")
    add("R.gather_elements({x}, {i}, axis=-2)", {"x": x, "i": i}, np.take_along_axis(x, i % 3, 1), {"x": ("a", "b", "c"), "i": ("a", "k", "c")})
    want = x.copy()
    np.put_along_axis(want, np.int64([[[2]]] * 2) * np.ones((2, 1, 4), "int64"), 9, -2)
    add("R.scatter_elements({x}, {i}, {u}, axis=-2)", {"x": x, "i": np.full((2, 1, 4), 2, "int64"), "u": np.full((2, 1, 4), 9, "float32")}, want,
        {"x": ("a", "b", "c"), "i": ("a", "k", "c"), "u": ("a", "k", "c")})
    want = x.copy()
    want[..., 1:3] = 7
    add("R.slice_scatter({x}, {u}, R.prim_value(1), R.prim_value(3), R.prim_value(1), axis=-1)", {"x": x, "u": np.full((2, 3, 2), 7, "float32")}, want, static_only=True)
    hot = np.eye(3, dtype="int64")[[2, 0]].T
    add("R.one_hot({i}, R.prim_value(1), R.prim_value(0), depth=3, axis=-2)", {"i": np.int64([2, 0])}, hot, {"i": ("n",)})
    g = np.arange(1, 4, dtype="float32")
    y = x.astype("float64")
    for name, axes in (("group_norm", (1, 2)), ("instance_norm", (2,))):
        norm = (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + 1e-5) * g[None, :, None] + g[None, :, None]
        groups = "num_groups=1, " if name == "group_norm" else ""
        add(f"R.nn.{name}({{x}}, {{g}}, {{g}}, {groups}channel_axis=-2, axes=[-1])", {"x": x, "g": g}, norm.astype("float32"), {"x": ("a", None, "c")}, tol=1e-6)


def specials(add):
    """NaN and infinities go through what only moves elements, and through sums and products."""
    x = F([[NAN, 1, -INF, -0.0], [INF, NAN, 0.0, 2]])
    t = {"x": ("n", "m")}
    for text, want in (("R.flip({x}, axis=1)", x[:, ::-1]), ("R.permute_dims({x})", x.T), ("R.flatten({x})", x.ravel()),
                       ("R.repeat({x}, 2, axis=0)", np.repeat(x, 2, 0)), ("R.tile({x}, (1, 2))", np.tile(x, (1, 2))),
                       ("R.concat(({x}, {x}))", np.concatenate([x, x])), ("R.stack(({x}, {x}))", np.stack([x, x])),
                       ("R.nn.pad({x}, (0, 0, 1, 0))", np.pad(x, ((0, 0), (1, 0)))), ("R.tril({x})", np.tril(x)), ("R.triu({x})", np.triu(x)),
                       ("R.where(R.isnan({x}), R.zeros_like({x}), {x})", np.where(np.isnan(x), F(0), x)),
                       ("R.strided_slice({x}, (1,), (3,), (-5,), (-1,))", x[:, ::-1]), ("R.collapse_sum_like({x}, {x})", x),
                       ("R.take({x}, R.const([1, 0], \"int64\"), axis=0)", x[[1, 0]]), ("R.expand_dims({x}, [0])", x[None])):
        add(text, {"x": x}, want, t)
    with np.errstate(all="ignore"):
        add("R.sum({x}, axis=1)", {"x": x}, F([NAN, NAN]), t)
        add("R.sum({x}, axis=0)", {"x": x}, F([NAN, NAN, -INF, 2]), t)
        add("R.prod({x}, axis=0)", {"x": x}, F([NAN, NAN, NAN, -0.0]), t)
        add("R.mean({x}, axis=0)", {"x": x}, F([NAN, NAN, -INF, 1]), t)
        add("R.variance({x}, axis=0)", {"x": x}, F([NAN, NAN, NAN, 1]), t)
        add("R.cumsum({x}, axis=1)", {"x": x}, np.cumsum(x, 1, dtype="float32"), t)
        add("R.cumprod({x}, axis=1)", {"x": x}, np.cumprod(x, 1, dtype="float32"), t)
        add("R.nn.softmax({x}, axis=1)", {"x": x}, np.full_like(x, NAN), t)
        add("R.nn.softmax({x}, axis=1)", {"x": F([[-INF, 0, -INF, 0]])}, F([[0, 0.5, 0, 0.5]]), t)
        add("R.nn.log_softmax({x}, axis=1)", {"x": F([[-INF, 0, -INF, -INF]])}, F([[-INF, 0, -INF, -INF]]), t)
        y = F([[1, INF], [2, 3], [NAN, 1], [0, 1]])
        z = F([[1, 2, 3, 0], [0, 1, 0, INF]])
        add("R.matmul({z}, {y})", {"z": z, "y": y}, z @ y, {"z": ("n", "k"), "y": ("k", "m")})
        add("R.outer({x}, {y})", {"x": x[0], "y": F([0, 1])}, np.outer(x[0], F([0, 1])), {"x": ("n",), "y": ("m",)})
        add("R.nn.max_pool1d({x}, pool_size=[2])", {"x": F([[[1, NAN, 2, -INF, 3]]])}, F([[[NAN, NAN, 2, 3]]]), {"x": ("n", "c", None)})
        add("R.nn.avg_pool1d({x}, pool_size=[2])", {"x": F([[[1, NAN, 2, -INF, 3]]])}, F([[[NAN, NAN, -INF, -INF]]]), {"x": ("n", "c", None)})
        add("R.nn.conv1d({x}, {w})", {"x": F([[[1, NAN, 2, -INF, 3, 4]]]), "w": F([[[1, 0]]])}, F([[[NAN, NAN, NAN, -INF, 3]]]), {"x": ("n", None, None)})
        add("R.nn.silu({x})", {"x": F([NAN, INF, -0.0])}, F([NAN, INF, -0.0]), {"x": ("n",)})
        add("R.nn.gelu({x})", {"x": F([NAN, INF, -0.0])}, F([NAN, INF, -0.0]), {"x": ("n",)})
        add("R.nn.softplus({x})", {"x": F([NAN, INF, -INF])}, F([NAN, INF, 0]), {"x": ("n",)})
        add("R.nn.prelu({x}, R.const([0.5], \"float32\"), axis=-1)", {"x": F([[NAN], [INF], [-INF]])}, F([[NAN], [INF], [-INF]]), {"x": ("n", None)})
        add("R.log_add_exp({x}, {y})", {"x": F([NAN, INF, -INF, -INF]), "y": F([1, -INF, -INF, 2])}, F([NAN, INF, -INF, 2]), {"x": ("n",), "y": ("n",)})
        add("R.bucketize({x}, R.const([1.0, 2.0], \"float32\"))", {"x": F([NAN, INF, -INF, 1])}, np.int64([2, 2, 0, 0]), {"x": ("n",)})
        add("R.image.resize2d({x}, (2, 2), layout=\"NCHW\", method=\"nearest_neighbor\", coordinate_transformation_mode=\"asymmetric\", rounding_method=\"floor\")",
            {"x": F([[[[NAN, INF], [-INF, -0.0]]]])}, F([[[[NAN, INF], [-INF, -0.0]]]]), {"x": ("n", "c", None, None)})


def build(Case):
    out = []

    def add(expr, inputs, want, sym=None, **kw):
        out.append(Case("edges", expr, inputs, want, sym=sym, **kw))
    without_elements(add)
    negative_axes(add)
    specials(add)
    return out
