"""Which peers are on this machine, where their libraries are, and what the runner needs to load a
workload in each.

ONNX Runtime, OpenVINO, IREE and TVM are wheels beside the Python that runs this; all but IREE give
their C libraries, not their Python modules. oneDNN and OpenBLAS are Debian's and take part in rows of
one operation only.
"""
import ctypes.util
import glob
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys

RELAXC = {"relaxc": [], "relaxc-native": ["-march=native"]}  # options besides the defaults
HERE = os.path.dirname(os.path.abspath(__file__))
TVM_MULTIPLY_ADDS = 1 << 23  # larger contractions take 30 to 100 times as long as elsewhere in plain TVM


class Isa:
    """How the peers are held to an instruction set."""

    def __init__(self, options, cpu, environment, without):
        self.options = options  # ours
        self.cpu = cpu  # LLVM's name, for those who compile with it; None: this machine's
        self.environment = environment
        self.without = without  # peers that choose by the processor alone


ISAS = {
    "host": Isa([], None, {}, ()),
    "avx2": Isa(["-march=x86-64-v3"], "x86-64-v3",
                {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
                ("onnxruntime", "relaxc-native")),
}


def wheel_library(module, pattern):
    package = module.split(".")[0]
    spec = importlib.util.find_spec(module) if importlib.util.find_spec(package) else None
    found = glob.glob(os.path.join(os.path.dirname(spec.origin), pattern)) if spec else []
    return found[0] if found else None


class Peer:
    uses_onnx = False
    needs = ()  # modules, beside that of its library

    def __init__(self, name, library, version, bench):
        self.name, self.library, self.version, self.bench = name, library, version, bench
        self.kind = "relaxc" if name in RELAXC else name

    def arguments(self, w, graph, folder):
        """What follows the library in the job; None when there is nothing to run."""
        raise NotImplementedError

    def start(self, w, graph, job):
        """The command whose time is that from process start to first result."""
        return [self.bench.runner, "cold", job, self.name]

    def cached(self, w, folder, suffix, build):
        """Path of what `build` writes there from a workload, which takes long; kept between runs, for
        the same script. The reason of a failure is kept too; the runner says that there is no such file."""
        with open(w.script(folder), "rb") as f:
            digest = hashlib.blake2s(f.read(), digest_size=4).hexdigest()
        path = os.path.join(self.bench.cache, f"{w.name}.{digest}.{self.bench.options.isa}{suffix}")
        log = path + ".log"
        if not os.path.exists(path) and not os.path.exists(log):
            try:
                build(path)
            except subprocess.SubprocessError as e:
                with open(log, "w") as f:
                    print(e, getattr(e, "stderr", None) or "", file=f)
        return path


class FromOnnx(Peer):
    """Loads an ONNX file."""
    uses_onnx = True
    needs = ("onnx",)

    def arguments(self, w, graph, folder):
        model = w.onnx(folder)
        return [model] if model else None


class Relaxc(Peer):
    def arguments(self, w, graph, folder):
        return []


def quietly(command):
    """A compiler of another project: its output only matters when it fails."""
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)


class Tvm(Peer):
    """Compiled with default settings, on rows where these are of use."""
    needs = ("tvm",)

    def arguments(self, w, graph, folder):
        most = max(graph.multiply_adds(dims) for dims in w.cases.values())
        if not graph.nodes or most > TVM_MULTIPLY_ADDS:
            return None

        def build(out):
            script = os.path.join(folder, w.name + ".tvm.py")
            quietly([self.bench.relaxc, w.script(folder), "--emit=relax", "-o", script])
            quietly([sys.executable, os.path.join(HERE, "tvm_build.py"), script, w.weights(folder), out,
                     self.bench.isa.cpu or "host"])
        return [wheel_library("tvm", "lib/libtvm_runtime.so"), self.cached(w, folder, ".tvm.so", build)]


class Iree(Peer):
    """Compiled with data tiling; the weights in a file beside the code."""
    uses_onnx = True
    needs = ("onnx", "iree.compiler")

    def arguments(self, w, graph, folder):
        model = w.onnx(folder)
        if not model:
            return None
        programs = os.path.dirname(sys.executable)

        def build(out):
            code = os.path.join(folder, w.name + ".mlir")
            quietly([os.path.join(programs, "iree-import-onnx"), model, "-o", code, "--opset-version", "17",
                     "--externalize-params", "--save-params-to", os.path.splitext(out)[0] + ".irpa"])
            quietly([os.path.join(programs, "iree-compile"), code, "-o", out, "--iree-opt-data-tiling",
                     "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
                     "--iree-llvmcpu-target-cpu=" + (self.bench.isa.cpu or "host")])
        module = self.cached(w, folder, ".vmfb", build)
        return [module, os.path.splitext(module)[0] + ".irpa"]

    def start(self, w, graph, job):
        """The wheel's own program, which loads, calls once and writes the result."""
        folder = os.path.dirname(job)
        module, parameters = self.arguments(w, graph, folder)
        case = next(iter(w.cases))
        shapes = ["x".join(map(str, (*v.shape, {"float32": "f32", "int64": "i64"}[v.dtype]))) for v in graph.inputs]
        inputs = [f"--input={s}=@{w.input_file(folder, case, v)}" for s, v in zip(shapes, graph.inputs)]
        return [wheel_library("iree._runtime_libs", "iree-run-module"), "--device=local-sync",
                "--module=" + module, "--parameters=model=" + parameters, "--function=main", *inputs,
                f"--output=@{job}.out"]


