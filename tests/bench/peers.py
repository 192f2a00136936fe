"""Which peers are on this machine, where their libraries are, and what the runner needs to load a
workload in each.

ONNX Runtime and OpenVINO are wheels beside the Python that runs this; their C libraries are used, not
their Python modules. oneDNN and OpenBLAS are Debian's and take part in rows of one operation only.
"""
import ctypes.util
import glob
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys

RELAXC = {"relaxc": [], "relaxc-native": ["-march=native"]}  # options besides the defaults


def wheel_library(module, pattern):
    spec = importlib.util.find_spec(module)
    found = glob.glob(os.path.join(os.path.dirname(spec.origin), pattern)) if spec else []
    return found[0] if found else None


class Peer:
    def __init__(self, name, kind, library, version):
        self.name, self.kind, self.library, self.version = name, kind, library, version

    def arguments(self, w, graph, folder):
        """What follows the library in the job; None when there is nothing to run."""
        model = w.onnx(folder)
        return [model] if model else None


class Relaxc(Peer):
    def arguments(self, w, graph, folder):
        return []


class Tvm(Peer):
    """Compiled with default settings, which take long on large networks and make slow kernels: not
    among the default peers."""

    def arguments(self, w, graph, folder):
        if not graph.nodes:
            return None
        out = os.path.join(folder, w.name + ".tvm.so")
        if not os.path.exists(out):
            script = os.path.join(folder, w.name + ".tvm.py")
            subprocess.run([self.relaxc, w.script(folder), "--emit=relax", "-o", script], check=True)
            build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tvm_build.py")
            subprocess.run([sys.executable, build, script, w.weights(folder), out], check=True)
        return [wheel_library("tvm", "lib/libtvm_runtime.so"), out]


class OneOperation(Peer):
    """A library of single operations. Its weights are raw files, written beside the others."""

    def arguments(self, w, graph, folder):
        if len(graph.nodes) != 1:
            return None
        node = graph.nodes[0]
        attrs = {"matmul": [], "softmax": [], "layer_norm": ["epsilon"],
                 "conv2d": ["stride", "padding", "groups", "kernel"]}
        if node.op not in (["matmul"] if self.kind == "openblas" else attrs):
            return None
        files = []
        for v in graph.weights:
            files.append(os.path.join(folder, f"{w.name}.{v.name}.bin"))
            v.data.tofile(files[-1])
        if self.kind == "openblas":
            return files
        return [node.op] + [str(node.attrs[a]) for a in attrs[node.op]] + files


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


def find(names, relaxc):
    """The peers of these names that are here, and a line for each that is missing."""
    have, missing = [], []
    for name in names:
        if name in RELAXC:
            have.append(Relaxc(name, "relaxc", None, ""))
        elif name in ("onnxruntime", "openvino"):
            pattern = {"onnxruntime": "capi/libonnxruntime.so.*", "openvino": "libs/libopenvino_c.so*"}[name]
            path = wheel_library(name, pattern)
            if path and importlib.util.find_spec("onnx"):
                have.append(Peer(name, name, path, importlib.metadata.version(name)))
            else:
                missing.append(f"{name}: no module {'onnx' if path else name} in this Python (PyPI)")
        elif name == "tvm":
            path = wheel_library("tvm_ffi", "lib/libtvm_ffi.so")
            if path:
                have.append(Tvm(name, name, path, importlib.metadata.version("apache-tvm")))
                have[-1].relaxc = relaxc
            else:
                missing.append("tvm: no module tvm_ffi in this Python (PyPI: apache-tvm)")
        elif name in ("onednn", "openblas"):
            path, version = debian_library({"onednn": "dnnl", "openblas": "openblas"}[name])
            if path:
                have.append(OneOperation(name, name, path, version))
            else:
                package = {"onednn": "libdnnl-dev", "openblas": "libopenblas-dev"}[name]
                missing.append(f"{name}: package {package} is not installed")
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
