"""Random tensor-level functions for programs.py: maps with odd index expressions, reductions in any
order of loops with predicates and split loops, chains over local buffers, lowered code with branches,
loops and values kept in locals. Each is called once by R.call_tir."""
import generate
from generate import FLOATS, Binding, Val, as_dim, product

NAMES = "ijklpqrs"


def lit(dtype, v):
    if dtype == "bool":
        return f"T.bool({bool(v)})"
    return f"T.{dtype}({v})"


class Kernel:
    def __init__(self, g, name):
        self.g, self.name, self.ins, self.lines = g, name, [], []

    def buffer(self, x):
        for i, y in enumerate(self.ins):
            if y is x:
                return f"A{i}"
        self.ins.append(x)
        return f"A{len(self.ins) - 1}"

    def finish(self, f, outs, lines, s_tir=True):
        g = self.g
        dims = [d for v in self.ins + outs for d in v.dims]
        names = sorted({n for d in dims for n in d.names()} | set(self.needs))
        bare = {d.bare() for v in self.ins + outs for d in v.dims}
        scalars = [n for n in names if n not in bare]
        params = [f"a{i}: T.handle" for i in range(len(self.ins))] + [f"{n}: T.int64" for n in scalars]
        params += [f"o{i}: T.handle" for i in range(len(outs))]
        deco = "@T.prim_func(private=True, s_tir=True)" if s_tir else "@T.prim_func(private=True)"
        t = [f"    {deco}", f"    def {self.name}({', '.join(params)}):"]
        t += [f"        {n} = T.int64()" for n in names if n in bare]
        shape = lambda v: "(" + ", ".join(d.text(True) for d in v.dims) + ("," if len(v.dims) == 1 else "") + ")"
        t += [f'        A{i} = T.match_buffer(a{i}, {shape(v)}, "{v.dtype}")' for i, v in enumerate(self.ins)]
        t += [f'        O{i} = T.match_buffer(o{i}, {shape(v)}, "{v.dtype}")' for i, v in enumerate(outs)]
        t += ["        " + l for l in lines]
        g.kernels[self.name] = "\n".join(t) + "\n"
        args = ["{" + v.name + "}" for v in self.ins] + scalars
        args = "(" + ", ".join(args) + ("," if len(args) == 1 else "") + ")"
        outs_text = ", ".join(v.annotation() for v in outs)
        if len(outs) == 1:
            text = f"{{out}} = R.call_tir(cls.{self.name}, {args}, out_ty={outs_text})"
        else:
            tup = g.name("t")
            text = f"{tup} = R.call_tir(cls.{self.name}, {args}, out_ty=[{outs_text}])"
            text += "".join(f"\n{{out{i}}} = {tup}[{i}]" for i in range(len(outs)))
        f.bindings.append(Binding(text, [v.name for v in self.ins], outs))
        return outs[0]


def index(g, d, axes):
    """An index into a dim: (text, guards). axes: [(name, Dim)]."""
    rng = g.rng
    same = [n for n, e in axes if e == d]
    r = rng.random()
    D = d.text(True)
    if same and r < 0.5:
        return rng.choice(same), []
    if same and r < 0.65:
        return f"({D} - T.int64(1) - {rng.choice(same)})", []
    if same and r < 0.75:
        v = rng.choice(same)
        s = rng.randint(1, 2)
        return (f"({v} + T.int64({s}))", [f"{v} + T.int64({s}) < {D}"]) if rng.random() < 0.5 else \
            (f"({v} - T.int64({s}))", [f"T.int64({s}) <= {v}"])
    if same and r < 0.8:
        return f"({rng.choice(same)} // T.int64(2))", []
    if d.const() and r < 0.9:
        c = d.const()
        if axes and rng.random() < 0.7:
            v = rng.choice(axes)[0]
            return f"(({v} * T.int64({rng.choice([1, 1, 2, 3])}) + T.int64({rng.randint(0, 3)})) % T.int64({c}))", []
        return f"T.int64({rng.randrange(c)})", []
    if axes:
        v = rng.choice(axes)[0]
        if len(axes) > 1 and rng.random() < 0.3:
            v = f"({v} + {rng.choice(axes)[0]})"
        if rng.random() < 0.5:
            return v, [f"{v} < {D}"]
        return f"T.min({v}, {D} - T.int64(1))", [f"T.int64(0) < {D}"]
    return "T.int64(0)", [f"T.int64(0) < {D}"]


