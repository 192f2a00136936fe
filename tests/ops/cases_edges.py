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
    # Detection with no boxes, regions, anchors; quantisation, sampling, gradients of no rows.
    add("R.vision.all_class_non_max_suppression({b}, {s}, R.const(3, \"int64\"), R.const(0.5, \"float32\"), R.const(0.0, \"float32\"))",
        {"b": empty(1, 0, 4), "s": empty(1, 2, 0)}, (empty(0, 3, dtype="int64"), np.zeros(1, "int64")), {"b": ("b", "n", None), "s": ("b", "c", "n")})
    add("R.vision.get_valid_counts({d}, score_threshold=0.5)", {"d": empty(2, 0, 6)}, (np.zeros(2, "int32"), empty(2, 0, 6), empty(2, 0, dtype="int32")),
        {"d": ("b", "n", None)})
    for pool in ("roi_align({x}, {r}, (2, 2), 1.0, 2", "roi_pool({x}, {r}, (2, 2), 1.0"):
        add(f"R.vision.{pool})", {"x": np.ones((1, 3, 4, 4), "float32"), "r": empty(0, 5)}, empty(0, 3, 2, 2), {"r": ("n", None)})
    add("R.vision.multibox_transform_loc({c}, {l}, {a})", {"c": empty(1, 2, 0), "l": empty(1, 0), "a": empty(1, 0, 4)}, (empty(1, 0, 4), empty(1, 2, 0)), static_only=True)
    add("R.quantize({x}, R.const(0.5, \"float32\"), R.const(0, \"int8\"), axis=-1, out_dtype=\"int8\")", {"x": e}, empty(0, 4, dtype="int8"))
    add("R.dequantize({x}, R.const(0.5, \"float32\"), R.const(0, \"int8\"), axis=-1, out_dtype=\"float32\")", {"x": empty(0, 4, dtype="int8")}, e)
    add("R.multinomial_from_uniform({p}, {u}, {i})", {"p": f, "u": empty(0, 1), "i": empty(0, 1, dtype="int64")}, empty(0, 1, dtype="int64"),
        {"p": ("n", "c"), "u": ("k", None), "i": ("k", None)})
    add("R.grad.take_backward({g}, {x}, {i}, axis=0)", {"g": e, "x": f, "i": none}, np.zeros_like(f), {"g": ("k", "m"), "x": ("n", "m"), "i": ("k",)})
    add("R.nn.attention_bias({q}, {k}, {k}, {b})", {"q": empty(1, 0, 2, 4), "k": np.ones((1, 3, 2, 4), "float32"), "b": empty(1, 2, 0, 3)}, empty(1, 0, 2, 4), static_only=True)
    add("R.nn.batch_norm({x}, {g}, {g}, {g}, {g}, axis=-1, training=False)[0]", {"x": e, "g": g}, e, {"x": ("n", None)})
    add("R.size({x})", {"x": e}, np.int64(0))
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
        add("R.gather_elements({x}, {i}, axis=1)", {"x": x, "i": np.int64([[3, 0], [1, 0]])}, F([[-0.0, NAN], [NAN, INF]]), {"x": ("n", "m"), "i": ("n", "k")})
        add("R.gather_nd({x}, {i})", {"x": x, "i": np.int64([[0, 2], [1, 0]])}, F([-INF, INF]), {"x": ("n", "m"), "i": ("k", None)})
        add("R.scatter_elements({x}, {i}, {u}, axis=1)", {"x": x, "i": np.int64([[0], [3]]), "u": F([[INF], [NAN]])}, F([[INF, 1, -INF, -0.0], [INF, NAN, 0.0, NAN]]),
            {"x": ("n", "m"), "i": ("n", "k"), "u": ("n", "k")})
        g4 = np.ones(4, "float32")
        add("R.nn.layer_norm({x}, {g}, {g}, axes=[-1])", {"x": x, "g": g4}, np.full_like(x, NAN), {"x": ("n", None)})
        add("R.nn.rms_norm({x}, {g}, axes=[-1])", {"x": F([[NAN, 1, 2, 3], [0, 0, 0, 0]]), "g": g4}, F([[NAN] * 4, [0] * 4]), {"x": ("n", None)})
        add("R.nn.cross_entropy_with_logits({x}, {y})", {"x": x, "y": np.ones_like(x)}, F(NAN), {"x": ("n", "m"), "y": ("n", "m")})
        add("R.einsum(({x},), \"ij->i\")", {"x": x}, F([NAN, NAN]), t)
        add("R.median({x}, axis=1)", {"x": F([[NAN, 1, 3], [INF, -INF, 2]])}, (F([3, 2]), np.int64([2, 2])), t)
        add("R.std({x}, axis=0)", {"x": x}, F([NAN, NAN, NAN, 1]), t)
        add("R.nn.selu({x})", {"x": F([NAN, INF, -0.0])}, F([NAN, INF, -0.0]), {"x": ("n",)})
        add("R.nn.gelu_tanh({x})", {"x": F([NAN, INF, -0.0])}, F([NAN, INF, -0.0]), {"x": ("n",)})
        add("R.nn.conv2d({x}, {w})", {"x": F([[[[1, NAN], [INF, 2]]]]), "w": F([[[[1]]]])}, F([[[[1, NAN], [INF, 2]]]]), {"x": ("n", None, None, None)})
        add("R.nn.max_pool2d({x}, pool_size=[2, 1])", {"x": F([[[[1, NAN], [-INF, 2], [INF, 3]]]])}, F([[[[1, NAN], [INF, 3]]]]), {"x": ("n", "c", None, None)})
        add("R.nn.avg_pool2d({x}, pool_size=[2, 1])", {"x": F([[[[1, NAN], [-INF, 2], [4, 3]]]])}, F([[[[-INF, NAN], [-INF, 2.5]]]]), {"x": ("n", "c", None, None)})
        add("R.nn.softplus({x})", {"x": F([NAN, INF, -INF])}, F([NAN, INF, 0]), {"x": ("n",)})
        add("R.nn.prelu({x}, R.const([0.5], \"float32\"), axis=-1)", {"x": F([[NAN], [INF], [-INF]])}, F([[NAN], [INF], [-INF]]), {"x": ("n", None)})
        add("R.log_add_exp({x}, {y})", {"x": F([NAN, INF, -INF, -INF]), "y": F([1, -INF, -INF, 2])}, F([NAN, INF, -INF, 2]), {"x": ("n",), "y": ("n",)})
        add("R.bucketize({x}, R.const([1.0, 2.0], \"float32\"))", {"x": F([NAN, INF, -INF, 1])}, np.int64([2, 2, 0, 0]), {"x": ("n",)})
        add("R.image.resize2d({x}, (2, 2), layout=\"NCHW\", method=\"nearest_neighbor\", coordinate_transformation_mode=\"asymmetric\", rounding_method=\"floor\")",
            {"x": F([[[[NAN, INF], [-INF, -0.0]]]])}, F([[[[NAN, INF], [-INF, -0.0]]]]), {"x": ("n", "c", None, None)})


