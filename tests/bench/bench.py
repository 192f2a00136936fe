"""`make bench`: relaxc beside its peers on the table of workloads, and what compiling costs.

    bench.py --relaxc R --runner R --out DIR [--peers A,B] [--threads N] [--isa I] [--sections S,T] [PATTERN...]

PATTERN selects rows, workloads or groups (shell patterns). Results go to DIR/rows.tsv (with other
threads or instructions, to one named by them) and DIR/costs.tsv (sections that were not run keep
theirs), tables and plot of them to DIR/report.md and DIR/rows.svg. README.md says how to read them.
"""
import argparse
import os
import subprocess
import sys
import time

import costs
import peers as peer_table
import report
import symbolic
import workloads

PEERS = "relaxc,onnxruntime,openvino,onednn,onednn-blocked,openblas,iree,tvm"
SECTIONS = {"rows": "times of all rows, first calls, results compared",
            "symbolic": "objects for all sizes against those for one",
            "costs": "compile time, size, memory, process start"}


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Bench:
    """The folders and programs of one run."""

    def __init__(self, options):
        self.options = options
        self.relaxc, self.runner = os.path.abspath(options.relaxc), os.path.abspath(options.runner)
        self.out = os.path.abspath(options.out)
        self.models, self.cache = os.path.join(self.out, "models"), os.path.join(self.out, "cache")
        for folder in (self.models, self.cache):
            os.makedirs(folder, exist_ok=True)
        self.isa = peer_table.ISAS[options.isa]
        self.peers, self.missing = peer_table.find(self, options.peers.split(","))
        self.timed = options.under.split() + [self.runner]  # what times anything
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        self.environment["OMP_NUM_THREADS"] = self.environment["TVM_NUM_THREADS"] = str(options.threads)
        self.environment.update(self.isa.environment)

    def uses_onnx(self):
        return any(p.uses_onnx for p in self.peers)

    def time(self, job):
        """What the runner prints of a job. With IREE it runs inside a Python process (iree_host.py)."""
        command = self.timed
        if any(p.kind == "iree" for p in self.peers):
            host = os.path.join(os.path.dirname(os.path.abspath(__file__)), "iree_host.py")
            command = [*self.options.under.split(), sys.executable, host, self.runner + ".so"]
        return run([*command, "time", job], env=self.environment)

    def results(self):
        """Path of the rows."""
        words = [self.options.isa] if self.options.isa != "host" else []
        words += [str(self.options.threads)] if self.options.threads > 1 else []
        return os.path.join(self.out, "-".join(["rows", *words]) + ".tsv")

    def path(self, w, suffix):
        return os.path.join(self.models, w.name + suffix)

    def compile(self, w, variant):
        """Builds the shared library of a workload and returns its path."""
        target = self.path(w, f".{variant}.{self.options.isa}.so")
        if not os.path.exists(target) or os.path.getmtime(target) < os.path.getmtime(self.relaxc):
            run([self.relaxc, w.script(self.models), "--weights", w.weights(self.models), "--prefix=m",
                 "-shared", "-o", target, *self.isa.options, *peer_table.RELAXC[variant]])
        return target

    def measure(self, command):
        """Runs a command; gives what it printed and its milliseconds, those of CPU, its peak KiB."""
        *printed, last = run([*self.timed, "exec", *command], env=self.environment).splitlines()
        return printed, [float(x) for x in last.split("\t")]

    def run_timed(self, *command):
        return run([*self.timed, *command], env=self.environment)

    def job(self, w, graph, peers=None):
        """Compiles a workload and writes its job; returns the job's path."""
        libraries = {p.name: self.compile(w, p.name) for p in self.peers if p.kind == "relaxc"}
        path = self.path(w, ".job")
        peer_table.write_job(path, w, graph, peers or self.peers, libraries, self.models,
                             threads=self.options.threads, seconds=self.options.seconds)
        return path

    def time_workload(self, w, graph):
        """What the runner prints of a workload; without the peers that crash, where one does."""
        try:
            return self.time(self.job(w, graph))
        except subprocess.CalledProcessError:
            good, lines = [], []
            for p in self.peers:
                try:
                    self.time(self.job(w, graph, [p]))
                    good.append(p)
                except subprocess.CalledProcessError as e:
                    lines += [f"{row}\t{p.name}\t\t\t\t\tcrashed ({e.returncode})\n" for row in w.cases]
            if not lines or not good:
                raise
            return self.time(self.job(w, graph, good)) + "".join(lines)

    def clean(self, w):
        """Removes a workload's files, which are hundreds of MB for some."""
        if not self.options.keep:
            for name in os.listdir(self.models):
                if name.split(".")[0] in (w.name, *w.cases):
                    os.unlink(os.path.join(self.models, name))