def load(g, k, x, axes):
    """A guarded element: (text, bound, grain)."""
    ix, guards = [], []
    for d in x.dims:
        t, gd = index(g, d, axes)
        ix.append(t)
        guards += gd
        k.needs |= d.names()
    t = f"{k.buffer(x)}[{', '.join(ix) if ix else '()'}]"
    if guards:
        zero = lit(x.dtype, 0 if x.dtype in FLOATS or x.dtype == "bool" else g.rng.randint(0, 2))
        t = f"T.if_then_else({' and '.join(guards)}, {t}, {zero})"
    return t, max(x.bound, 2), x.grain


def condition(g, axes):
    rng = g.rng
    v = rng.choice(axes)[0]
    w = rng.choice(axes)[0]
    return rng.choice([f"{v} % T.int64({rng.randint(2, 4)}) == T.int64(0)", f"{v} < T.int64({rng.randint(1, 9)})",
                       f"{v} <= {w}", f"({v} + {w}) // T.int64(3) % T.int64(2) == T.int64(1)", f"T.int64(2) < {v}"])


def combine(g, dtype, a, b, axes):
    (ta, ba, ga), (tb, bb, gb) = a, b
    rng = g.rng
    gm = None if ga is None or gb is None else max(ga, gb)
    r = rng.random()
    if dtype == "bool":
        return rng.choice([f"({ta} and {tb})", f"({ta} or {tb})"]), 1.0, None
    if r < 0.3:
        return f"({ta} + {tb})", ba + bb, gm
    if r < 0.5:
        return f"({ta} - {tb})", ba + bb, gm
    if r < 0.7:
        return f"({ta} * {tb})", ba * bb, None if gm is None else ga + gb
    if r < 0.8:
        return f"T.{rng.choice(['max', 'min'])}({ta}, {tb})", max(ba, bb), gm
    if axes and r < 0.95:
        how = rng.choice(["T.Select", "T.if_then_else"])
        return f"{how}({condition(g, axes)}, {ta}, {tb})", max(ba, bb), gm
    if dtype in ("int32", "int64", "int16", "int8"):
        return f"({ta} // (T.abs({tb}) % {lit(dtype, 7)} + {lit(dtype, 1)}))", ba, gm
    return f"({ta} + {tb})", ba + bb, gm


def term(g, f, k, dtype, axes, depth=0):
    """An expression of the dtype over values in scope: (text, bound, grain) or None."""
    rng = g.rng
    if depth < 2 and rng.random() < 0.55:
        a, b = term(g, f, k, dtype, axes, depth + 1), term(g, f, k, dtype, axes, depth + 1)
        return a and b and combine(g, dtype, a, b, axes)
    r = rng.random()
    if r < 0.1 and dtype != "bool":
        v = rng.choice([0, 1, 2, 3])
        return lit(dtype, float(v) if dtype in FLOATS else v), v, 0
    if r < 0.2 and axes and dtype in ("float32", "float64", "int32", "int64"):
        v, d = rng.choice(axes)
        b = max(d.vals)
        return (f'T.Cast("{dtype}", {v})' if dtype != "int64" else v), b, 0
    x = g.pick(f, lambda v: v.dtype == dtype and (len(k.ins) < 4 or any(v is y for y in k.ins)))
    if x is None:
        return None
    return load(g, k, x, axes)


def nest(g, axes, marks, body, guard=None):
    """Loops in any order around a block of these axes; a loop may be split."""
    rng = g.rng
    order = list(range(len(axes)))
    if rng.random() < 0.4:
        rng.shuffle(order)
    lines, pad, binds, where = [], "", [None] * len(axes), [guard] if guard else []
    if not axes:
        return ["with T.sblock(\"b\"):"] + ["    " + l for l in body]
    for i in order:
        v, d = axes[i]
        if rng.random() < 0.15:
            c = rng.choice([2, 4, 8])
            ext = d.text(True)
            lines.append(f"{pad}for {v}o, {v}i in T.grid(({ext} + T.int64({c - 1})) // T.int64({c}), T.int64({c})):")
            binds[i] = f"{v}o * T.int64({c}) + {v}i"
            where.append(f"{binds[i]} < {ext}")
        else:
            lines.append(f"{pad}for {v} in range({d.text(True)}):")
            binds[i] = v
        pad += "    "
    lines.append(f'{pad}with T.sblock("{g.name("b")}"):')
    pad += "    "
    for i, (v, d) in enumerate(axes):
        kind = "spatial" if marks[i] == "S" else "reduce"
        lines.append(f"{pad}v{v} = T.axis.{kind}({d.text(True)}, {binds[i]})")
    if where:
        lines.append(f"{pad}T.where({' and '.join(where)})")
    return lines + [pad + l for l in body]


