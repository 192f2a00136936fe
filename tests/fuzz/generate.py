"""Random well-formed programs for programs.py.

A program is a list of functions; a function is parameters and bindings. Each value knows its dtype, its
dims (polynomials in the function's symbolic variables, with their values at every size that will be
tried), and, for floats, a bound and a grain: while all values are multiples of 2^-grain below the bound
and fit the mantissa, arithmetic on them is exact in any order, so that results must agree bit by bit
and may be compared, rounded or converted. A value that has lost this is only used by operators that
are smooth, and is compared within a bound.

Bindings are texts with {names} of what they use, so that a failing function can be cut down: a binding
can be dropped, or become a parameter of the same type (programs.py does that).
"""
import random

FLOATS = ("float32", "float64", "float16")
INTS = ("int32", "int64", "uint8", "int8", "int16", "uint16", "uint32", "uint64")
MANTISSA = {"float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
ROOM = {"float16": 1e3, "float32": 1e5, "float64": 1e8}  # of values that are not exact
POOL = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 48, 64, 65, 100, 130]
STATIC = [1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 48, 64, 100, 128]
ONLY = []  # names of the kinds of operators to use; empty: all
ELEMENTS = 30000
WORK = 400000


class Dim:
    """A polynomial: {(names of a product): factor}, and its value per size."""

    def __init__(self, terms, vals):
        self.terms = {k: v for k, v in terms.items() if v}
        self.vals = tuple(vals)
        self.key = tuple(sorted(self.terms.items()))

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def __add__(self, o):
        o = as_dim(o, len(self.vals))
        t = dict(self.terms)
        for k, v in o.terms.items():
            t[k] = t.get(k, 0) + v
        return Dim(t, [a + b for a, b in zip(self.vals, o.vals)])

    def __mul__(self, o):
        o = as_dim(o, len(self.vals))
        t = {}
        for k, v in self.terms.items():
            for k2, v2 in o.terms.items():
                key = tuple(sorted(k + k2))
                t[key] = t.get(key, 0) + v * v2
        return Dim(t, [a * b for a, b in zip(self.vals, o.vals)])

    def const(self):
        return self.terms.get((), 0) if all(k == () for k in self.terms) else None

    def names(self):
        return {n for k in self.terms for n in k}

    def bare(self):
        k = next(iter(self.terms), ())
        return k[0] if len(self.terms) == 1 and len(k) == 1 and self.terms[k] == 1 else None

    def text(self, wrap=False):
        """wrap: integers as T.int64."""
        num = (lambda v: f"T.int64({v})") if wrap else str
        if not self.terms:
            return num(0)
        out = ""
        for k, v in sorted(self.terms.items(), key=lambda kv: (kv[0] == (), kv[0])):
            t = " * ".join(k)
            t = (t if abs(v) == 1 else f"{t} * {num(abs(v))}") if k else num(abs(v))
            out += (" - " if v < 0 else " + ") + t if out else (f"{num(0)} - {t}" if v < 0 else t)
        return out

    def subst(self, env):
        out = as_dim(0, len(self.vals))
        for k, v in self.terms.items():
            t = as_dim(v, len(self.vals))
            for n in k:
                t = t * env[n]
            out = out + t
        return Dim(out.terms, self.vals)


def as_dim(v, sizes):
    return v if isinstance(v, Dim) else Dim({(): v}, [v] * sizes)


def product(dims, sizes):
    out = as_dim(1, sizes)
    for d in dims:
        out = out * d
    return out


def shape_text(dims, wrap=False):
    t = [d.text(wrap) for d in dims]
    return "(" + ", ".join(t) + ("," if len(t) == 1 else "") + ")"


class Val:
    def __init__(self, name, dtype, dims, bound=4.0, grain=2):
        self.name, self.dtype, self.dims, self.bound, self.grain = name, dtype, list(dims), bound, grain

    def exact(self):
        return self.dtype not in FLOATS or self.grain is not None

    def annotation(self):
        return f'R.Tensor({shape_text(self.dims)}, dtype="{self.dtype}")'


class Binding:
    def __init__(self, text, uses, outs):
        self.text, self.uses, self.outs = text, list(uses), outs


