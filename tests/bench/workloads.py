"""The table of workloads. A workload is one network, with one or several cases: values of its
symbolic dims. Each case is a row of the results.

    workloads.py OUT [NAME...]    writes NAME.rx, NAME.npz, NAME.onnx and the cases' inputs into OUT
"""
import fnmatch
import os
import sys

import numpy as np

import networks as nets
from graph import Graph, onnx_model, relax_text

ALL = {}


class Workload:
    def __init__(self, group, name, build, cases):
        self.group, self.name, self.build = group, name, build
        self.cases = cases  # row's name -> values of the symbolic dims

    def graph(self):
        g = Graph()
        self.build(g)
        return g


def workload(group, name, build, cases=None):
    assert name not in ALL, name
    ALL[name] = Workload(group, name, build, cases or {name: {}})


def simple(group, name, build, *shapes, cases=None):
    """A network with inputs x0, x1, ... of these shapes and the one result that build returns."""
    def whole(g):
        g.output(build(g, *(g.input(f"x{i}", s) for i, s in enumerate(shapes))))
    workload(group, name, whole, cases)


# --- call overhead and small networks --------------------------------------------------------------------
simple("overhead", "tiny_add8", lambda g, a, b: g.add(a, b), (8,), (8,))

MLP = (512, 256, 10)
simple("mlp", "slp_784x256", lambda g, x: nets.mlp(g, x, 256), (1, 784))
for batch in (1, 32, 512):
    simple("mlp", f"mlp3_b{batch}", lambda g, x: nets.mlp(g, x, *MLP), (batch, 784))
simple("dyn", "dyn_mlp3", lambda g, x: nets.mlp(g, x, *MLP), ("m", 784),
       cases={f"dyn_mlp3_b{m}": {"m": m} for m in (1, 32)})

# --- matrix products ----------------------------------------------------------------------------------------
for n in (64, 128, 256, 512, 1024, 2048):
    simple("gemm", f"gemm_{n}", lambda g, a, b: g.matmul(a, b), (n, n), (n, n))
for m, k, n in ((512, 512, 512), (1, 4096, 4096), (8, 768, 3072), (128, 768, 768), (197, 1024, 1024)):
    simple("gemm", f"gemm_{m}x{k}x{n}_w", lambda g, a, n=n: nets.dense(g, a, n, bias=False), (m, k))
simple("dyn", "dyn_gemm", lambda g, a: nets.dense(g, a, 768, bias=False), ("m", 768),
       cases={f"dyn_gemm_m{m}": {"m": m} for m in (1, 7, 128, 197)})


# --- bound by memory ------------------------------------------------------------------------------------------
def gelu_chain(g, x, residual):
    d = x.shape[-1]
    y = g.add(g.multiply(x, g.weight(d, scale=1.0)), g.weight(d, scale=0.5))
    return g.add(nets.gelu(g, y), residual)


for n in (1, 32):
    simple("mem", f"chain_gelu_{n}x128x3072", gelu_chain, *[(n, 128, 3072)] * 2)
simple("mem", "add_4M", lambda g, a, b: g.add(a, b), *[(4, 1024, 1024)] * 2)
for shape in ((1536, 128), (1, 32000)):
    simple("mem", f"softmax_{shape[0]}x{shape[1]}", lambda g, x: g.unary("softmax", x), shape)
simple("mem", "layernorm_128x768", nets.layer_norm, (128, 768))
simple("mem", "rmsnorm_128x768", nets.rms_norm, (128, 768))
simple("mem", "mean_rows_4096x1024", lambda g, x: g.mean(x, 1), (4096, 1024))
simple("mem", "mean_cols_4096x1024", lambda g, x: g.mean(x, 0), (4096, 1024))
simple("mem", "transpose_512x768", lambda g, x: g.transpose(x, 1, 0), (512, 768))
simple("mem", "transpose_0213_1x128x12x64", lambda g, x: g.transpose(x, 0, 2, 1, 3), (1, 128, 12, 64))

# --- convolutions: those of ResNet-50, depthwise ones of MobileNetV2 --------------------------------------------
for channels, size, out, kernel, stride in nets.resnet50_convolutions():
    simple("conv", f"conv_{channels}x{size}_{out}_k{kernel}s{stride}",
           lambda g, x, o=out, k=kernel, s=stride: nets.conv(g, x, o, k, s), (1, channels, size, size))
for channels, size, stride in ((32, 112, 1), (96, 112, 2), (144, 56, 1), (192, 28, 1), (576, 14, 1), (960, 7, 1)):
    simple("dw", f"dw_{channels}x{size}_k3s{stride}",
           lambda g, x, c=channels, s=stride: nets.conv(g, x, c, 3, s, c), (1, channels, size, size))

# --- attention and whole networks ---------------------------------------------------------------------------------
for length in (128, 1024):
    simple("attn", f"attn_12x{length}x64",
           lambda g, q, k, v: nets.attention(g, q, g.transpose(k, 0, 1, 3, 2), v, 0.125),
           *[(1, 12, length, 64)] * 3)
workload("whole", "resnet50", nets.resnet50)
workload("whole", "mobilenetv2", nets.mobilenetv2)
workload("whole", "bert_layer_s128", lambda g: nets.bert(g, 1))
workload("whole", "bert_base_s128", lambda g: nets.bert(g, 12))
workload("whole", "llama_block_decode512", nets.llama_decode)
workload("whole", "minilm_s128", lambda g: nets.minilm(g, 128))
workload("dyn", "minilm_dyn", lambda g: nets.minilm(g, "n"),
         {f"minilm_dyn_s{n}": {"n": n} for n in (23, 128)})


# --- on disk ------------------------------------------------------------------------------------------------------
def select(patterns):
    """The workloads whose name, group or rows match one of the patterns; all without any."""
    def wanted(w):
        return any(fnmatch.fnmatch(n, p) for n in (w.name, w.group, *w.cases) for p in patterns)
    return [w for w in ALL.values() if not patterns or wanted(w)]


def case_inputs(graph, dims):
    """Input -> array, the same at every run."""
    random = np.random.default_rng(1)
    return {v: v.fill(random, tuple(dims.get(d, d) for d in v.shape)).astype(v.dtype)
            for v in graph.inputs}


def input_file(folder, row, value):
    return os.path.join(folder, f"{row}.{value.name}.bin")


def write(w, folder, with_onnx):
    """Writes what is missing of a workload's files and returns its graph."""
    path = os.path.join(folder, w.name)
    g = w.graph()
    if not os.path.exists(path + ".rx"):
        np.savez(path + ".npz", **{v.name: v.data for v in g.weights})
        for row, dims in w.cases.items():
            for value, array in case_inputs(g, dims).items():
                array.tofile(input_file(folder, row, value))
        with open(path + ".rx", "w") as f:  # last: it says that the others are complete
            f.write(relax_text(g))
    if with_onnx and not os.path.exists(path + ".onnx"):
        with open(path + ".onnx.new", "wb") as f:
            f.write(onnx_model(g).SerializeToString())
        os.rename(path + ".onnx.new", path + ".onnx")
    return g


def main():
    folder, *patterns = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for w in select(patterns):
        write(w, folder, True)


if __name__ == "__main__":
    main()
