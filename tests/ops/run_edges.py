"""What the tables of tests/ops try of each operator beside its dtypes, counted by group: no elements, symbolic dims, rank 0, rank 8 and
more, a negative axis, NaN and infinities.

    run_edges.py RELAXC      fails when an operator lacks one that it can have, and isn't listed here with the reason
"""
import re
import subprocess
import sys

import numpy as np

import cases_data
import cases_edges
import cases_elementwise
import cases_nn
import cases_shape
from harness import Case
from run_dtypes import ELSEWHERE, GROUPS, claims, specimens

NO_OPERAND = {"arange", "eye", "full", "ones", "zeros", "hamming_window"}
INNER = "an inner operator of a composite, tested through it"
FIELD = "a field of a tensor's header"
# Why an operator is not tried with no elements.
NEVER_EMPTY = {
    **{op: "no operand: tried with a shape that holds 0, or refuses it" for op in NO_OPERAND},
    **{op: INNER for op in ("relaxc.head", "relaxc.nonzero_coordinates", "relaxc.nonzero_positions", "relaxc.slice",
                            "relaxc.slice_lengths", "relaxc.unique_groups")},
    **{"inspect." + f: FIELD for f in ("tensor_byte_offset", "tensor_dtype_bits", "tensor_dtype_code", "tensor_dtype_lanes",
                                       "tensor_elem_offset", "tensor_ndim", "tensor_shape_i", "tensor_stride_i")},
    "shape_of": "gives a shape", "tensor_to_shape": "takes a shape", "dynamic_strided_slice": "tried with a result of no elements",
    "broadcast_to": "tried with a result of no elements",
    "grad.avg_pool2d_backward": "the pool's own test", "grad.max_pool2d_backward": "the pool's own test",
    "grad.nll_loss_backward": "its loss has it", "nn.attention_var_len": "lengths of 0 in its cases",
    "vision.non_max_suppression": "its boxes come from get_valid_counts, which has it",
}
# Operators whose attribute `axis` or `axes` has no negative form here.
NO_NEGATIVE = {"relaxc.unique_groups": INNER, "grad.take_backward": "its forward operator has it", "quantize": "axis of a scalar scale",
               "expand_dims": "a list", "permute_dims": "a list", "squeeze": "a list", "nn.batch_norm": "a mean per channel"}


def kinds(case):
    out = set()
    for v in case.inputs.values():
        a = v.values
        out |= {"no elements"} if a.size == 0 else set()
        out |= {"rank 0"} if a.ndim == 0 else set()
        out |= {"rank 8+"} if a.ndim >= 8 else set()
        if a.dtype.kind == "f" and a.size and not np.isfinite(a.astype(np.float64)).all():
            out.add("NaN or infinite")
    if re.search(r"ax[ei]s=\[?-\d", case.expr):
        out.add("negative axis")
    if not case.static_only and any(name for names in case.sym.values() for name in names):
        out.add("symbolic")
    return out


def main(relaxc):
    table = {op: group for group, ops in claims(relaxc).items() for op, dtypes in ops.items() if dtypes and op not in ELSEWHERE}
    tried = {op: set() for op in table}
    for op, _, case in specimens(GROUPS):
        if op in tried:
            tried[op] |= kinds(case)
    for source in (cases_elementwise, cases_shape, cases_nn, cases_data, cases_edges):
        for case in source.build(Case):
            for op in re.findall(r"R\.([\w.]+)\(", case.expr):
                if op in tried:
                    tried[op] |= kinds(case)
    bad = []
    for op, have in tried.items():
        text = subprocess.run([relaxc, "--help-op=" + op], capture_output=True, text=True, check=True).stdout
        if "no elements" not in have and op not in NEVER_EMPTY:
            bad.append(f"{op}: never without elements")
        if "symbolic" not in have and op not in NO_OPERAND | {"tensor_to_shape"}:
            bad.append(f"{op}: never symbolic")
        if re.search(r"^\s+ax[ei]s\b", text, re.M) and "negative axis" not in have and op not in NO_NEGATIVE:
            bad.append(f"{op}: no negative axis")
    for op in [*NEVER_EMPTY, *NO_NEGATIVE]:
        if op not in table:
            bad.append(f"{op}: excused, but not in the table")
    for group in dict.fromkeys(table.values()):
        ops = [op for op in table if table[op] == group]
        counts = {k: sum(k in tried[op] for op in ops)
                  for k in ("symbolic", "no elements", "rank 0", "rank 8+", "negative axis", "NaN or infinite")}
        print(f"{group}: {len(ops)} operators; " + ", ".join(f"{k} {n}" for k, n in counts.items()))
    print(*bad, sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