def high_rank(add):
    """Nine dims, small and some 1."""
    shape = (2, 1, 3, 1, 2, 2, 1, 1, 2)
    x = (np.arange(np.prod(shape)) * 7 % 24).astype("float32").reshape(shape)
    t = {"x": tuple(f"d{i}" for i in range(9))}
    order = [8, 0, 7, 2, 6, 4, 5, 1, 3]
    for text, want in ((f"R.permute_dims({{x}}, {order})", x.transpose(order)), ("R.sum({x}, axis=[0, 2, -1])", x.sum((0, 2, -1))),
                       ("R.max({x}, axis=[2], keepdims=True)", x.max(2, keepdims=True)), ("R.mean({x}, axis=[4, 5, 8])", x.mean((4, 5, 8))),
                       ("R.argmax({x}, axis=2)", x.argmax(2)), ("R.concat(({x}, {x}), axis=5)", np.concatenate([x, x], 5)),
                       ("R.stack(({x}, {x}), axis=-1)", np.stack([x, x], -1)), ("R.flip({x}, axis=2)", np.flip(x, 2)),
                       ("R.repeat({x}, 2, axis=4)", np.repeat(x, 2, 4)), ("R.tile({x}, (1, 2, 1, 1, 1, 2, 1, 1, 1))", np.tile(x, (1, 2, 1, 1, 1, 2, 1, 1, 1))),
                       ("R.take({x}, R.const([1, 0], \"int64\"), axis=4)", x.take([1, 0], 4)), ("R.cumsum({x}, axis=2)", x.cumsum(2)),
                       ("R.sort({x}, axis=2)", np.sort(x, 2)), ("R.argsort({x}, axis=2)", np.argsort(x, 2, kind="stable").astype("int32")),
                       ("R.expand_dims({x}, [0, -1])", x[None, ..., None]), ("R.flatten({x})", x.ravel()),
                       ("R.strided_slice({x}, (2, 4), (2, 0), (-9, 1), (-2, 1))", x[:, :, ::-2, :, 0:1]),
                       ("R.nn.relu({x})", x), ("R.where(R.greater({x}, R.const(9.0, \"float32\")), {x}, R.negative({x}))", np.where(x > 9, x, -x))):
        add(text, {"x": x}, want, t)
    add("R.squeeze({x}, [1, 3, 6, -2])", {"x": x}, x.squeeze((1, 3, 6, 7)), {"x": ("a", None, "b", None, "c", "d", None, None, "e")})
    add("R.split({x}, 2, axis=4)", {"x": x}, (x[:, :, :, :, :1], x[:, :, :, :, 1:]), static_only=True)
    add("R.reshape({x}, (2, 3, -1))", {"x": x}, x.reshape(2, 3, -1), static_only=True)
    i = np.zeros((2, 1, 1, 1, 2, 2, 1, 1, 2), "int64") + 2
    add("R.gather_elements({x}, {i}, axis=2)", {"x": x, "i": i}, x[:, :, 2:3], static_only=True)
    y = x.astype("float64")
    soft = np.exp(y - y.max(2, keepdims=True))
    add("R.nn.softmax({x}, axis=2)", {"x": x}, (soft / soft.sum(2, keepdims=True)).astype("float32"), t, tol=1e-6)
    g = np.ones(2, "float32")
    norm = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    add("R.nn.layer_norm({x}, {g}, {g}, axes=[-1], center=False)", {"x": x, "g": g}, norm.astype("float32"), {"x": t["x"][:8] + (None,)}, tol=1e-6)
    a, b = x.reshape(2, 1, 3, 1, 2, 1, 2, 2)[..., None], np.ones((2, 1, 1, 5, 1, 1, 1, 1, 3), "float32")
    add("R.matmul({a}, {b})", {"a": a, "b": b}, a @ b, static_only=True)


