"""Numeric tests of the operators: the cases of cases_*.py against NumPy, with static and with symbolic
shapes, in all of harness.py's modes.

    run_ops.py RELAXC GROUP...       the groups named (all without names); -v shows every failure in full

Prints the counts per group; the exit code is 1 after a failure.
"""
import sys

import cases_data
import cases_edges
import cases_elementwise
import cases_nn
import cases_shape
from harness import MODES, Case, is_slow, report, run_cases


def main(argv):
    verbose = "-v" in argv
    argv = [a for a in argv if a != "-v"]
    relaxc, groups = argv[1], argv[2:]
    cases = []
    for source in (cases_elementwise, cases_shape, cases_nn, cases_data, cases_edges):
        cases += source.build(Case)
    known = sorted({c.group for c in cases})
    for g in groups:
        if g not in known:
            sys.exit(f"no group '{g}'; there are {', '.join(known)}")
    failed = 0
    for g in groups or known:
        ran, bad = run_cases(relaxc, [c for c in cases if c.group == g], list(MODES), is_slow(relaxc))
        report(g, ran, bad, verbose)
        failed += len(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