class Func:
    def __init__(self, name, sizes, private=False):
        self.name, self.sizes, self.private = name, sizes, private
        self.vars = {}      # name -> Dim
        self.params = []    # Val
        self.bindings = []
        self.outs = []      # Val
        self.dataflow = False
        self.wild = False   # inputs hold NaN, infinities and the greatest integers
        self.declare = "shape"

    def param_names(self):
        return [p.name for p in self.params]


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.kernels = {}   # name -> text
        self.helpers = {}   # name -> Func
        self.count = 0
        self.kinds = [(k, w) for k, w in all_kinds() if not ONLY or k.__name__[3:] in ONLY]

    # --- choices ---------------------------------------------------------------------------------
    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, f, ok=lambda v: True, late=True):
        vals = [v for v in self.scope(f) if ok(v)]
        if not vals:
            return None
        if late and self.rng.random() < 0.5:
            return vals[max(0, len(vals) - 1 - int(self.rng.expovariate(0.7)))]
        return self.rng.choice(vals)

    def scope(self, f):
        return f.params + [o for b in f.bindings for o in b.outs]

    def small(self, dims):
        p = product(dims, self.sizes)
        return max(p.vals) <= ELEMENTS and len(dims) <= 5

    def fits(self, dtype, bound, grain):
        """(bound, grain or None) of a float result, or None if it grows out of hand."""
        if dtype not in FLOATS:
            return bound, None
        if grain is not None and (grain > 40 or bound * 2.0**grain > MANTISSA[dtype]):
            grain = None
        return None if bound > ROOM[dtype] else (bound, grain)

    def bind(self, f, text, uses, dtype, dims, bound, grain):
        fit = self.fits(dtype, bound, grain)
        if fit is None or not self.small(dims):
            return None
        v = Val(self.name("v"), dtype, dims, *fit)
        f.bindings.append(Binding("{out} = " + text, uses, [v]))
        return v

    def param(self, f, dtype, dims, bound=None, grain=None):
        if bound is None:
            bound, grain = (4.0, self.rng.choice([0, 0, 2])) if dtype in FLOATS else (9.0, None)
            if dtype == "bool":
                bound = 1.0
        v = Val(self.name("w" if f.wild else "p"), dtype, dims, bound, grain)
        f.params.append(v)
        return v

    def like(self, f, v, dims=None, dtype=None):
        """A value of the dtype and dims, from the scope or a new parameter or constant."""
        dims, dtype = v.dims if dims is None else dims, dtype or v.dtype
        x = self.pick(f, lambda w: w.dtype == dtype and w.dims == list(dims))
        if x is not None and self.rng.random() < 0.8:
            return x
        if not self.small(dims) or any(self.hidden(f, d) for d in dims):
            return x
        return self.param(f, dtype, dims)

    def hidden(self, f, d):
        return any(n.startswith("k") for n in d.names())

    # --- functions ---------------------------------------------------------------------------------
    def function(self, name, steps):
        rng = self.rng
        f = Func(name, self.sizes)
        f.declare = rng.choice(["shape", "prim", "tensor"])
        for n, vals in self.var_vals.items():
            f.vars[n] = Dim({(n,): 1}, vals)
        f.wild = rng.random() < 0.25
        for _ in range(rng.randint(1, 3)):
            self.param(f, self.dtype(), self.dims(f, rng.randint(0, 4) if rng.random() < 0.4 else 2))
        f.dataflow = rng.random() < 0.6
        self.steps(f, steps)
        self.choose_outs(f)
        return f

    def choose_outs(self, f, visible=False):
        made = [o for b in f.bindings for o in b.outs]
        used = {u for b in f.bindings for u in b.uses}
        outs = [v for v in made if v.name not in used] or f.params[:1]
        outs += [v for v in made if v.name in used and self.rng.random() < 0.15]
        if visible:
            outs = [v for v in outs if not any(self.hidden(f, d) for d in v.dims)] or f.params[:1]
        f.outs = outs[:6]
        if self.rng.random() < 0.2:  # a parameter, a value twice
            f.outs.append(self.rng.choice(self.rng.choice([f.params, f.outs])))

    def steps(self, f, steps):
        done = tries = 0
        while done < steps and tries < steps * 8:
            tries += 1
            kind = self.rng.choices([k for k, _ in self.kinds], [w for _, w in self.kinds])[0]
            if kind in (op_if, op_call) and (f.private or (kind is op_if and f.dataflow)):
                continue
            if kind(self, f):
                done += 1

    def dtype(self):
        return self.rng.choices(["float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool", "int16", "uint16", "uint32",
                                 "uint64"], [20, 6, 4, 6, 4, 2, 2, 2, 1, 1, 1, 1])[0]

    def dim(self, f):
        r, rng = self.rng.random(), self.rng
        own = [d for n, d in f.vars.items() if not n.startswith("k")]
        if r < 0.45 and own:
            d = rng.choice(own)
            s = rng.random()
            return d if s < 0.6 else d + rng.randint(1, 3) if s < 0.8 else d * rng.randint(2, 3)
        if r > 0.97:
            return as_dim(0, self.sizes)
        return as_dim(rng.choice(STATIC), self.sizes)

    def dims(self, f, rank):
        for _ in range(20):
            d = [self.dim(f) for _ in range(rank)]
            if self.small(d):
                return d
        return [as_dim(2, self.sizes) for _ in range(rank)]

    def program(self, functions, steps):
        rng = self.rng
        self.sizes = 4
        pool = POOL
        self.var_vals = {}
        for n in ("n", "m"):
            vals = [rng.choice(pool) for _ in range(4)]
            vals[0] = rng.choice([0, 1, 1, vals[0]])
            self.var_vals[n] = vals
        funcs = [self.function(f"f{i}", steps) for i in range(functions)]
        return Program(funcs, self.helpers, self.kernels, self.var_vals)


class Program:
    def __init__(self, funcs, helpers, kernels, var_vals):
        self.funcs, self.helpers, self.kernels, self.var_vals = funcs, helpers, kernels, var_vals

    def text(self, funcs=None):
        funcs = self.funcs if funcs is None else funcs
        body, todo, seen = [], list(funcs), set()
        while todo:
            f = todo.pop(0)
            t, refs = function_text(f)
            body.append(t)
            for r in refs:
                if r in seen:
                    continue
                seen.add(r)
                if r in self.helpers:
                    todo.append(self.helpers[r])
                else:
                    body.append(self.kernels[r])
        return "@I.ir_module\nclass Module:\n" + "\n".join(body)


def refs_of(text):
    out, at = [], 0
    while (at := text.find("cls.", at)) >= 0:
        at += 4
        end = at
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        out.append(text[at:end])
    return out