class OneOperation(Peer):
    """A library of single operations. Its weights are raw files, written beside the others."""
    ATTRIBUTES = {"matmul": [], "softmax": [], "layer_norm": ["epsilon"],
                  "conv2d": ["stride", "padding", "groups", "kernel"]}
    OPERATIONS = {"openblas": ["matmul"], "onednn": ATTRIBUTES, "onednn-blocked": ["conv2d"]}

    def arguments(self, w, graph, folder):
        if len(graph.nodes) != 1:
            return None
        node = graph.nodes[0]
        if node.op not in self.OPERATIONS[self.kind]:
            return None
        files = []
        for v in graph.weights:
            files.append(os.path.join(folder, f"{w.name}.{v.name}.bin"))
            v.data.tofile(files[-1])
        if self.kind == "openblas":
            return files
        return [node.op] + [str(node.attrs[a]) for a in self.ATTRIBUTES[node.op]] + files


def debian_library(name):
    """Path and version of a shared library of the system."""
    soname = ctypes.util.find_library(name)
    if not soname:
        return None, None
    lines = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(rf"{re.escape(soname)} .*=> (\S+)", lines)
    path = os.path.realpath(found.group(1)) if found else soname
    version = re.search(r"so\.([\d.]+)$|-r([\d.]+)\.so$", path)
    return found.group(1) if found else soname, (version and (version.group(1) or version.group(2))) or "?"


WHEELS = {  # peer: class, module, its library, package
    "onnxruntime": (FromOnnx, "onnxruntime", "capi/libonnxruntime.so*", "onnxruntime"),
    "openvino": (FromOnnx, "openvino", "libs/libopenvino_c.so*", "openvino"),
    "tvm": (Tvm, "tvm_ffi", "lib/libtvm_ffi.so", "apache-tvm"),
    "iree": (Iree, "iree._runtime_libs", "_runtime*.so", "iree-base-runtime"),
}
DEBIAN = {  # peer: library, package
    "onednn": ("dnnl", "libdnnl-dev"),
    "onednn-blocked": ("dnnl", "libdnnl-dev"),
    "openblas": ("openblas", "libopenblas-dev"),
}


def find(bench, names):
    """The peers of these names that are here, and a line for each that is missing."""
    have, missing = [], []
    for name in names:
        if name in bench.isa.without:
            missing.append(f"{name}: can't be held to {bench.options.isa}")
        elif name in RELAXC:
            have.append(Relaxc(name, None, None, bench))
        elif name in WHEELS:
            kind, module, pattern, package = WHEELS[name]
            path = wheel_library(module, pattern)
            if path and all(map(importlib.util.find_spec, kind.needs)):
                have.append(kind(name, path, importlib.metadata.version(package), bench))
            else:
                modules = ", ".join(dict.fromkeys([module.split(".")[0], *kind.needs]))
                missing.append(f"{name}: not all of the modules {modules} are in this Python (PyPI)")
        elif name in DEBIAN:
            path, version = debian_library(DEBIAN[name][0])
            if path:
                have.append(OneOperation(name, path, version, bench))
            else:
                missing.append(f"{name}: package {DEBIAN[name][1]} is not installed")
        else:
            missing.append(f"{name}: no such peer")
    return have, missing


def write_job(path, w, graph, peers, libraries, folder, rows=None, threads=1, seconds=1.0):
    """The runner's job for a workload: its cases (or those of `rows`) in all peers that can run it."""
    def shape(value, dims):
        return "x".join(str(dims.get(d, d)) for d in value.shape) or "-"

    with open(path, "w") as f:
        print(f"threads {threads}\nseconds {seconds}", file=f)
        for p in peers:
            arguments = p.arguments(w, graph, folder)
            if arguments is not None:
                print("peer", p.name, p.kind, libraries.get(p.name, p.library), *arguments, file=f)
        for row, dims in w.cases.items():
            if rows and row not in rows:
                continue
            print("case", row, file=f)
            for v in graph.inputs:
                print("input", v.name, v.dtype, shape(v, dims), w.input_file(folder, row, v), file=f)
            for v in graph.outputs:
                print("output", v.name, v.dtype, shape(v, dims), file=f)
