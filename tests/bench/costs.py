"""What compiling and starting cost: compile time, memory and size of relaxc; time and memory from
process start to first result of every peer. Each figure is the minimum of a few runs.
"""
import os

import workloads

COMPILED = ("mlp3_b1", "mobilenetv2", "resnet50", "bert_base_s128", "minilm_dyn")
STARTED = ("mlp3_b1", "mobilenetv2", "resnet50", "bert_layer_s128")
RUNS = 4


def compile_costs(bench, w):
    """relaxc: the default (three instruction sets), for this machine, and with weights outside."""
    source, weights = w.script(bench.models), w.weights(bench.models)
    target = bench.path(w, ".o")
    forms = {"relaxc": [], "relaxc -march=native": ["-march=native"],
             "relaxc --weights-mode=external": ["--weights-mode=external"]}
    for form, options in forms.items():
        command = [bench.relaxc, source, "--weights", weights, "--prefix=m",
                   "-o", target, *options]
        runs = [bench.measure(command)[1] for _ in range(RUNS if os.path.getsize(weights) < 2e8 else 2)]
        yield form, "compile, ms", min(r[0] for r in runs)
        yield form, "compile, ms of CPU", min(r[1] for r in runs)
        yield form, "compile, peak MB", min(r[2] for r in runs) / 1024
        yield form, "object, MB", os.path.getsize(target) / 1e6
    yield "-", "weights, MB", os.path.getsize(weights) / 1e6


def start_costs(bench, w, graph):
    """From process start to the first result, above an empty process."""
    job = bench.job(w, graph)
    commands = {"-": [bench.runner, "cold", job, "-"]}
    commands.update({p.name: p.start(w, graph, job) for p in bench.peers
                     if p.arguments(w, graph, bench.models) is not None})
    runs = {}
    for _ in range(RUNS):
        for name, command in commands.items():
            printed, figures = bench.measure(command)
            # The runner says its own peak, which the measured one may exceed by the parent's.
            peak = float(printed[-1]) if command[0] == bench.runner else figures[2]
            runs.setdefault(name, []).append((figures[0], peak / 1024))
    empty_ms, empty_mb = (min(column) for column in zip(*runs.pop("-")))
    for name, pairs in runs.items():
        ms, mb = (min(column) for column in zip(*pairs))
        yield name, "start to first result, ms", ms - empty_ms
        yield name, "start to first result, peak MB", mb - empty_mb


def measure(bench, patterns):
    """The section `costs`; yields lines of costs.tsv."""
    chosen = {w.name for w in workloads.select(patterns)}
    yield "workload\tpeer\twhat\tvalue"
    for name in dict.fromkeys(COMPILED + STARTED):
        if name not in chosen:
            continue
        w = workloads.ALL[name]
        graph = w.write(bench.models, bench.uses_onnx())
        lines = list(compile_costs(bench, w)) if name in COMPILED else []
        lines += start_costs(bench, w, graph) if name in STARTED else []
        for peer, what, value in lines:
            yield f"{name}\t{peer}\t{what}\t{value:.4g}"
        bench.clean(w)
        print(f"costs of {name}", flush=True)
