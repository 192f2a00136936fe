"""More operators for generate.py: windows of every rank and layout, norms, images, attention, sorting, sets, indices
in tensors, padding, einsum, bfloat16; and what functions do: writes in place, nested branches, recursion, closures,
local functions, nested tuples. Each adds a binding to f or returns None; bounds and grains as in generate.py."""
from generate import FLOATS, Binding, Val, as_dim, product, shape_text
import generate


def const(d):
    return d.const()


def floats(v):
    return v.dtype in FLOATS and v.bound < 100


def exactly(g, x, y):
    """The grain of a product of the two."""
    return None if x.grain is None or y.grain is None else x.grain + y.grain


def plain(dims):
    """Whether the dims can be the signature of a function of its own."""
    return all(d.const() is not None or d.bare() for d in dims)


def helper(g, name, params, ret, body, dims):
    """Adds a private Relax function. params: [(name, dtype, dims)]; ret: annotation; body: lines."""
    quote = lambda d: str(d.const()) if d.const() is not None else f'"{d.text()}"'
    typed = []
    for n, dtype, ds in params:
        s = [quote(d) for d in ds]
        typed.append(f'{n}: R.Tensor(({", ".join(s)}{"," if len(s) == 1 else ""}), dtype="{dtype}")')
    names = sorted({n for d in dims for n in d.names()})
    lines = ["    @R.function(private=True)", f"    def {name}({', '.join(typed)}) -> {ret}:", "        cls = Module"]
    lines += [f"        {n} = T.int64()" for n in names] + ["        " + l for l in body]
    g.kernels[name] = "\n".join(lines) + "\n"


def signature(v):
    """The annotation of a result in a signature, where composed dims are strings."""
    s = [str(d.const()) if d.const() is not None else f'"{d.text()}"' for d in v.dims]
    return f'R.Tensor(({", ".join(s)}{"," if len(s) == 1 else ""}), dtype="{v.dtype}")'


# --- windows --------------------------------------------------------------------------------------
def image(g, f, rank, limit=12):
    """A float tensor (N, C, spatial...) of static spatial dims, from the scope or a new parameter."""
    rng = g.rng
    x = g.pick(f, lambda v: len(v.dims) == rank + 2 and floats(v) and all(const(d) for d in v.dims[1:]))
    if x is not None and rng.random() < 0.6:
        return x
    dims = [rng.choice([as_dim(1, g.sizes), as_dim(2, g.sizes), g.dim(f)]), as_dim(rng.choice([1, 2, 3, 4, 6, 8]), g.sizes)]
    dims += [as_dim(rng.randint(1, limit), g.sizes) for _ in range(rank)]
    if not g.small(dims):
        return None
    return g.param(f, rng.choice(["float32", "float32", "float64", "float16"]), dims)


SPACE = {1: "W", 2: "HW", 3: "DHW"}


def layouts(rng, rank):
    s = SPACE[rank]
    return rng.choice([("NC" + s, "OI" + s), ("N" + s + "C", "O" + s + "I"), ("NC" + s, "O" + s + "I"), ("N" + s + "C", s + "IO")])


def laid_out(names, order, values):
    return [values[names.index(c)] for c in order]