def cpu_name():
    with open("/proc/cpuinfo") as f:
        info = dict(reversed([[x.strip() for x in line.split(":", 1)] for line in f if ":" in line]))
    if "model name" not in info:
        return "unknown"
    vectors = [name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in info["flags"].split()]
    return f"{info['model name']} (family {info['cpu family']}, model {info['model']}, {(vectors + ['SSE'])[0]})"


def versions(bench):
    revision = run([bench.relaxc, "--version"]).split("\n")[0]
    return ", ".join([revision] + [f"{p.name} {p.version}" for p in bench.peers if p.version])


def time_rows(bench, selected):
    """The section `rows`; yields lines of rows.tsv."""
    yield f"# cpu\t{cpu_name()}"
    yield f"# versions\t{versions(bench)}"
    yield f"# threads\t{bench.options.threads}"
    yield f"# isa\t{bench.options.isa}"
    for line in run([*bench.timed, "limits"]).splitlines():
        yield "# " + line
    yield "\t".join(report.COLUMNS)
    begin = time.time()
    for w in selected:
        try:
            graph = w.write(bench.models, bench.uses_onnx())
            output = bench.time_workload(w, graph)
        except (OSError, subprocess.SubprocessError) as e:  # the other rows go on
            reason = getattr(e, "stderr", None) or ""
            print(f"{w.name}: {str(e)[:200]} {reason.strip()[-300:]}", flush=True)
            continue
        for line in output.splitlines():
            row, *fields = line.split("\t")
            dims = w.cases[row]
            work = [graph.multiply_adds(dims), graph.bytes(dims)] if graph.nodes else ["", ""]
            yield "\t".join([row, w.group, *fields, *map(str, work)])
        bench.clean(w)
        print(f"[{time.time() - begin:4.0f} s] {w.name}: {report.brief(output)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relaxc", required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--peers", default=PEERS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", choices=peer_table.ISAS, default="host", help="instructions to keep to")
    parser.add_argument("--seconds", type=float, default=1.0, help="at most, for a peer and row")
    parser.add_argument("--under", default="", help='a command to run timed programs with, such as "chrt -f 10"')
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--keep", action="store_true", help="keep models and libraries")
    parser.add_argument("pattern", nargs="*")
    bench = Bench(parser.parse_args())
    for line in bench.missing:
        print("missing peer:", line)
    selected = workloads.select(bench.options.pattern)
    sections = bench.options.sections.split(",")
    if not selected and "symbolic" not in sections:
        sys.exit("no workload matches")
    if "rows" in sections and selected:
        report.save(bench.results(), time_rows(bench, selected))
    if "symbolic" in sections and bench.options.threads == 1:
        report.save(os.path.join(bench.out, "symbolic.tsv"), symbolic.measure(bench, bench.options.pattern))
    if "costs" in sections and selected:
        report.save(os.path.join(bench.out, "costs.tsv"), costs.measure(bench, bench.options.pattern))
    print(report.write(bench.out))
    wrong = report.disagreements(bench.out)
    if wrong:
        sys.exit("results differ from those of all other peers: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
