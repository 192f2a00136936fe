"""Instruction counts as a guard against regressions: callgrind counts what kernels and the compiler
execute, which no other load on the machine changes, and compares with counts.tsv.

    counts.py --relaxc R --runner R --out DIR [--llvm-config L] [--bless]

Kernels are built for a fixed -march (valgrind knows no AVX-512) and counted in their own library
only; the compiler in its own functions, not in libc, which differs between machines. What LLVM
executes on our code is a row of its own, which stands for one version of LLVM. The runner must be one
that is not built for this processor. A count that rose by more than the tolerance fails; where that is
meant, `make counts-bless` stores the new ones, and the commit says why.
"""
import argparse
import os
import re
import subprocess
import sys

import peers
import workloads

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, "counts.tsv")
TOLERANCE = {"kernel": 0.02, "compiler": 0.05, "llvm": 0.05}
KERNELS = ("mlp3_b1", "gemm_64", "gemm_128", "dyn_gemm", "chain_gelu_1x128x3072", "softmax_1x32000",
           "layernorm_128x768", "transpose_512x768", "conv_64x56_64_k1s1", "dw_144x56_k3s1", "attn_12x128x64")
LEVELS = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2"}  # and what the processor must know
CASES = {"dyn_gemm": "dyn_gemm_m7"}  # of several


def long_script(path, bindings=1500):
    """Parser, types and printer at work, and little else."""
    lines = ["from tvm.script import relax as R", "", "@R.function",
             'def main(x: R.Tensor(("n", 64), "float32"), y: R.Tensor((64,), "float32")):',
             "    with R.dataflow():", "        v0 = R.add(x, y)"]
    ops = ("R.multiply(v{0}, y)", "R.nn.relu(v{0})", "R.reshape(v{0}, (-1, 64))", "R.add(v{0}, x)",
           'R.maximum(v{0}, R.const(0.5, "float32"))')
    lines += [f"        v{i + 1} = {ops[i % len(ops)].format(i)}" for i in range(bindings)]
    lines += [f"        R.output(v{bindings})", f"    return v{bindings}", ""]
    with open(path, "w") as f:
        f.write("\n".join(lines))
    return path


def compilations(out):
    """name -> arguments of relaxc."""
    root = os.path.join(HERE, "..", "..")
    layer = workloads.ALL["bert_layer_s128"]
    layer.write(out, False)
    return {
        "long script, parsed and printed": [long_script(os.path.join(out, "long.rx")), "--emit=relax"],
        "voice activity, to loops": [os.path.join(root, "tests/models/voice_activity.rx"), "--emit=loops"],
        "layer of BERT, to loops": [layer.script(out), "--emit=loops"],
        "MLP, to an object": [os.path.join(root, "samples/mlp/mlp.rx")],
    }


def callgrind(command, profile, part):
    """Sums instructions by part(object, function); None: not counted. Callees count for themselves."""
    options = ["--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={profile}"]
    done = subprocess.run(["valgrind", "--tool=callgrind", "--quiet", *options, *command],
                          capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    sums, place, skip, key = {}, {"ob": "", "fn": ""}, False, None
    for line in open(profile, errors="replace"):
        if line[0].isdigit():
            if not skip and key is not None:
                sums[key] = sums.get(key, 0) + int(line.split()[1])
            skip = False
        elif line[2:3] == "=":
            place[line[:2]] = line[3:].rstrip("\n")
            key = part(place["ob"], place["fn"])
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee took
    return sums


def kernel_counts(relaxc, runner, out):
    jobs, names = [], {}
    ours = [peers.Relaxc("relaxc", None, None, None)]
    with open("/proc/cpuinfo") as f:
        known = f.read().split()
    for level in (level for level, feature in LEVELS.items() if feature in known):
        for name in KERNELS:
            w = workloads.ALL[name]
            graph = w.write(out, False)
            row = CASES.get(name, name)
            target = os.path.join(out, f"{row}.{level}.so")
            subprocess.run([relaxc, w.script(out), "--weights", w.weights(out), "--prefix=m",
                            "-shared", "-fno-threads", "-march=" + level, "-o", target], check=True)
            names[os.path.realpath(target)] = f"{row}, {level}"
            jobs.append(os.path.join(out, f"{row}.{level}.job"))
            peers.write_job(jobs[-1], w, graph, ours, {"relaxc": target}, out, [row])
    sums = callgrind([runner, "once", *jobs], os.path.join(out, "kernels.callgrind"),
                     lambda library, function: names.get(library))
    return {("kernel", name): sums[name] for name in names.values()}


def compiler_counts(relaxc, llvm_config, out):
    """Debug information goes first: valgrind's reader gives up on that of a linked LLVM."""
    plain = os.path.join(out, "relaxc")
    subprocess.run(["objcopy", "--strip-debug", relaxc, plain], check=True)
    archive = os.path.join(os.path.dirname(relaxc), "librelaxc.a")
    symbols = subprocess.run(["nm", "--defined-only", archive], check=True, capture_output=True, text=True).stdout
    own = set(re.findall(r" [tT] (\S+)", symbols)) | {"main"}
    llvm = subprocess.run([llvm_config, "--version"], check=True, capture_output=True, text=True).stdout
    llvm = "LLVM " + llvm.strip()

    def part(library, function):
        if library != plain:
            return None  # libc
        return "own" if re.sub(r"'\d+$|\.(part|isra|constprop|cold).*$", "", function) in own else llvm

    counts = {}
    for name, arguments in compilations(out).items():
        sums = callgrind([plain, *arguments, "-j1", "-march=x86-64-v3", "-o", os.path.join(out, "result")],
                         os.path.join(out, "compiler.callgrind"), part)
        counts["compiler", name] = sums["own"]
        if name.endswith("object"):
            counts["llvm", f"{name}, {llvm}"] = sums[llvm]
    return counts


def read_stored():
    if not os.path.exists(STORED):
        return {}
    rows = [line.rstrip("\n").split("\t") for line in open(STORED) if not line.startswith("#")]
    return {(kind, name): int(n) for kind, name, n in rows}


def compare(counts, stored):
    """Prints what differs; returns the number of checks that hold and of those that don't."""
    failed = 0
    for (kind, name), n in counts.items():
        before = stored.get((kind, name))
        change = n / before - 1 if before else 0
        what = f"{kind} {name}: {n:,} instructions"
        if not before and kind == "llvm":
            print(f"{what}, not stored for this version")
        elif not before or change > TOLERANCE[kind]:
            failed += 1
            print(f"{what}, {f'{change:+.1%} on {before:,}' if before else 'not stored'}")
        elif change < -TOLERANCE[kind]:
            print(f"{what}, {change:+.1%}: fewer, worth blessing")
    return len(counts) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relaxc", required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--llvm-config", default="llvm-config-22")
    parser.add_argument("--bless", action="store_true", help="store what is counted now")
    options = parser.parse_args()
    relaxc, out = os.path.abspath(options.relaxc), os.path.abspath(options.out)
    os.makedirs(out, exist_ok=True)
    counts = kernel_counts(relaxc, os.path.abspath(options.runner), out)
    counts.update(compiler_counts(relaxc, options.llvm_config, out))
    if options.bless:
        with open(STORED, "w") as f:
            print("# instructions, by callgrind; see counts.py", file=f)
            for (kind, name), n in counts.items():
                print(kind, name, n, sep="\t", file=f)
    passed, failed = compare(counts, read_stored())
    if failed:
        print("Instruction counts rose. If that is meant, `make counts-bless` stores the new ones.")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
