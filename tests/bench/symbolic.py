"""One object for all sizes against an object made for one size, at that size.

A row is a network written once as a function of its sizes. With names for the sizes it becomes the
symbolic object, with numbers a static one; both are timed in one process, by each relaxc among
the peers.
"""
import fnmatch
import os

import networks as nets
import peers as peer_table
import workloads
from graph import Graph

COLUMNS = ("row", "variant", "symbolic_ms", "static_ms", "difference")
ROWS = {}  # name -> (build, cases)


def row(name, build, *cases):
    """build(g, size, ...) returns the result; its parameters name the sizes, a case gives their values."""
    names = build.__code__.co_varnames[1:build.__code__.co_argcount]
    ROWS[name] = build, [dict(zip(names, c if isinstance(c, tuple) else (c,))) for c in cases]


def inputs(g, *shapes):
    return [g.input(f"x{i}", s) for i, s in enumerate(shapes)]


SIZES = (1, 7, 23, 100, 128, 197, 1000)

# --- elementwise chains ------------------------------------------------------------------------------
row("add", lambda g, m, n: g.add(*inputs(g, (m, n), (m, n))), *((64, n) for n in SIZES))
row("bias", lambda g, m, n: g.add(*inputs(g, (m, n), (n,))), *((128, n) for n in SIZES))
row("scale_rows", lambda g, m, n: g.multiply(*inputs(g, (m, n), (m, 1))), *((128, n) for n in SIZES))
row("bias_gelu", lambda g, m, n: nets.gelu(g, g.add(*inputs(g, (m, n), (n,)))), *((128, n) for n in SIZES))
row("bias_channels", lambda g, c, h, w: g.unary("relu", g.add(*inputs(g, (1, c, h, w), (1, c, 1, 1)))),
    (64, 7, 7), (32, 23, 23), (16, 64, 64))
row("gelu_chain_768", lambda g, m: workloads.gelu_chain(g, *inputs(g, (m, 768), (m, 768))), 1, 7, 128)

# --- rows and columns ----------------------------------------------------------------------------------
row("softmax", lambda g, m, n: g.unary("softmax", *inputs(g, (m, n))), *((128, n) for n in SIZES))
row("softmax_rows_128", lambda g, m: g.unary("softmax", *inputs(g, (m, 128))), 1, 7, 197)
row("layer_norm", lambda g, m, n: g.layer_norm(*inputs(g, (m, n), (n,), (n,))), *((128, n) for n in SIZES))
row("layer_norm_768", lambda g, m: nets.layer_norm(g, *inputs(g, (m, 768))), 1, 7, 128)
row("rms_norm_768", lambda g, m: nets.rms_norm(g, *inputs(g, (m, 768))), 1, 7, 128)
row("mean_last", lambda g, m, n: g.mean(*inputs(g, (m, n)), 1), *((128, n) for n in SIZES))
row("mean_first", lambda g, m, n: g.mean(*inputs(g, (m, n)), 0), *((128, n) for n in SIZES))

# --- moves ---------------------------------------------------------------------------------------------
row("transpose", lambda g, m, n: g.transpose(*inputs(g, (m, n)), 1, 0), *((128, n) for n in SIZES), (23, 23))
row("transpose_heads", lambda g, s: g.transpose(*inputs(g, (1, s, 12, 64)), 0, 2, 1, 3), 7, 23, 128)
row("concat_columns", lambda g, m, n: g.concat(*inputs(g, (m, n), (m, 64)), 1), (64, 23), (64, 128))
row("concat_rows", lambda g, m: g.concat(*inputs(g, (m, 64), (7, 64)), 0), 1, 23, 128)
row("slice", lambda g, m: g.slice(*inputs(g, (m, 128)), 1, 3, 103), 1, 23, 128)

# --- contractions ----------------------------------------------------------------------------------------
row("dense_768x768", lambda g, m: nets.dense(g, *inputs(g, (m, 768)), 768), 1, 2, 3, 5, *SIZES[1:])
row("dense_384x1536", lambda g, m: nets.gelu(g, nets.dense(g, *inputs(g, (m, 384)), 1536)), *SIZES[:6])
row("dense_100x10", lambda g, m: nets.dense(g, *inputs(g, (m, 100)), 10), *SIZES)
row("matmul", lambda g, m, k, n: g.matmul(*inputs(g, (m, k), (k, n))), (7, 7, 7), (23, 23, 23), (32, 64, 100),
    (100, 100, 100), (128, 128, 128), (197, 197, 197))