def op_conv_nd(g, f):
    rng = g.rng
    rank = rng.choice([1, 1, 2, 2, 3])
    x = image(g, f, rank, 8 if rank == 3 else 14)
    if x is None:
        return None
    c = const(x.dims[1])
    groups = rng.choice([k for k in (1, 1, 2, 3, c) if c % k == 0])
    out = groups * rng.choice([1, 2, 3, 8])
    kernel = [rng.randint(1, 4) for _ in range(rank)]
    stride = [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
    dilation = [rng.choice([1, 1, 2]) for _ in range(rank)]
    pads = [rng.choice([0, 0, 1, 2]) for _ in range(2 * rank)]
    dl, kl = layouts(rng, rank)
    spatial = []
    for i in range(rank):
        e = const(x.dims[2 + i]) + pads[i] + pads[rank + i] - dilation[i] * (kernel[i] - 1) - 1
        if e < 0:
            return None
        spatial.append(e // stride[i] + 1)
    names = "OI" + SPACE[rank]
    w = g.like(f, x, dims=[as_dim(v, g.sizes) for v in laid_out(names, kl, [out, c // groups] + kernel)])
    if w is None or w.bound > 100:
        return None
    data, text = x, "{" + x.name + "}"
    if dl != "NC" + SPACE[rank]:
        order = ["NC" + SPACE[rank]][0]
        text = f"R.permute_dims({text}, {[order.index(k) for k in dl]})"
    dims = laid_out("NC" + SPACE[rank], dl, [x.dims[0], as_dim(out, g.sizes)] + [as_dim(s, g.sizes) for s in spatial])
    taps = c // groups
    for k in kernel:
        taps *= k
    if max(product(dims, g.sizes).vals) * taps > generate.WORK:
        return None
    t = (f'R.nn.conv{rank}d({text}, {{{w.name}}}, strides={stride}, padding={pads}, dilation={dilation}, groups={groups}, '
         f'data_layout="{dl}", kernel_layout="{kl}")')
    return g.bind(f, t, [x.name, w.name], x.dtype, dims, x.bound * w.bound * taps, exactly(g, x, w))


def op_conv_transpose(g, f):
    rng = g.rng
    rank = rng.choice([1, 2, 2, 3])
    x = image(g, f, rank, 6)
    if x is None:
        return None
    c = const(x.dims[1])
    groups = rng.choice([k for k in (1, 1, 2, c) if c % k == 0])
    per = rng.choice([1, 2, 3])
    kernel = [rng.randint(1, 3) for _ in range(rank)]
    stride = [rng.choice([1, 2, 3]) for _ in range(rank)]
    dilation = [rng.choice([1, 1, 2]) for _ in range(rank)]
    pads = [rng.choice([0, 0, 1]) for _ in range(2 * rank)]
    extra = [rng.randrange(s) for s in stride]
    spatial = [(const(x.dims[2 + i]) - 1) * stride[i] - pads[i] - pads[rank + i] + dilation[i] * (kernel[i] - 1) + extra[i] + 1
               for i in range(rank)]
    if min(spatial) < 1:
        return None
    w = g.like(f, x, dims=[as_dim(v, g.sizes) for v in [c, per] + kernel])
    if w is None or w.bound > 100:
        return None
    dims = [x.dims[0], as_dim(groups * per, g.sizes)] + [as_dim(s, g.sizes) for s in spatial]
    taps = c // groups
    for k in kernel:
        taps *= k
    if max(product(dims, g.sizes).vals) * taps > generate.WORK:
        return None
    t = (f'R.nn.conv{rank}d_transpose({{{x.name}}}, {{{w.name}}}, strides={stride}, padding={pads}, output_padding={extra}, '
         f'dilation={dilation}, groups={groups})')
    return g.bind(f, t, [x.name, w.name], x.dtype, dims, x.bound * w.bound * taps, exactly(g, x, w))


def op_pool_nd(g, f):
    rng = g.rng
    rank = rng.choice([1, 2, 3])
    x = image(g, f, rank, 9)
    if x is None:
        return None
    if rng.random() < 0.2:
        size = [rng.randint(1, const(d)) for d in x.dims[2:]]
        dims = x.dims[:2] + [as_dim(s, g.sizes) for s in size]
        return g.bind(f, f"R.nn.adaptive_avg_pool{rank}d({{{x.name}}}, output_size={size})", [x.name], x.dtype, dims, x.bound, None)
    pool = [rng.randint(1, 3) for _ in range(rank)]
    stride = [rng.choice([1, 2, 3]) for _ in range(rank)]
    pads = [rng.randrange(p) for p in pool + pool]
    dilation = [rng.choice([1, 1, 2]) for _ in range(rank)]
    spatial = []
    for i in range(rank):
        e = const(x.dims[2 + i]) + pads[i] + pads[rank + i] - dilation[i] * (pool[i] - 1) - 1
        if e < 0:
            return None
        spatial.append(e // stride[i] + 1)
    dims = x.dims[:2] + [as_dim(s, g.sizes) for s in spatial]
    kind = rng.choice(["max", "avg"])
    t = (f"R.nn.{kind}_pool{rank}d({{{x.name}}}, pool_size={pool}, strides={stride}, padding={pads}, dilation={dilation}, "
         f"count_include_pad={rng.random() < 0.5})")
    return g.bind(f, t, [x.name], x.dtype, dims, x.bound, x.grain if kind == "max" else None)


def op_channel_norm(g, f):
    rng = g.rng
    rank = rng.choice([1, 2])
    x = image(g, f, rank, 9)
    if x is None or min(product(x.dims, g.sizes).vals) == 0:
        return None
    c = x.dims[1]
    gamma, beta = g.like(f, x, dims=[c]), g.like(f, x, dims=[c])
    if gamma is None or beta is None or max(gamma.bound, beta.bound) > 50:
        return None
    axes = list(range(2, 2 + rank))
    names = [x.name, gamma.name, beta.name]
    args = ", ".join("{" + n + "}" for n in names)
    kind = rng.choice(["group_norm", "instance_norm", "batch_norm"])
    bound = 8 * gamma.bound + beta.bound + 8
    if kind == "batch_norm":
        mean = g.like(f, x, dims=[c])
        if mean is None:
            return None
        t = g.name("t")
        v = Val(g.name("v"), x.dtype, x.dims, (x.bound + mean.bound) * 2 * gamma.bound + beta.bound, None)
        if g.fits(v.dtype, v.bound, None) is None:
            return None
        f.bindings.append(Binding(f"{t}_v = R.add(R.abs({{{mean.name}}}), R.const(0.5, \"{x.dtype}\"))\n"
                                  f"{t} = R.nn.batch_norm({args}, {{{mean.name}}}, {t}_v, axis=1, training=False)\n{{out}} = {t}[0]",
                                  names + [mean.name], [v]))
        return v
    if kind == "group_norm":
        groups = rng.choice([k for k in range(1, const(c) + 1) if const(c) % k == 0])
        t = f"R.nn.group_norm({args}, num_groups={groups}, channel_axis=1, axes={axes}, epsilon=0.5)"
    else:
        t = f"R.nn.instance_norm({args}, channel_axis=1, axes={axes}, epsilon=0.5)"
    return g.bind(f, t, names, x.dtype, x.dims, bound, None)


def op_resize(g, f):
    rng = g.rng
    x = image(g, f, 2, 9)
    if x is None:
        return None
    size = [rng.randint(1, 12), rng.randint(1, 12)]
    dims = x.dims[:2] + [as_dim(s, g.sizes) for s in size]
    method = rng.choice(["nearest_neighbor", "linear", "cubic"])
    mode = rng.choice(["half_pixel", "align_corners", "asymmetric"])
    nearest = method == "nearest_neighbor"
    rounding = rng.choice(["round", "floor", "ceil"]) if nearest else ""
    t = f'R.image.resize2d({{{x.name}}}, ({size[0]}, {size[1]}), method="{method}", coordinate_transformation_mode="{mode}", rounding_method="{rounding}")'
    return g.bind(f, t, [x.name], x.dtype, dims, 2 * x.bound, x.grain if nearest else None)


def op_attention(g, f):
    rng = g.rng
    b, n = rng.choice([1, 2]), rng.choice([1, 2, 3])
    d, e = rng.choice([1, 4, 8, 16]), rng.choice([1, 4, 8, 9])
    one = lambda v: as_dim(v, g.sizes)
    q_len = g.dim(f)
    k_len = q_len if rng.random() < 0.6 else one(rng.choice([1, 5, 16, 33]))
    if min(k_len.vals) == 0:
        return None
    dims = [[one(b), q_len, one(n), one(d)], [one(b), k_len, one(n), one(d)], [one(b), k_len, one(n), one(e)]]
    if max(product([one(b), one(n), q_len, k_len, one(d + e)], g.sizes).vals) > generate.WORK or not all(g.small(s) for s in dims):
        return None
    dtype = rng.choice(["float32", "float32", "float64"])
    vs = [g.param(f, dtype, s) for s in dims]
    extra = ""
    uses = [v.name for v in vs]
    if rng.random() < 0.3:
        bias = [one(b), one(n), q_len, k_len]
        if g.small(bias):
            m = g.param(f, dtype, bias)
            extra = ", {" + m.name + "}"
            uses.append(m.name)
    causal = rng.choice(["", "", ', causal_mask="TopLeft"', ', causal_mask="BottomRight"'])
    if f.wild:
        causal = ""  # what a mask hides counts as finite (passes/README.md)
    scale = rng.choice(["", ", scale=0.25"])
    op = "attention_bias" if extra else "attention"
    args = ", ".join("{" + v.name + "}" for v in vs)
    return g.bind(f, f"R.nn.{op}({args}{extra}{causal}{scale})", uses, dtype, dims[0][:3] + [one(e)], 4.0, None)


# --- order, sets, indices -------------------------------------------------------------------------
def op_sort(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and v.exact() and v.dtype != "bool")
    if x is None:
        return None
    a = rng.randrange(len(x.dims))
    if max(x.dims[a].vals) > 200:
        return None
    u, down = "{" + x.name + "}", rng.random() < 0.5
    kind = rng.choice(["sort", "argsort", "topk", "median"])
    if kind == "sort":
        return g.bind(f, f"R.sort({u}, axis={a}, descending={down})", [x.name], x.dtype, x.dims, x.bound, x.grain)
    if kind == "argsort":
        to = rng.choice(["int32", "int64"])
        return g.bind(f, f'R.argsort({u}, axis={a}, descending={down}, dtype="{to}")', [x.name], to, x.dims, 200, None)
    dims = list(x.dims)
    if kind == "median":
        if min(x.dims[a].vals) == 0:
            return None
        del dims[a]
        outs = [Val(g.name("v"), x.dtype, dims, x.bound, x.grain), Val(g.name("v"), "int64", dims, 200, None)]
        t = g.name("t")
        f.bindings.append(Binding(f"{t} = R.median({u}, axis={a})\n{{out0}} = {t}[0]\n{{out1}} = {t}[1]", [x.name], outs))
        return outs[0]
    k = rng.randint(1, 5)
    if min(x.dims[a].vals) < k:
        return None
    dims[a] = as_dim(k, g.sizes)
    outs = [Val(g.name("v"), x.dtype, dims, x.bound, x.grain), Val(g.name("v"), "int32", dims, 200, None)]
    t = g.name("t")
    f.bindings.append(Binding(f"{t} = R.topk({u}, k={k}, axis={a}, largest={down})\n{{out0}} = {t}[0]\n{{out1}} = {t}[1]", [x.name], outs))
    return outs[0]


def op_found(g, f):
    """unique or nonzero, whose length only the call shows, and what is computed from them."""
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and v.exact() and v.dtype != "bool" and max(product(v.dims, g.sizes).vals) < 600)
    if x is None:
        return None
    k, t = g.name("k"), g.name("t")
    f.vars[k] = generate.Dim({(k,): 1}, [1] * g.sizes)
    n = max(max(product(x.dims, g.sizes).vals), 1)
    if rng.random() < 0.5:
        head = f'{t} = R.unique({{{x.name}}})\n{t}_c = R.match_cast({t}, R.Tensor(({k},), dtype="{x.dtype}"))'
        v = Val(g.name("v"), x.dtype, [], x.bound * n, x.grain)
    else:
        head = f'{t} = R.nonzero({{{x.name}}})\n{t}_c = R.match_cast({t}, R.Tensor(({len(x.dims)}, {k}), dtype="int64"))'
        v = Val(g.name("v"), "int64", [], 1e6, None)
    fit = g.fits(v.dtype, v.bound, v.grain)
    if fit is None:
        return None
    v.bound, v.grain = fit
    f.bindings.append(Binding(head + f"\n{{out}} = R.sum({t}_c)", [x.name], [v]))
    return v


def op_index(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and min(min(d.vals) for d in v.dims) > 0)
    if x is None:
        return None
    n, u = len(x.dims), "{" + x.name + "}"
    kind = rng.choice(["gather_nd", "index_tensor", "scatter_nd", "index_put"])
    deep = rng.randint(1, min(n, 3))
    rest = x.dims[deep:]
    d = g.dim(f)
    if kind in ("gather_nd", "scatter_nd"):
        ix = g.like(f, x, dims=[d, as_dim(deep, g.sizes)], dtype="int64")
        if ix is None:
            return None
        it = "{" + ix.name + "}"
        if kind == "gather_nd":
            return g.bind(f, f"R.gather_nd({u}, {it})", [x.name, ix.name], x.dtype, [d] + rest, x.bound, x.grain)
        if any(const(e) is None for e in x.dims[:deep]) or x.dtype == "bool":
            return None
        size = f'R.const({[const(e) for e in x.dims[:deep]]}, "int64")'
        up = g.like(f, x, dims=[d] + rest)
        if up is None:
            return None
        red = rng.choice(["update", "add", "max", "min"])
        bound = x.bound + max(max(d.vals), 1) * up.bound if red == "add" else max(x.bound, up.bound)
        grain = None if x.grain is None or up.grain is None else max(x.grain, up.grain)
        return g.bind(f, f'R.scatter_nd({u}, R.floor_mod({it}, {size}), {{{up.name}}}, reduction="{red}")',
                      [x.name, ix.name, up.name], x.dtype, x.dims, bound, grain)
    ixs = [g.like(f, x, dims=[d], dtype="int64") for _ in range(deep if kind == "index_tensor" else n)]
    if any(i is None for i in ixs):
        return None
    names = [i.name for i in ixs]
    if kind == "index_tensor":
        tup = ", ".join("{" + i + "}" for i in names)
        return g.bind(f, f"R.index_tensor({u}, ({tup},))", [x.name] + names, x.dtype, [d] + rest, x.bound, x.grain)
    if any(const(e) is None for e in x.dims) or x.dtype == "bool":
        return None
    tup = ", ".join(f'R.floor_mod({{{i}}}, R.const({const(e)}, "int64"))' for i, e in zip(names, x.dims))
    up = g.like(f, x, dims=[d])
    if up is None:
        return None
    add = rng.random() < 0.5
    bound = x.bound + max(max(d.vals), 1) * up.bound
    grain = None if x.grain is None or up.grain is None else max(x.grain, up.grain)
    return g.bind(f, f"R.index_put({u}, ({tup},), {{{up.name}}}, accumulate={add})", [x.name, up.name] + names, x.dtype, x.dims, bound, grain)


# --- the rest -------------------------------------------------------------------------------------
def op_pad(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and v.dtype != "bool" and len(v.dims) <= 4)
    if x is None:
        return None
    mode = rng.choice(["constant", "reflect", "replicate", "circular"])
    room = min(min(d.vals) for d in x.dims)
    if mode != "constant" and room == 0:
        return None
    widths, dims = [], []
    for d in x.dims:
        top = {"constant": 3, "replicate": 3, "reflect": min(d.vals) - 1, "circular": min(d.vals)}[mode]
        w = [rng.randint(0, min(top, 3)), rng.randint(0, min(top, 3))]
        widths += w
        dims.append(d + sum(w))
    value = ", pad_value=2" if mode == "constant" and rng.random() < 0.5 else ""
    return g.bind(f, f'R.nn.pad({{{x.name}}}, {widths}, pad_mode="{mode}"{value})', [x.name], x.dtype, dims, max(x.bound, 2), x.grain)


def op_einsum(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: len(v.dims) in (2, 3) and floats(v))
    if x is None:
        return None
    if len(x.dims) == 2:
        i, j = x.dims
        k = g.dim(f)
        form, ydims, out, red = rng.choice([("ij,jk->ik", [j, k], [i, k], j), ("ij,ij->i", [i, j], [i], j), ("ij,j->ji", [j], [j, i], None),
                                            ("ij,kj->ki", [k, j], [k, i], j), ("ij,k->", [k], [], i * j * k)])
    else:
        b, i, j = x.dims
        k = g.dim(f)
        form, ydims, out, red = rng.choice([("bij,bjk->bik", [b, j, k], [b, i, k], j), ("bij,ij->b", [i, j], [b], i * j), ("bij,bk->ijk", [b, k], [i, j, k], b)])
    y = g.like(f, x, dims=ydims)
    if y is None or y.bound > 100:
        return None
    count = max(max(red.vals), 1) if red is not None else 1
    if max(product(list(x.dims) + ydims, g.sizes).vals) > generate.WORK:
        return None
    return g.bind(f, f'R.einsum(({{{x.name}}}, {{{y.name}}}), "{form}")', [x.name, y.name], x.dtype, out, x.bound * y.bound * count, exactly(g, x, y))


def op_bfloat(g, f):
    """Through bfloat16: each operation rounds, so that exact values stay exact."""
    rng = g.rng
    x = g.pick(f, lambda v: v.dtype == "float32" and v.exact() and v.bound < 1000)
    if x is None:
        return None
    b = f'R.astype({{{x.name}}}, "bfloat16")'
    t, grain, bound = rng.choice([(f'R.multiply({b}, R.const(1.5, "bfloat16"))', 1, 1.6), (f"R.add({b}, {b})", 0, 2.1),
                                  (f"R.nn.relu({b})", 0, 1.1), (f"R.maximum({b}, R.negative({b}))", 0, 1.1)])
    return g.bind(f, f'R.astype({t}, "float32")', [x.name], "float32", x.dims, x.bound * bound, x.grain + grain)


def op_quantise(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dtype == "float32" and v.exact() and v.bound < 1000)
    if x is None or f.wild:
        return None
    scale, zero = rng.choice([0.5, 1.0, 0.25]), rng.choice([0, 3, -5])
    q = f'R.quantize({{{x.name}}}, R.const({scale}, "float32"), R.const({zero}, "int8"), out_dtype="int8", axis=0)'
    if rng.random() < 0.5:
        return g.bind(f, q, [x.name], "int8", x.dims, 9, None)
    d = f'R.dequantize({q}, R.const({scale}, "float32"), R.const({zero}, "int8"), axis=0)'
    return g.bind(f, d, [x.name], "float32", x.dims, 300, 2)


def op_one_hot(g, f):
    x = g.pick(f, lambda v: v.dtype in ("int32", "int64") and len(v.dims) <= 3)
    if x is None:
        return None
    depth, a = g.rng.randint(1, 7), g.rng.randint(0, len(x.dims))
    dims = list(x.dims)
    dims.insert(a, as_dim(depth, g.sizes))
    on = f'R.one_hot({{{x.name}}}, R.prim_value(T.float32(2)), R.prim_value(T.float32(-1)), depth={depth}, axis={a})'
    return g.bind(f, on, [x.name], "float32", dims, 2.0, 0)


def op_cumprod(g, f):
    x = g.pick(f, lambda v: v.dims and v.dtype not in FLOATS + ("bool",))
    if x is None:
        return None
    a = g.rng.randrange(len(x.dims))
    # products wrap: integers of any size, which no float takes exactly
    return g.bind(f, f"R.cumprod({{{x.name}}}, axis={a}, exclusive={g.rng.random() < 0.5})", [x.name], x.dtype, x.dims, 2.0**63, None)


def op_in_place(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and v.dtype != "bool" and len(v.dims) <= 4)
    if x is None or f.private:
        return None
    fit = g.fits(x.dtype, 2 * x.bound + 1, x.grain)
    names = sorted({n for d in x.dims for n in d.names()})
    bare = {d.bare() for d in x.dims}
    if fit is None or any(n not in bare for n in names):
        return None
    k, axes = g.name("t"), "ijklm"[:len(x.dims)]
    shape = "(" + ", ".join(d.text(True) for d in x.dims) + ("," if len(x.dims) == 1 else "") + ")"
    at = ", ".join(axes)
    two = f"T.{x.dtype}(2)"
    lines = ["    @T.prim_func(private=True)", f"    def {k}(a: T.handle):"] + [f"        {n} = T.int64()" for n in names]
    lines += [f'        A = T.match_buffer(a, {shape}, "{x.dtype}")']
    pad = "        "
    for v, d in zip(axes, x.dims):
        lines.append(f"{pad}for {v} in range({d.text(True)}):")
        pad += "    "
    lines.append(f"{pad}A[{at}] = A[{at}] * {two} + T.{x.dtype}(1)")
    g.kernels[k] = "\n".join(lines) + "\n"
    return g.bind(f, f"R.call_tir_inplace(cls.{k}, ({{{x.name}}},), inplace_indices=[0], out_ty={x.annotation()})",
                  [x.name], x.dtype, x.dims, fit[0], fit[1])


def op_branches(g, f):
    """Nested branches, with work in them and a tuple out of them."""
    x = g.pick(f, lambda v: v.dtype != "bool")
    c = g.like(f, x, dims=[], dtype="bool") if x is not None else None
    d = g.like(f, x, dims=[], dtype="bool") if c is not None else None
    if d is None or f.dataflow or f.private:
        return None
    fit = g.fits(x.dtype, 4 * x.bound, x.grain)
    if fit is None:
        return None
    v, w = Val(g.name("v"), x.dtype, x.dims, *fit), Val(g.name("v"), x.dtype, x.dims, *fit)
    t, u = g.name("t"), "{" + x.name + "}"
    text = (f"if {{{c.name}}}:\n    {t}a = R.add({u}, {u})\n    if {{{d.name}}}:\n        {t}b = R.add({t}a, {t}a)\n    else:\n        {t}b = R.negative({t}a)\n"
            f"    {t} = ({t}a, {t}b)\nelse:\n    {t} = ({u}, R.maximum({u}, {u}))\n{{out0}} = {t}[0]\n{{out1}} = {t}[1]")
    f.bindings.append(Binding(text, [c.name, d.name, x.name], [v, w]))
    return v


def op_recursion(g, f):
    """h(k, x) = k <= 0 ? x : h(k - 1, x + y): a private function that calls itself."""
    x = g.pick(f, lambda v: v.dtype != "bool" and plain(v.dims))
    n = g.like(f, x, dims=[], dtype="int32") if x is not None else None
    y = g.like(f, x) if n is not None else None
    if y is None or f.private:
        return None
    fit = g.fits(x.dtype, x.bound + 5 * y.bound, None if x.grain is None or y.grain is None else max(x.grain, y.grain))
    if fit is None:
        return None
    h = g.name("h")
    v = Val("r", x.dtype, x.dims)
    body = ['done: R.Tensor((), dtype="bool") = R.less_equal(k, R.const(0, "int32"))', "if done:", f"    r: {v.annotation()} = a", "else:",
            '    l: R.Tensor((), dtype="int32") = R.subtract(k, R.const(1, "int32"))', f"    s: {v.annotation()} = R.add(a, b)",
            f"    r: {v.annotation()} = cls.{h}(l, s, b)", "return r"]
    helper(g, h, [("k", "int32", []), ("a", x.dtype, x.dims), ("b", x.dtype, x.dims)], signature(v), body, x.dims)
    return g.bind(f, f'cls.{h}(R.floor_mod({{{n.name}}}, R.const(6, "int32")), {{{x.name}}}, {{{y.name}}})', [n.name, x.name, y.name],
                  x.dtype, x.dims, *fit)


def op_closure(g, f):
    """A closure over a module function, or a local function that captures a value, called twice."""
    x = g.pick(f, lambda v: v.dtype != "bool" and plain(v.dims))
    y = g.like(f, x) if x is not None else None
    if y is None or f.private:
        return None
    grain = None if x.grain is None or y.grain is None else max(x.grain, y.grain)
    fit = g.fits(x.dtype, x.bound + 2 * y.bound, grain)
    if fit is None:
        return None
    v = Val(g.name("v"), x.dtype, x.dims, *fit)
    c, ann = g.name("c"), v.annotation()
    if f.dataflow or g.rng.random() < 0.5:
        h = g.name("h")
        helper(g, h, [("a", x.dtype, x.dims), ("b", x.dtype, x.dims)], signature(v), [f"s: {ann} = R.add(a, b)", "return s"], x.dims)
        text = (f"{c} = R.make_closure(cls.{h}, ({{{y.name}}},))\n{c}_1 = R.invoke_pure_closure({c}, ({{{x.name}}},), sinfo_args={ann})\n"
                f"{{out}} = R.invoke_pure_closure({c}, ({c}_1,), sinfo_args={ann})")
    else:
        text = (f"@R.function\ndef {c}({c}_a: {ann}) -> {ann}:\n    {c}_s: {ann} = R.add({c}_a, {{{y.name}}})\n    return {c}_s\n"
                f"{c}_1: {ann} = {c}({{{x.name}}})\n{{out}}: {ann} = {c}({c}_1)")
    f.bindings.append(Binding(text, [x.name, y.name], [v]))
    return v


def op_nested_tuple(g, f):
    """A tuple of tuples through a call."""
    x, y = g.pick(f, lambda v: plain(v.dims)), g.pick(f, lambda v: plain(v.dims))
    if x is None or y is None or f.private or (set(n for d in x.dims for n in d.names()) & {"k"}):
        return None
    h, t = g.name("h"), g.name("t")
    a, b = Val(g.name("v"), y.dtype, y.dims, y.bound, y.grain), Val(g.name("v"), x.dtype, x.dims, x.bound, x.grain)
    ret = f"R.Tuple(R.Tuple({signature(a)}), {signature(b)})"
    helper(g, h, [("a", x.dtype, x.dims), ("b", y.dtype, y.dims)], ret, ["p = (b, a)", "q = (p[0],)", "return (q, p[1])"], x.dims + y.dims)
    f.bindings.append(Binding(f"{t} = cls.{h}({{{x.name}}}, {{{y.name}}})\n{t}_0 = {t}[0]\n{{out0}} = {t}_0[0]\n{{out1}} = {t}[1]",
                              [x.name, y.name], [a, b]))
    return a


KINDS = [(op_conv_nd, 4), (op_conv_transpose, 2), (op_pool_nd, 3), (op_channel_norm, 3), (op_resize, 2), (op_attention, 2), (op_sort, 4),
         (op_found, 2), (op_index, 5), (op_pad, 3), (op_einsum, 3), (op_bfloat, 2), (op_quantise, 1), (op_one_hot, 1), (op_cumprod, 1),
         (op_in_place, 3), (op_branches, 2), (op_recursion, 1), (op_closure, 2), (op_nested_tuple, 1)]
