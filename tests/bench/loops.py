"""Estimates of AArch64 code, for want of a machine: what llvm-mca makes of each workload's hottest loop.

    loops.py --relaxc R --llvm BINDIR --out DIR [--cpus A,B] [PATTERN...]

Prints, per workload, the innermost loop with the most multiply-adds: its instructions, accesses to the
stack, and per processor the cycles of an iteration (all data in the first level of cache) and the share
of the multiply-adds that the processor could do in that time.
"""
import argparse
import os
import re
import subprocess

import workloads

PIPES = {"neoverse-n1": 2, "neoverse-n2": 2, "neoverse-v1": 4}  # vector multiply-adds per cycle


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def functions(listing):
    """Per function, its instructions as (address, name, operands)."""
    found = []
    for line in listing.splitlines():
        if re.match(r"[0-9a-f]+ <", line):
            found.append([])
        elif m := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            found[-1].append((int(m[1], 16), m[2], m[3]))
    return found


def innermost_loops(code):
    """Bodies of the loops in which no other begins, without the branch back."""
    place = {address: i for i, (address, *_) in enumerate(code)}
    loops = []
    for i, (_, name, operands) in enumerate(code):
        target = re.search(r"0x([0-9a-f]+) <", operands)
        if re.match(r"b$|b\.|cbn?z|tbn?z", name) and target and place.get(int(target[1], 16), i + 1) <= i:
            loops.append((place[int(target[1], 16)], i))
    for begin, end in loops:
        if not any(begin < b <= end or (b == begin and e < end) for b, e in loops):
            yield code[begin:end]


def cycles(mca, cpu, body):
    text = "\n".join(f"{name} {operands}" for _, name, operands in body if "<" not in operands)
    printed = run(mca, "-mtriple=aarch64", "-mcpu=" + cpu, "-iterations=100", input=text)
    return int(re.search(r"Total Cycles:\s+(\d+)", printed)[1]) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relaxc", required=True)
    parser.add_argument("--llvm", required=True, help="folder of llvm-objdump and llvm-mca")
    parser.add_argument("--out", required=True)
    parser.add_argument("--cpus", default=",".join(PIPES))
    parser.add_argument("pattern", nargs="*")
    options = parser.parse_args()
    cpus, out = options.cpus.split(","), options.out
    os.makedirs(out, exist_ok=True)
    print("| row | instructions | multiply-adds | on the stack | " + " | ".join(cpus) + " |")
    print("| --- |" + " ---: |" * (3 + len(cpus)))
    for w in workloads.select(options.pattern):
        w.write(out, False)
        target = os.path.join(out, w.name + ".aarch64.o")
        run(options.relaxc, w.script(out), "--weights", w.weights(out), "--prefix=m", "--target=aarch64-linux-gnu",
            "-o", target)
        listing = run(os.path.join(options.llvm, "llvm-objdump"), "-d", "--no-show-raw-insn", target)
        count = lambda body: sum(name == "fmla" for _, name, _ in body)
        body = max((b for code in functions(listing) for b in innermost_loops(code)), key=count)
        stack = sum("[sp" in operands for *_, operands in body)
        cells = []
        for cpu in cpus:
            time = cycles(os.path.join(options.llvm, "llvm-mca"), cpu, body)
            cells.append(f"{time:.0f} cycles, {100 * count(body) / PIPES[cpu] / time:.0f} %")
        print(f"| {w.name} | {len(body)} | {count(body)} | {stack} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