def named(dims, offset=0):
    return [(NAMES[i + offset], d) for i, d in enumerate(dims)]


def inner(axes):
    return [("v" + n, d) for n, d in axes]


def subscript(axes):
    return "[" + (", ".join(n for n, _ in axes) if axes else "()") + "]"


def kernel_map(g, f, k, x):
    dims = list(x.dims)
    if g.rng.random() < 0.3:
        g.rng.shuffle(dims)
    outs, lines = [], []
    for o in range(1 if g.rng.random() < 0.8 else 2):
        axes = named(dims)
        ax = inner(axes)
        e = combine(g, x.dtype, load(g, k, x, ax), term(g, f, k, x.dtype, ax) or load(g, k, x, ax), ax)
        fit = g.fits(x.dtype, e[1], e[2])
        if fit is None:
            return None
        outs.append(Val(g.name("v"), x.dtype, dims, *fit))
        lines += nest(g, axes, "S" * len(axes), [f"O{o}{subscript(ax)} = {e[0]}"])
    return k.finish(f, outs, lines)


def reduction(g, f, k, x, target, dims, red, post):
    """Lines that reduce over the dims red into target of dims; (lines, bound, grain) or None."""
    rng = g.rng
    axes = named(dims)
    raxes = named(red, len(dims))
    ax, rx = inner(axes), inner(raxes)
    both = ax + rx
    e = load(g, k, x, both)
    if rng.random() < 0.6:
        o = term(g, f, k, x.dtype, both, 1)
        if o is not None:
            grains = None if e[2] is None or o[2] is None else e[2] + o[2]
            e = (f"{e[0]} * {o[0]}", e[1] * o[1], grains) if rng.random() < 0.8 else combine(g, x.dtype, e, o, both)
    how = rng.choice(["sum", "sum", "sum", "max", "min"])
    count = max(max(product(red, g.sizes).vals), 1)
    t = target + subscript(ax)
    extreme = {"float16": 60000.0, "float32": 1e30, "float64": 1e30, "int32": 2**31 - 1, "int64": 2**40, "int16": 32767,
               "int8": 127, "uint8": 255, "uint16": 65535, "uint32": 2**32 - 1, "uint64": 2**63}[x.dtype]
    low = -extreme if x.dtype[0] != "u" else 0
    if how != "sum" and min(product(red, g.sizes).vals) == 0:
        how = "sum"
    init = {"sum": 0.0 if x.dtype in FLOATS else 0, "max": low, "min": extreme}[how]
    guard = None
    if rng.random() < 0.15 and how == "sum":
        e = (f"T.if_then_else({condition(g, both)}, {e[0]}, {lit(x.dtype, 0)})", e[1], e[2])
    upd = f"{t} + {e[0]}" if how == "sum" else f"T.{how}({t}, {e[0]})"
    body = ["with T.init():", f"    {t} = {lit(x.dtype, init)}", f"{t} = {upd}"]
    lines = nest(g, axes + raxes, "S" * len(axes) + "R" * len(raxes), body, guard)
    return lines, e[1] * count if how == "sum" else e[1], e[2]


def kernel_reduce(g, f, k, x):
    rng = g.rng
    if x.dtype == "bool" or not x.dims:
        return None
    n = len(x.dims)
    red_at = rng.sample(range(n), rng.randint(1, min(2, n)))
    dims = [d for i, d in enumerate(x.dims) if i not in red_at]
    red = [x.dims[i] for i in red_at]
    if rng.random() < 0.5:
        dims.insert(rng.randint(0, len(dims)), g.dim(f))
    if len(dims) + len(red) > 7 or max(product(dims + red, g.sizes).vals) > generate.WORK:
        return None
    r = reduction(g, f, k, x, "O0", dims, red, None)
    fit = r and g.fits(x.dtype, r[1], r[2])
    if not fit or not g.small(dims):
        return None
    return k.finish(f, [Val(g.name("v"), x.dtype, dims, *fit)], r[0])