row("matmul_m", lambda g, m: g.matmul(*inputs(g, (m, 256), (256, 256))), *SIZES[:6])
row("batched", lambda g, b, m: g.matmul(*inputs(g, (b, m, 64), (b, 64, m))), (4, 1), (4, 7), (4, 23), (4, 128))
row("batched_1", lambda g, b: g.matmul(*inputs(g, (b, 32, 64), (b, 64, 32))), 1, 12)
row("attention", lambda g, s: nets.attention(g, g.input("q", (1, 12, s, 64)),
                                             g.transpose(g.input("k", (1, 12, s, 64)), 0, 1, 3, 2),
                                             g.input("v", (1, 12, s, 64)), 0.125), *SIZES[:6])
row("attention_decode", lambda g, s: nets.attention(g, g.input("q", (1, 12, 1, 64)),
                                                    g.transpose(g.input("k", (1, 12, s, 64)), 0, 1, 3, 2),
                                                    g.input("v", (1, 12, s, 64)), 0.125), 7, 100, 1000)

# --- convolutions ------------------------------------------------------------------------------------------
row("conv_3x3_batch", lambda g, b: nets.conv(g, *inputs(g, (b, 64, 14, 14)), 64, 3), 1, 3)
row("conv_1x1_size", lambda g, h, w: nets.conv(g, *inputs(g, (1, 64, h, w)), 64, 1), (7, 7), (23, 23), (56, 56))
row("conv_3x3_size", lambda g, h, w: nets.conv(g, *inputs(g, (1, 64, h, w)), 64, 3), (7, 7), (23, 23), (56, 56))
row("depthwise_size", lambda g, h, w: nets.conv(g, *inputs(g, (1, 64, h, w)), 64, 3, 1, 64), (7, 7), (23, 23),
    (56, 56))

# --- whole networks ------------------------------------------------------------------------------------------
row("mlp3", lambda g, m: nets.mlp(g, *inputs(g, (m, 784)), *workloads.MLP), 1, 7, 32)
row("encoder_layer_384", lambda g, s: nets.encoder_layer(g, *inputs(g, (1, s, 384)), 12, 1536), 7, 23, 128)


class Form(workloads.Network):
    """The network of a row with these sizes: names, or numbers."""
    table = {}

    def __init__(self, name, build, sizes, cases):
        super().__init__("symbolic", name, lambda g: g.output(build(g, **sizes)), cases)


class FormPeer(peer_table.Relaxc):
    """A form of a network, compiled by a relaxc of the run, as a peer of the runner."""

    def __init__(self, label, relaxc, bench):
        super().__init__(f"{label}_{relaxc.name}", None, "", bench)
        self.kind = "relaxc"


def compiled(bench, form, label):
    """A form as peers, one for each relaxc of the run, and their libraries by name."""
    all_of_us = [p for p in bench.peers if p.kind == "relaxc"]
    found = [FormPeer(label, p, bench) for p in all_of_us]
    return found, {f.name: bench.compile(form, p.name) for f, p in zip(found, all_of_us)}


def time_row(bench, name, build, cases):
    """Lines of symbolic.tsv."""
    tag = lambda case: name + "".join(f"_{v}" for v in case.values())
    form = Form(name, build, {d: d for d in cases[0]}, {tag(c): c for c in cases})
    form.write(bench.models, False)
    symbolic, libraries = compiled(bench, form, "symbolic")
    forms, jobs, times = [form], [], {}
    for case in cases:
        forms.append(Form(tag(case), build, case, {tag(case): {}}))
        graph = forms[-1].write(bench.models, False)
        static, more = compiled(bench, forms[-1], "static")
        jobs.append(bench.path(forms[-1], ".job"))
        peer_table.write_job(jobs[-1], forms[-1], graph, symbolic + static, {**libraries, **more},
                             bench.models, seconds=bench.options.seconds)
    for line in bench.run_timed("time", *jobs).splitlines():
        case, peer, ms, _, _, difference, why = line.split("\t")
        if why:
            raise RuntimeError(f"{case}, {peer}: {why}")
        times[case, peer] = ms, difference
    for (case, peer), (ms, difference) in times.items():
        form, variant = peer.split("_", 1)
        if form == "symbolic":
            yield "\t".join([case, variant, ms, times[case, "static_" + variant][0], difference])
    for form in forms:
        bench.clean(form)


def measure(bench, patterns):
    """The section `symbolic`; yields lines of symbolic.tsv."""
    yield "\t".join(COLUMNS)
    for name, (build, cases) in ROWS.items():
        if patterns and not any(fnmatch.fnmatch(n, p) for n in (name, "symbolic") for p in patterns):
            continue
        lines = list(time_row(bench, name, build, cases))
        ratios = [float(a) / float(b) for _, _, a, b, _ in (line.split("\t") for line in lines)]
        print(f"symbolic {name}: {' '.join(f'{r:.2f}' for r in ratios)}", flush=True)
        yield from lines