def regions(add):
    """Regions and points that lie nowhere: outside of the image, without an end, NaN."""
    x = np.arange(1, 17, dtype="float32").reshape(1, 1, 4, 4)
    away = F([[0, 40, 40, 43, 43], [0, -40, -40, -37, -37], [0, NAN, NAN, NAN, NAN], [0, -INF, -INF, INF, INF], [0, 1e30, 1e30, 2e30, 2e30]])
    for ratio in (2, -1):
        n = 5 if ratio > 0 else 4  # the last one has 32768 samples a side then
        add(f"R.vision.roi_align({{x}}, {{r}}, (2, 2), 1.0, {ratio}, True)", {"x": x, "r": away[:n]}, np.zeros((n, 1, 2, 2), "float32"), {"r": ("n", None)})
    add("R.image.grid_sample({x}, {g})", {"x": x, "g": F([[[[INF, -INF, 1e30]], [[0, 0, -1e30]]]])}, np.zeros((1, 1, 1, 3), "float32"),
        {"x": ("n", "c", None, None), "g": ("n", None, "h", "w")})


def build(Case):
    out = []

    def add(expr, inputs, want, sym=None, **kw):
        out.append(Case("edges", expr, inputs, want, sym=sym, **kw))
    without_elements(add)
    negative_axes(add)
    specials(add)
    high_rank(add)
    regions(add)
    return out