def kernel_chain(g, f, k, x):
    """A reduction into a local buffer, then a map that reads it."""
    rng = g.rng
    if x.dtype == "bool" or not x.dims:
        return None
    red = [x.dims[-1]]
    dims = x.dims[:-1]
    if max(product(x.dims, g.sizes).vals) > generate.WORK:
        return None
    r = reduction(g, f, k, x, "W", dims, red, None)
    if not r:
        return None
    shape = "(" + ", ".join(d.text(True) for d in dims) + ("," if len(dims) == 1 else "") + ")"
    lines = [f'W = T.sblock_alloc_buffer({shape}, "{x.dtype}")'] + r[0]
    w = ("W", r[1], r[2])
    axes = named(x.dims)
    ax = inner(axes)
    e = combine(g, x.dtype, load(g, k, x, ax), (f"W{subscript(ax[:-1])}", r[1], r[2]), ax)
    fit = g.fits(x.dtype, e[1], e[2])
    if fit is None or g.fits(x.dtype, w[1], w[2]) is None:
        return None
    if w[2] is not None and g.fits(x.dtype, w[1], w[2])[1] is None:
        fit = (fit[0], None)
    lines += nest(g, axes, "S" * len(axes), [f"O0{subscript(ax)} = {e[0]}"])
    return k.finish(f, [Val(g.name("v"), x.dtype, x.dims, *fit)], lines)


def kernel_lowered(g, f, k, x):
    """Plain loops: a local accumulator, if/else, a let, a while, break or continue."""
    rng = g.rng
    if x.dtype == "bool":
        return None
    dims = x.dims
    axes = named(dims)
    lines, pad = [], ""
    for v, d in axes:
        lines.append(f"{pad}for {v} in range({d.text(True)}):")
        pad += "    "
    at = subscript(axes)
    e = load(g, k, x, axes)
    kind = rng.choice(["if", "let", "acc", "while", "two"])
    if not axes and kind in ("if",):
        kind = "let"
    dt = x.dtype
    if kind == "if":
        o = term(g, f, k, dt, axes) or e
        lines += [f"{pad}if {condition(g, axes)}:", f"{pad}    O0{at} = {e[0]}", f"{pad}else:", f"{pad}    O0{at} = {o[0]}"]
        bound, grain = max(e[1], o[1]), None if e[2] is None or o[2] is None else max(e[2], o[2])
    elif kind == "let":
        lines += [f"{pad}y: T.{dt} = {e[0]}", f"{pad}O0{at} = y * y + y"]
        bound, grain = e[1] ** 2 + e[1], None if e[2] is None else 2 * e[2]
    elif kind in ("acc", "while"):
        n = rng.randint(1, 5)
        lines += [f'{pad}s = T.alloc_buffer((1,), "{dt}", scope="local")', f"{pad}s[0] = {lit(dt, 0)}"]
        if kind == "acc":
            lines += [f"{pad}for t in range({n}):"]
            if rng.random() < 0.5:
                lines += [f"{pad}    if t == {rng.randint(0, 3)}:", f"{pad}        {rng.choice(['continue', 'break'])}"]
            lines += [f"{pad}    s[0] = s[0] + {e[0]}"]
        else:
            lines += [f'{pad}c = T.alloc_buffer((1,), "int32", scope="local")', f"{pad}c[0] = 0",
                      f"{pad}while c[0] < {n}:", f"{pad}    s[0] = s[0] + {e[0]}", f"{pad}    c[0] = c[0] + 1"]
        lines += [f"{pad}O0{at} = s[0]"]
        bound, grain = e[1] * n, e[2]
    else:
        lines += [f"{pad}O0{at} = {e[0]}", f"{pad}O0{at} = O0{at} + {e[0]}"]
        bound, grain = 2 * e[1], e[2]
    fit = g.fits(dt, bound, grain)
    if fit is None:
        return None
    return k.finish(f, [Val(g.name("v"), dt, dims, *fit)], lines, s_tir=False)


def lowered_head(dims, kinds=None):
    """Loops over dims with names: (lines, indentation, axes). kinds: T.parallel or range per loop."""
    axes, lines, pad = named(dims), [], ""
    for k, (v, d) in enumerate(axes):
        how = kinds[k] if kinds else "range"
        lines.append(f"{pad}for {v} in {how}({d.text(True)}):")
        pad += "    "
    return lines, pad, axes