def function_text(f):
    """The text and the names of what it calls."""
    used = set()
    for v in f.params:
        for d in v.dims:
            used |= d.names()
    lines, refs = [], []
    for b in f.bindings:
        names = {u: u for u in b.uses}
        names["out"] = b.outs[0].name
        for i, o in enumerate(b.outs):
            names[f"out{i}"] = o.name
            for d in o.dims:
                used |= d.names()
        t = b.text.format(**names)
        for n in f.vars:
            if n in t.replace("(", " ").replace(")", " ").replace(",", " ").replace("[", " ").replace("]", " ").split():
                used.add(n)
        refs += refs_of(t)
        lines += t.split("\n")
    used = sorted(used & set(f.vars))
    bare = {d.bare() for v in f.params for d in v.dims}
    hidden = [n for n in used if n.startswith("k")]
    missing = [n for n in used if n not in bare and n not in hidden]
    quote = lambda d: str(d.const()) if d.const() is not None else f'"{d.text()}"'
    params = []
    f.extra = []
    if missing and f.declare == "prim":
        params = [f"{n}: T.int64" for n in missing]
        f.extra = [("prim", [n]) for n in missing]
    elif missing and f.declare == "shape":
        params = ["shp: R.Shape([" + ", ".join(f'"{n}"' for n in missing) + "])"]
        f.extra = [("shape", missing)]
    elif missing:
        params = ["dummy: R.Tensor((" + ", ".join(f'"{n}"' for n in missing) + ',), dtype="uint8")']
        f.extra = [("tensor", missing)]
    for v in f.params:
        s = [quote(d) for d in v.dims]
        params.append(f'{v.name}: R.Tensor(({", ".join(s)}{"," if len(s) == 1 else ""}), dtype="{v.dtype}")')
    out = ["    @R.function(private=True)" if f.private else "    @R.function"]
    out.append(f"    def {f.name}({', '.join(params)}):")
    if refs:
        out.append("        cls = Module")
    prims = missing if f.extra and f.extra[0][0] == "prim" else []
    out += [f"        {n} = T.int64()" for n in used if n not in prims]
    pad = "        "
    if f.dataflow and lines:
        out.append("        with R.dataflow():")
        pad = "            "
    out += [pad + l for l in lines]
    names = [v.name for v in f.outs]
    if f.dataflow and lines:
        made = {o.name for b in f.bindings for o in b.outs}
        out.append(pad + "R.output(" + ", ".join(dict.fromkeys(n for n in names if n in made)) + ")")
    out.append("        return " + (names[0] if len(names) == 1 else "(" + ", ".join(names) + ")"))
    return "\n".join(out) + "\n", refs


# --- operators: each adds a binding to f or returns None ------------------------------------------------
def op_unary(g, f):
    rng = g.rng
    x = g.pick(f)
    if x is None:
        return None
    u = "{" + x.name + "}"
    fl = x.dtype in FLOATS
    small = x.bound
    table = []
    if x.dtype != "bool":
        table += [("R.nn.relu(X)", small, x.grain), ("R.abs(X)", small, x.grain), ("R.negative(X)", small, x.grain),
                  ("R.square(X)", small * small, None if x.grain is None else 2 * x.grain)]
        lo = rng.randint(-3, 1)
        lo = max(lo, 0) if x.dtype[0] == "u" else lo
        table.append((f"R.clip(X, {lo}, {rng.randint(1, 4)})", 4.0, x.grain))
    if x.dtype not in FLOATS:
        table += [("R.bitwise_not(X)", 1e9, None), ("R.logical_not(X)", 1.0, None)]
    elif x.exact():
        table += [(f"R.{o}(X)", small + 1, 0) for o in ("floor", "ceil", "round", "trunc", "sign")]
    if fl:
        for o in ("tanh", "sigmoid", "sin", "cos", "atan", "erf"):
            table.append((f"R.{o}(X)", 1.0 if o != "atan" else 2.0, None))
        for o in ("gelu", "gelu_tanh", "selu", "silu", "leakyrelu", "softplus", "relu6"):
            table.append((f"R.nn.{o}(X)", 2 * small + 1, x.grain if o == "relu6" else None))
        table.append(("R.exp(R.tanh(X))", 3.0, None))
        half = f'R.const(0.5, "{x.dtype}")'
        table.append((f"R.log(R.add(R.abs(X), {half}))", 12.0, None))
        table.append((f"R.sqrt(R.add(R.abs(X), {half}))", small + 1, None))
        table.append((f"R.rsqrt(R.add(R.abs(X), {half}))", 2.0, None))
        table.append((f"R.asinh(X)", small + 1, None))
        if x.exact():
            table.append(("R.isnan(X)", 1.0, "bool"))
            table.append(("R.isfinite(X)", 1.0, "bool"))
    if not table:
        return None
    text, bound, grain = rng.choice(table)
    dtype = x.dtype
    if grain == "bool":
        dtype, grain = "bool", None
    return g.bind(f, text.replace("X", u), [x.name], dtype, x.dims, bound, grain)


def broadcast(g, f, x):
    """A value that broadcasts with x: (text, uses, Val, dims of the result)."""
    rng = g.rng
    r = rng.random()
    if r < 0.25:
        v = rng.choice([1, 2, 3]) if x.dtype not in FLOATS else rng.choice([0.5, 1.0, -1.5, 2.0, -0.25])
        v = v if x.dtype != "bool" else rng.choice([True, False])
        if x.dtype[0] == "u":
            y = g.like(f, x, dims=[])
            return ("{" + y.name + "}", [y.name], y, x.dims)
        return (f'R.const({v}, "{x.dtype}")', [], Val("", x.dtype, [], abs(v), 2), x.dims)
    if r < 0.6 or not x.dims:
        y = g.like(f, x)
        return y and ("{" + y.name + "}", [y.name], y, x.dims)
    dims = [d if rng.random() < 0.5 else as_dim(1, g.sizes) for d in x.dims][rng.randint(0, len(x.dims)):]
    y = g.like(f, x, dims=dims)
    return y and ("{" + y.name + "}", [y.name], y, x.dims)


