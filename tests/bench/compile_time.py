"""CPU time of a compile (user + system, minimum of five), start-up included: RELAXC INPUT OUT."""
import os
import resource
import subprocess
import sys


def cpu(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    relaxc, source, out = sys.argv[1:]
    name = os.path.basename(source)
    for what, options in (("-march=native", ["-march=native"]), ("all variants", [])):
        best = min(cpu([relaxc, source, "-o", out] + options) for _ in range(5))
        print(f"compile {name}, {what}: {best * 1000:.0f} ms of CPU")


if __name__ == "__main__":
    main()