def kernel_view(g, f, k, x):
    """Reads through a strided view of the input, with an offset: every second row backwards in text, a transposition, a diagonal."""
    rng = g.rng
    if not x.dims or any(d.const() in (None, 0) for d in x.dims) or x.dtype == "bool":
        return None
    sizes, strides, step = [d.const() for d in x.dims], [], 1
    for n in reversed(sizes):
        strides.insert(0, step)
        step *= n
    steps = [rng.choice([1, 1, 2, 3]) for _ in sizes]
    begin = [rng.randrange(n) for n in sizes]
    order = list(range(len(sizes)))
    rng.shuffle(order)
    dims = [as_dim(len(range(begin[i], sizes[i], steps[i])), g.sizes) for i in order]
    offset = sum(b * s for b, s in zip(begin, strides))
    a = k.buffer(x)
    shape = "(" + ", ".join(d.text(True) for d in dims) + ("," if len(dims) == 1 else "") + ")"
    view = ", ".join(f"T.int64({strides[i] * steps[i]})" for i in order)
    lines = [f'V = T.decl_buffer({shape}, "{x.dtype}", data={a}.data, strides=[{view}], elem_offset=T.int64({offset}))']
    loops, pad, axes = lowered_head(dims, [rng.choice(["range", "range", "T.parallel"])] + ["range"] * (len(dims) - 1))
    at = subscript(axes)
    return k.finish(f, [Val(g.name("v"), x.dtype, dims, x.bound, x.grain)], lines + loops + [f"{pad}O0{at} = V{at}"], s_tir=False)


def kernel_vector(g, f, k, x):
    """A vectorised or unrolled innermost loop, the others parallel or not."""
    rng = g.rng
    c = x.dims[-1].const() if x.dims else None
    if c not in (1, 2, 3, 4, 8, 16) or x.dtype == "bool" or x.dtype == "float16":
        return None
    kinds = [rng.choice(["range", "T.parallel", "T.serial"])] + ["range"] * (len(x.dims) - 2) if len(x.dims) > 1 else []
    loops, pad, axes = lowered_head(x.dims, kinds + [rng.choice(["T.vectorized", "T.unroll", "T.vectorized"])])
    fit = g.fits(x.dtype, 3 * x.bound + 2, x.grain)
    if fit is None:
        return None
    e, at = load(g, k, x, axes)[0], subscript(axes)
    body = [f"y: T.{x.dtype} = {e}", f"O0{at} = y + y + {lit(x.dtype, 1)}"] if rng.random() < 0.5 else [f"O0{at} = {e} + {e} + {lit(x.dtype, 1)}"]
    return k.finish(f, [Val(g.name("v"), x.dtype, x.dims, *fit)], loops + [pad + l for l in body], s_tir=False)


def kernel_scan(g, f, k, x):
    """A recurrence: each element from the one before, in either direction."""
    if not x.dims or x.dtype == "bool":
        return None
    n = max(max(x.dims[-1].vals), 1)
    fit = g.fits(x.dtype, x.bound * n, x.grain)
    if fit is None:
        return None
    loops, pad, axes = lowered_head(x.dims)
    at, D, (v, d) = subscript(axes), x.dims[-1].text(True), axes[-1]
    back = g.rng.random() < 0.5
    here = f"{D} - T.int64(1) - {v}" if back else v
    before = f"{D} - {v}" if back else f"{v} - T.int64(1)"
    head = ", ".join(a for a, _ in axes[:-1]) + (", " if len(axes) > 1 else "")
    a = k.buffer(x)
    body = [f"if {v} == T.int64(0):", f"    O0[{head}{here}] = {a}[{head}{here}]", "else:",
            f"    O0[{head}{here}] = O0[{head}{before}] + {a}[{head}{here}]"]
    return k.finish(f, [Val(g.name("v"), x.dtype, x.dims, *fit)], loops + [pad + l for l in body], s_tir=False)


def kernel_count(g, f, k, x):
    """A histogram: the element says where to write."""
    if x.dtype not in ("int32", "int64", "uint8") or not x.dims:
        return None
    n = g.rng.randint(1, 9)
    dims = [as_dim(n, g.sizes)]
    loops, pad, axes = lowered_head(x.dims)
    e = f'T.floormod(T.Cast("int64", {k.buffer(x)}{subscript(axes)}), T.int64({n}))'
    lines = [f"for z in range({n}):", "    O0[z] = 0"] + loops + [f"{pad}O0[{e}] = O0[{e}] + 1"]
    return k.finish(f, [Val(g.name("v"), "int32", dims, 1e6, None)], lines, s_tir=False)


def op_tir(g, f):
    x = g.pick(f, lambda v: len(v.dims) <= 4)
    if x is None:
        return None
    if f.private:
        return None
    k = Kernel(g, g.name("t"))
    k.needs = set()
    kinds = [kernel_map, kernel_map, kernel_reduce, kernel_reduce, kernel_reduce, kernel_chain, kernel_lowered, kernel_view,
             kernel_vector, kernel_scan, kernel_count]
    if x.dtype == "float16":  # sums in float16 depend on their order
        kinds = [kernel_map, kernel_lowered, kernel_view, kernel_scan]
    return g.rng.choice(kinds)(g, f, k, x)