def op_binary(g, f):
    rng = g.rng
    x = g.pick(f)
    if x is None:
        return None
    b = broadcast(g, f, x)
    if not b:
        return None
    yt, uses, y, dims = b
    xt = "{" + x.name + "}"
    a, c = (xt, yt) if rng.random() < 0.6 else (yt, xt)
    p, q = (x, y) if a == xt else (y, x)
    uses = [x.name] + uses
    grains = None if x.grain is None or y.grain is None else max(x.grain, y.grain)
    table = [("add", x.bound + y.bound, grains), ("subtract", x.bound + y.bound, grains),
             ("multiply", x.bound * y.bound, None if grains is None else x.grain + y.grain),
             ("maximum", max(x.bound, y.bound), grains), ("minimum", max(x.bound, y.bound), grains)]
    dtype = x.dtype
    if dtype == "bool":
        table = [(o, 1.0, None) for o in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_xor", "maximum")]
    elif dtype not in FLOATS:
        table += [(o, 1e9, None) for o in ("floor_divide", "floor_mod", "mod", "divide", "bitwise_and", "bitwise_or",
                                           "bitwise_xor", "left_shift", "right_shift")]
    else:
        if x.exact() and y.exact():
            table += [("floor_mod", y.bound + x.bound, grains), ("mod", x.bound + y.bound, grains)]
        if rng.random() < 0.3:
            t = f'R.divide({a}, R.add(R.abs({c}), R.const(1.0, "{dtype}")))'
            return g.bind(f, t, uses, dtype, dims, p.bound, None)
        table.append(("atan2", 4.0, "atan2"))
        table.append(("log_add_exp", x.bound + y.bound + 1, None))
    if x.exact() and y.exact():
        table += [(o, 1.0, "bool") for o in ("less", "greater_equal", "equal", "not_equal", "greater", "less_equal")]
    o, bound, grain = rng.choice(table)
    if grain == "atan2":
        t = f'R.atan2({a}, R.add(R.abs({c}), R.const(0.5, "{dtype}")))'
        return g.bind(f, t, uses, dtype, dims, bound, None)
    if o in ("floor_mod", "mod") and dtype in FLOATS:
        t = f'R.{o}({a}, R.add(R.abs({c}), R.const(1.0, "{dtype}")))'
        return g.bind(f, t, uses, dtype, dims, bound + 1, grain)
    if grain == "bool":
        dtype, grain = "bool", None
    return g.bind(f, f"R.{o}({a}, {c})", uses, dtype, dims, bound, grain)


def op_where(g, f):
    x = g.pick(f)
    if x is None:
        return None
    c = g.like(f, x, dtype="bool", dims=[d if g.rng.random() < 0.7 else as_dim(1, g.sizes) for d in x.dims])
    b = broadcast(g, f, x)
    if not b or c is None:
        return None
    yt, uses, y, _ = b
    grain = None if x.grain is None or y.grain is None else max(x.grain, y.grain)
    return g.bind(f, f"R.where({{{c.name}}}, {{{x.name}}}, {yt})", [c.name, x.name] + uses, x.dtype, x.dims,
                  max(x.bound, y.bound), grain)


def op_astype(g, f):
    x = g.pick(f)
    if x is None:
        return None
    to = g.dtype()
    if to not in FLOATS and not x.exact():
        return None
    bound, grain = x.bound, x.grain
    if x.dtype not in FLOATS:
        if to in FLOATS and x.bound > 1e4:
            return None
        grain = 0
    if to not in FLOATS and x.dtype in FLOATS and to != "bool":
        grain = None
    if to == "bool":
        bound = 1.0
    return g.bind(f, f'R.astype({{{x.name}}}, "{to}")', [x.name], to, x.dims, bound, grain)


def op_reduce(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims)
    if x is None:
        return None
    ops = ["sum", "max", "min"]
    if x.dtype in FLOATS:
        ops += ["mean", "variance", "std"]
    if x.exact() and x.dtype != "bool":
        ops += ["argmax", "argmin"]
    o = rng.choice(ops)
    n = len(x.dims)
    axes = sorted(rng.sample(range(n), rng.randint(1, n)))
    if o in ("argmax", "argmin"):
        axes = axes[:1]
    keep = rng.random() < 0.4
    dims = [as_dim(1, g.sizes) if i in axes else d for i, d in enumerate(x.dims)]
    if not keep:
        dims = [d for i, d in enumerate(x.dims) if i not in axes]
    count = product([x.dims[i] for i in axes], g.sizes)
    if min(count.vals) == 0 and (o not in ("sum", "max", "min") or (o != "sum" and x.dtype in FLOATS)):
        return None
    at = [i - n if rng.random() < 0.3 else i for i in axes]
    ax = str(at[0]) if o in ("argmax", "argmin") or (len(at) == 1 and rng.random() < 0.5) else str(at)
    if len(axes) == n and o not in ("argmax", "argmin") and rng.random() < 0.5:
        ax = "None"
    big = max(count.vals)
    bound, grain = x.bound, x.grain
    if o == "sum":
        bound = x.bound * max(big, 1)
    elif o in ("mean", "variance", "std"):
        bound, grain = (x.bound if o != "variance" else x.bound ** 2), None
        if o == "std":
            return g.bind(f, f'R.sqrt(R.add(R.variance({{{x.name}}}, axis={ax}, keepdims={keep}), R.const(0.5, "{x.dtype}")))',
                          [x.name], x.dtype, dims, bound + 1, None)
    dtype = "int64" if o in ("argmax", "argmin") else x.dtype
    if dtype == "int64" and o != "sum" and o[:3] == "arg":
        bound, grain = big, None
    return g.bind(f, f"R.{o}({{{x.name}}}, axis={ax}, keepdims={keep})", [x.name], dtype, dims, bound, grain)


def op_scan(g, f):
    x = g.pick(f, lambda v: v.dims and v.dtype != "bool")
    if x is None:
        return None
    a = g.rng.randrange(len(x.dims))
    ex = g.rng.random() < 0.3
    return g.bind(f, f"R.cumsum({{{x.name}}}, axis={a}, exclusive={ex})", [x.name], x.dtype, x.dims,
                  x.bound * max(max(x.dims[a].vals), 1), x.grain)


def op_matmul(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and v.dtype in FLOATS + ("int32",) and v.bound < 1e3)
    if x is None:
        return None
    k = x.dims[-1]
    n = g.dim(f)
    form = rng.random()
    if form < 0.15:
        ydims = [k]
    elif form < 0.3 and len(x.dims) > 2:
        ydims = x.dims[:-2] + [k, n]
    elif form < 0.4 and len(x.dims) > 2:
        ydims = [as_dim(1, g.sizes)] * (len(x.dims) - 2) + [k, n]
    else:
        ydims = [k, n]
    trans = rng.random() < 0.3 and len(ydims) >= 2
    if trans:
        ydims = ydims[:-2] + [ydims[-1], ydims[-2]]
    y = g.like(f, x, dims=ydims)
    if y is None:
        return None
    yt = "{" + y.name + "}"
    if trans:
        r = len(ydims)
        yt = f"R.permute_dims({yt}, {list(range(r - 2)) + [r - 1, r - 2]})"
        ydims = ydims[:-2] + [ydims[-1], ydims[-2]]
    work = product(x.dims + ([] if len(ydims) == 1 else [n]), g.sizes)
    if max(work.vals) > WORK:
        return None
    dims = x.dims[:-1] + ([] if len(ydims) == 1 else [n])
    bound = x.bound * y.bound * max(max(k.vals), 1)
    grain = None if x.grain is None or y.grain is None else x.grain + y.grain
    return g.bind(f, f"R.matmul({{{x.name}}}, {yt})", [x.name, y.name], x.dtype, dims, bound, grain)


def op_matmul_head(g, f):
    """x^T y of two values with a common first axis; or a product of whole permutations."""
    x = g.pick(f, lambda v: len(v.dims) == 2 and v.dtype in FLOATS and v.bound < 1e3)
    if x is None:
        return None
    n = g.dim(f)
    y = g.like(f, x, dims=[x.dims[0], n])
    if y is None or max(product(x.dims + [n], g.sizes).vals) > WORK:
        return None
    bound = x.bound * y.bound * max(max(x.dims[0].vals), 1)
    grain = None if x.grain is None or y.grain is None else x.grain + y.grain
    return g.bind(f, f"R.matmul(R.permute_dims({{{x.name}}}), {{{y.name}}})", [x.name, y.name], x.dtype,
                  [x.dims[1], n], bound, grain)


def op_move(g, f):
    rng = g.rng
    x = g.pick(f)
    if x is None:
        return None
    u, n = "{" + x.name + "}", len(x.dims)
    one = as_dim(1, g.sizes)
    kind = rng.choice(["reshape", "flatten", "permute", "expand", "squeeze", "broadcast", "tile", "repeat", "flip",
                       "tril", "view2"])
    dims = list(x.dims)
    if kind == "reshape":
        # neighbours joined, or a constant factor of a dim split off
        if n >= 2 and rng.random() < 0.6:
            i = rng.randrange(n - 1)
            dims[i:i + 2] = [dims[i] * dims[i + 1]]
        elif n:
            i = rng.randrange(n)
            c = [c for c in (2, 3, 4) if all(v % c == 0 for v in dims[i].terms.values()) and dims[i].terms]
            if c:
                c = rng.choice(c)
                part = Dim({k: v // c for k, v in dims[i].terms.items()}, [v // c for v in dims[i].vals])
                dims[i:i + 1] = [part, as_dim(c, g.sizes)] if rng.random() < 0.5 else [as_dim(c, g.sizes), part]
        if rng.random() < 0.3:
            dims.insert(rng.randint(0, len(dims)), one)
        t = f"R.reshape({u}, {shape_text(dims)})"
    elif kind == "view2":
        # dims exchanged without moving elements
        rng.shuffle(dims)
        t = f"R.reshape({u}, {shape_text(dims)})"
    elif kind == "flatten":
        dims = [product(dims, g.sizes)]
        t = f"R.flatten({u})"
    elif kind == "permute" and n >= 2:
        p = list(range(n))
        rng.shuffle(p)
        dims = [x.dims[i] for i in p]
        t = f"R.permute_dims({u}, {p})"
    elif kind == "expand":
        a = rng.randint(0, n)
        dims.insert(a, one)
        t = f"R.expand_dims({u}, {a})"
    elif kind == "squeeze":
        at = [i for i, d in enumerate(dims) if d.const() == 1]
        if not at:
            return None
        i = rng.choice(at)
        del dims[i]
        t = f"R.squeeze({u}, {i})"
    elif kind == "broadcast":
        dims = [g.dim(f) if d.const() == 1 and rng.random() < 0.7 else d for d in dims]
        if rng.random() < 0.4:
            dims.insert(0, g.dim(f))
        t = f"R.broadcast_to({u}, {shape_text(dims)})"
    elif kind == "tile" and n:
        r = [rng.randint(1, 3) for _ in dims]
        dims = [d * c for d, c in zip(dims, r)]
        t = f"R.tile({u}, {tuple(r)})"
    elif kind == "repeat" and n:
        a, c = rng.randrange(n), rng.randint(1, 3)
        dims[a] = dims[a] * c
        t = f"R.repeat({u}, {c}, axis={a})"
    elif kind == "flip" and n:
        t = f"R.flip({u}, axis={rng.randrange(n)})"
    elif kind == "tril" and n >= 2:
        t = f"R.{rng.choice(['tril', 'triu'])}({u}, {rng.randint(-2, 2)})"
    else:
        return None
    return g.bind(f, t, [x.name], x.dtype, dims, x.bound, x.grain)


def op_slice(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims)
    if x is None:
        return None
    i = rng.randrange(len(x.dims))
    d = x.dims[i]
    dims = list(x.dims)
    s = rng.choice([1, 1, 2, 3, -1])
    if d.const() is not None and d.const() > 0:
        c = d.const()
        b, e = rng.randint(-c - 1, c), rng.randint(-c - 1, c + 2)
        if s < 0:
            b, e = max(b, e), min(b, e)
        dims[i] = as_dim(len(range(c)[b:e:s]), g.sizes)
        be = (b, e)
    elif min(d.vals) >= 1 and rng.random() < 0.6:
        # all but the first or the last: a dim that needs a fact; a match_cast names it
        b = rng.choice([0, 1])
        vals = [len(range(v)[b:v - 1 + b:1]) for v in d.vals]
        return cast_new(g, f, f"R.strided_slice({{{x.name}}}, ({i},), ({b},), ({(d + (b - 1)).text()},))", x, dims, i, vals)
    else:
        b = rng.choice([0, 1, -2])
        e = rng.choice([1, 2, 1000])
        vals = [len(range(v)[b:e:max(s, 1)]) for v in d.vals]
        return cast_new(g, f, f"R.strided_slice({{{x.name}}}, ({i},), ({b},), ({e},), ({max(s, 1)},))", x, dims, i, vals)
    return g.bind(f, f"R.strided_slice({{{x.name}}}, ({i},), ({be[0]},), ({be[1]},), ({s},))", [x.name], x.dtype, dims,
                  x.bound, x.grain)


def cast_new(g, f, text, x, dims, i, vals):
    """Binds text and casts the result so that dim i has a name of its own."""
    k = g.name("k")
    f.vars[k] = Dim({(k,): 1}, vals)
    dims = list(dims)
    dims[i] = f.vars[k]
    if not g.small(dims):
        return None
    v = Val(g.name("v"), x.dtype, dims, x.bound, x.grain)
    f.bindings.append(Binding("{out}_c = " + text + "\n{out} = R.match_cast({out}_c, " + v.annotation() + ")",
                              [x.name], [v]))
    return v


def op_join(g, f):
    rng = g.rng
    x = g.pick(f)
    if x is None:
        return None
    n = len(x.dims)
    if rng.random() < 0.3 or not n:
        y = g.like(f, x)
        if y is None:
            return None
        a = rng.randint(0, n)
        dims = list(x.dims)
        dims.insert(a, as_dim(2, g.sizes))
        grain = None if x.grain is None or y.grain is None else max(x.grain, y.grain)
        return g.bind(f, f"R.stack(({{{x.name}}}, {{{y.name}}}), axis={a})", [x.name, y.name], x.dtype, dims,
                      max(x.bound, y.bound), grain)
    a = rng.randrange(n)
    parts = [x]
    for _ in range(rng.randint(1, 3)):
        d = list(x.dims)
        if rng.random() < 0.5:
            d[a] = g.dim(f)
        y = g.like(f, x, dims=d)
        if y is not None:
            parts.append(y)
    rng.shuffle(parts)
    dims = list(x.dims)
    dims[a] = as_dim(0, g.sizes)
    for p in parts:
        dims[a] = dims[a] + p.dims[a]
    grain = None if any(p.grain is None for p in parts) else max(p.grain for p in parts)
    names = ", ".join("{" + p.name + "}" for p in parts)
    return g.bind(f, f"R.concat(({names},), axis={a})", [p.name for p in parts], x.dtype, dims,
                  max(p.bound for p in parts), grain)


def op_split(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: any(d.terms and all(c % 2 == 0 for c in d.terms.values()) for d in v.dims))
    if x is None:
        return None
    at = [i for i, d in enumerate(x.dims) if d.terms and all(c % 2 == 0 for c in d.terms.values())]
    i = rng.choice(at)
    d = x.dims[i]
    half = Dim({k: v // 2 for k, v in d.terms.items()}, [v // 2 for v in d.vals])
    dims = list(x.dims)
    dims[i] = half
    outs = [Val(g.name("v"), x.dtype, dims, x.bound, x.grain) for _ in range(2)]
    t = g.name("t")
    f.bindings.append(Binding(f"{t} = R.split({{{x.name}}}, 2, axis={i})\n{{out0}} = {t}[0]\n{{out1}} = {t}[1]",
                              [x.name], outs))
    return outs[0]


def op_take(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims)
    if x is None:
        return None
    a = rng.randrange(len(x.dims))
    if min(x.dims[a].vals) == 0:
        return None
    kind = rng.choice(["take", "take", "gather_elements", "scatter_elements"])
    if kind == "take":
        ix = g.like(f, x, dims=[g.dim(f)] if rng.random() < 0.8 else [], dtype=rng.choice(["int64", "int32"]))
        if ix is None:
            return None
        mode = rng.choice(["fast", "clip", "wrap"])
        dims = x.dims[:a] + ix.dims + x.dims[a + 1:]
        return g.bind(f, f'R.take({{{x.name}}}, {{{ix.name}}}, axis={a}, mode="{mode}")', [x.name, ix.name], x.dtype,
                      dims, x.bound, x.grain)
    if kind == "gather_elements":
        d = list(x.dims)
        d[a] = g.dim(f)
        ix = g.like(f, x, dims=d, dtype="int64")
        if ix is None:
            return None
        return g.bind(f, f"R.gather_elements({{{x.name}}}, {{{ix.name}}}, axis={a})", [x.name, ix.name], x.dtype, d,
                      x.bound, x.grain)
    if x.dtype == "bool":
        return None
    d = list(x.dims)
    d[a] = as_dim(rng.randint(1, 3), g.sizes)
    ix, up = g.like(f, x, dims=d, dtype="int64"), g.like(f, x, dims=d)
    if ix is None or up is None:
        return None
    ext = x.dims[a]
    size = f'R.const({ext.const()}, "int64")' if ext.const() else f"R.shape_to_tensor(R.shape([{ext.text()}]))"
    red = rng.choice(["add", "max", "min"])
    grain = None if x.grain is None or up.grain is None else max(x.grain, up.grain)
    bound = max(x.bound, up.bound) if red != "add" else x.bound + 3 * up.bound
    return g.bind(f, f'R.scatter_elements({{{x.name}}}, R.floor_mod({{{ix.name}}}, {size}), {{{up.name}}}, axis={a}, reduction="{red}")',
                  [x.name, ix.name, up.name], x.dtype, x.dims, bound, grain)


def op_norm(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: v.dims and v.dtype in FLOATS and v.bound < 200)
    if x is None or min(product(x.dims, g.sizes).vals) == 0:
        return None
    n, u = len(x.dims), "{" + x.name + "}"
    kind = rng.choice(["softmax", "log_softmax", "layer_norm", "rms_norm"])
    if kind in ("softmax", "log_softmax"):
        a = rng.randint(-n, n - 1)
        return g.bind(f, f"R.nn.{kind}({u}, axis={a})", [x.name], x.dtype, x.dims, 1.0 if kind == "softmax" else 2 * x.bound + 12, None)
    axes = [n - 1] if rng.random() < 0.6 or n < 2 else [n - 2, n - 1]
    gd = [x.dims[a] for a in axes]
    gamma, beta = g.like(f, x, dims=gd), g.like(f, x, dims=gd)
    if gamma is None or beta is None:
        return None
    if kind == "rms_norm":
        return g.bind(f, f"R.nn.rms_norm({u}, {{{gamma.name}}}, axes={axes}, epsilon=0.5)", [x.name, gamma.name], x.dtype,
                      x.dims, 8 * gamma.bound, None)
    return g.bind(f, f"R.nn.layer_norm({u}, {{{gamma.name}}}, {{{beta.name}}}, axes={axes}, epsilon=0.5)",
                  [x.name, gamma.name, beta.name], x.dtype, x.dims, 8 * gamma.bound + beta.bound, None)


def op_window(g, f):
    rng = g.rng
    x = g.pick(f, lambda v: len(v.dims) == 4 and v.dtype in FLOATS and v.bound < 100)
    if x is None:
        if rng.random() < 0.5:
            return None
        cs = [as_dim(rng.choice([1, 2, 4, 6, 8, 16]), g.sizes), g.dim(f), as_dim(rng.choice([3, 5, 8, 9]), g.sizes)]
        dims = [as_dim(rng.choice([1, 2]), g.sizes)] + cs
        if rng.random() < 0.3 and g.small([g.dim(f)] + cs):
            dims[0] = f.vars.get("n", dims[0])
        if not g.small(dims):
            return None
        x = g.param(f, rng.choice(["float32", "float32", "float64", "float16"]), dims)
    pad = rng.choice([0, 1, 1, 2])
    kh, kw = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    nhwc = rng.random() < 0.3
    ci, hi, wi = (3, 1, 2) if nhwc else (1, 2, 3)
    c, h, w = x.dims[ci], x.dims[hi], x.dims[wi]
    layout = "NHWC" if nhwc else "NCHW"
    u = "{" + x.name + "}"
    dims = list(x.dims)
    dims[hi], dims[wi] = h + (2 * pad - kh + 1), w + (2 * pad - kw + 1)
    if min(dims[hi].vals + dims[wi].vals) < 1 or not g.small(dims):
        return None
    kind = rng.choice(["conv", "conv", "max", "avg"])
    if kind != "conv":
        if pad >= min(kh, kw):
            return None
        return g.bind(f, f'R.nn.{kind}_pool2d({u}, pool_size=[{kh}, {kw}], padding=[{pad}, {pad}], layout="{layout}")',
                      [x.name], x.dtype, dims, x.bound, x.grain if kind == "max" else None)
    cc = c.const()
    if cc is None:
        groups, per = 1, c
    else:
        groups = rng.choice([k for k in (1, 1, 2, 4, cc) if k and cc % k == 0] or [1])
        if cc == 0:
            return None
        per = as_dim(cc // groups, g.sizes)
    o = as_dim(groups * rng.choice([1, 2, 3, 5]), g.sizes)
    wd = [o, per, as_dim(kh, g.sizes), as_dim(kw, g.sizes)]
    if nhwc:
        wd = [wd[0], wd[2], wd[3], wd[1]]
    y = g.like(f, x, dims=wd)
    if y is None:
        return None
    dims[ci] = o
    if max(product(dims + [per, as_dim(kh * kw, g.sizes)], g.sizes).vals) > WORK:
        return None
    bound = x.bound * y.bound * max(per.vals) * kh * kw
    grain = None if x.grain is None or y.grain is None else x.grain + y.grain
    return g.bind(f, f'R.nn.conv2d({u}, {{{y.name}}}, padding=[{pad}, {pad}], groups={groups}, data_layout="{layout}", kernel_layout="{"OHWI" if nhwc else "OIHW"}")',
                  [x.name, y.name], x.dtype, dims, bound, grain)


def op_if(g, f):
    rng = g.rng
    x = g.pick(f)
    c = g.like(f, x, dims=[], dtype="bool") if x is not None else None
    b = broadcast(g, f, x) if c is not None else None
    if not b or x.dtype == "bool":
        return None
    yt, uses, y, dims = b
    v = Val(g.name("v"), x.dtype, dims, x.bound + y.bound, None if x.grain is None or y.grain is None else max(x.grain, y.grain))
    fit = g.fits(v.dtype, v.bound, v.grain)
    if fit is None:
        return None
    v.bound, v.grain = fit
    xt = "{" + x.name + "}"
    o = rng.choice(["add", "subtract", "maximum"])
    other = xt if rng.random() < 0.4 else f"R.minimum({xt}, {yt})"
    a, e = f"R.{o}({xt}, {yt})", other
    if rng.random() < 0.5:
        a, e = e, a
    f.bindings.append(Binding(f"if {{{c.name}}}:\n    {{out}} = {a}\nelse:\n    {{out}} = {e}", [c.name, x.name] + uses, [v]))
    return v


def op_call(g, f):
    rng = g.rng
    args = [g.pick(f) for _ in range(rng.randint(1, 3))]
    args = list({a.name: a for a in args if a is not None}.values())
    if not args:
        return None
    h = Func(g.name("h"), g.sizes, private=True)
    h.declare = "prim"
    back, seen = {}, {}
    for a in args:
        dims = []
        for d in a.dims:
            if d.const() is not None and rng.random() < 0.7:
                dims.append(d)
                continue
            if d not in seen:
                p = g.name("q")
                seen[d] = Dim({(p,): 1}, d.vals)
                h.vars[p] = seen[d]
                back[p] = d
            dims.append(seen[d])
        h.params.append(Val(a.name + "_a", a.dtype, dims, a.bound, a.grain))
    first = len(h.params)
    g.steps(h, rng.randint(1, 4))
    h.dataflow = rng.random() < 0.5
    # What the steps made into parameters comes from the caller.
    if any(g.hidden(f, d.subst(back)) for p in h.params[first:] for d in p.dims if d.names() <= set(back)):
        return None
    for p in h.params[first:]:
        v = g.param(f, p.dtype, [d.subst(back) for d in p.dims], p.bound, p.grain)
        args.append(v)
    g.choose_outs(h, visible=True)
    h.outs = h.outs[:3]
    bare = {d.bare() for p in h.params for d in p.dims}
    if any(n not in bare for v in h.params + h.outs for d in v.dims for n in d.names()):
        return None
    function_text(h)
    if h.extra:
        return None
    g.helpers[h.name] = h
    outs = [Val(g.name("v"), o.dtype, [d.subst(back) for d in o.dims], o.bound, o.grain) for o in h.outs]
    names = ", ".join("{" + a.name + "}" for a in args)
    call = f"cls.{h.name}({names})"
    if len(outs) == 1:
        text = "{out} = " + call
    else:
        t = g.name("t")
        text = f"{t} = {call}" + "".join(f"\n{{out{i}}} = {t}[{i}]" for i in range(len(outs)))
    f.bindings.append(Binding(text, [a.name for a in args], outs))
    return outs[0]


def op_create(g, f):
    rng = g.rng
    dims = g.dims(f, rng.randint(0, 3))
    dtype = g.dtype()
    kind = rng.choice(["zeros", "ones", "full", "arange", "eye", "const", "like"])
    if kind in ("zeros", "ones"):
        return g.bind(f, f'R.{kind}({shape_text_call(dims)}, "{dtype}")', [], dtype, dims, 1.0, 0)
    if kind == "full" and dtype != "bool":
        return g.bind(f, f'R.full({shape_text_call(dims)}, R.const(2, "float32"), "{dtype}")', [], dtype, dims, 2.0, 0)
    if kind == "arange":
        d = g.dim(f)
        dtype = rng.choice(["int64", "float32", "int32"])
        return g.bind(f, f'R.arange({d.text()}, dtype="{dtype}")', [], dtype, [d], max(max(d.vals), 1), 0)
    if kind == "const" and dtype[0] not in "ub":
        n = rng.randint(1, 5)
        v = [rng.randint(-4, 4) for _ in range(n)]
        return g.bind(f, f'R.const({v}, "{dtype}")', [], dtype, [as_dim(n, g.sizes)], 4.0, 0)
    x = g.pick(f)
    if kind == "like" and x is not None:
        return g.bind(f, f"R.{rng.choice(['zeros_like', 'ones_like'])}({{{x.name}}})", [x.name], x.dtype, x.dims, 1.0, 0)
    return None


def shape_text_call(dims):
    return f"R.shape([{', '.join(d.text() for d in dims)}])"


def op_tuple(g, f):
    x, y = g.pick(f), g.pick(f)
    if x is None or y is None:
        return None
    v = Val(g.name("v"), x.dtype, x.dims, x.bound, x.grain)
    w = Val(g.name("v"), y.dtype, y.dims, y.bound, y.grain)
    t = g.name("t")
    text = f"{t} = ({{{x.name}}}, ({{{y.name}}},))\n{{out0}} = {t}[0]\n{t}_1 = {t}[1]\n{{out1}} = {t}_1[0]"
    if g.rng.random() < 0.3:
        text = f"{{out0}} = {{{x.name}}}\n{{out1}} = {{{y.name}}}"
    f.bindings.append(Binding(text, [x.name, y.name], [v, w]))
    return v


def op_tir(g, f):
    import loops
    return loops.op_tir(g, f)


KINDS = [(op_unary, 8), (op_binary, 12), (op_where, 2), (op_astype, 3), (op_reduce, 6), (op_scan, 2), (op_matmul, 6),
         (op_matmul_head, 2), (op_move, 10), (op_slice, 4), (op_join, 4), (op_split, 2), (op_take, 3), (op_norm, 4),
         (op_window, 4), (op_if, 1), (op_call, 2), (op_tir, 9), (op_create, 2), (op_tuple, 1)]


def all_kinds():
    """[(function, weight)] with those of operators.py, which builds on this module."""
    import operators
    return KINDS + operators.KINDS
