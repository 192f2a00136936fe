#!/usr/bin/env python3
"""Runs the specimens of tests/ops through TVM (relax.build for llvm) and compares with the values they must
have, which relaxc gives: where the peer differs, its definition or its arithmetic is another one.

  values.py [--relaxc PATH] [--dtypes float32,int32,...] [--groups unary,...] [-v]

The text that TVM reads is relaxc's print. Each module runs in a process of its own, since some of them end it.
Prints per group how many agree, differ, and are refused by the peer; then every operator that differs, with
its first case. values.md says who is right.
"""
import argparse
import collections
import os
import pickle
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "ops"))
import harness
from dtypes import NARROW, encode
from run_dtypes import GROUPS, specimens


def peer_array(t):
    """A value as the peer's NumPy bridge takes it; narrow dtypes by ml_dtypes."""
    if t.dtype not in NARROW:
        return np.array(t.values, order="C")
    import ml_dtypes
    return encode(t.values, t.dtype).view(getattr(ml_dtypes, t.dtype))


def own_array(a, dtype):
    if dtype not in NARROW:
        return a
    return a.view(np.uint16).view("V2") if NARROW[dtype] == 16 else a.view(np.uint8)


def leaves(x):
    if isinstance(x, (int, float, bool)):
        return [np.asarray(x)]
    if hasattr(x, "numpy"):
        return [x.numpy()]
    return [y for f in x for y in leaves(f)]


def run_peer(text, cases):
    """[(case number, None or words)]"""
    import tvm
    from tvm import relax
    module = tvm.script.from_source(text)
    vm = relax.VirtualMachine(relax.build(module, target="llvm"), tvm.cpu())
    inputs = [tvm.runtime.tensor(peer_array(v)) for c in cases for v in c.inputs.values()]
    outs, k, result = leaves(vm["main"](*inputs)), 0, []
    for i, c in enumerate(cases):
        words = None
        for w in c.want:
            words = words or harness.difference(own_array(outs[k], w.dtype), w, c)
            k += 1
        result.append((i, words))
    return result


def in_child(fn, *args):
    """What fn returns, computed in a forked process; a message when that ends."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        for fd in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        try:
            answer = fn(*args)
        except BaseException as e:  # the peer's errors have no common class
            answer = f"{type(e).__name__}: {str(e).strip().splitlines()[-1] if str(e).strip() else ''}"
        with os.fdopen(w, "wb") as f:
            pickle.dump(answer, f)
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        data = f.read()
    os.waitpid(pid, 0)
    return pickle.loads(data) if data else "the process ended"


def compare(relaxc, cases):
    """[(case, None, words) or (case, refusal, None)]"""
    text, _ = harness.module_text(cases, False)
    p = subprocess.run([relaxc, "--emit=relax", "-o", "-", "-"], input=text, capture_output=True, text=True)
    answer = in_child(run_peer, p.stdout, cases) if p.returncode == 0 else "relaxc: " + p.stderr
    if not isinstance(answer, str):
        return [(cases[i], None, words) for i, words in answer]
    if len(cases) == 1:
        return [(cases[0], answer, None)]
    half = len(cases) // 2
    return compare(relaxc, cases[:half]) + compare(relaxc, cases[half:])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--relaxc", default="build/relaxc")
    a.add_argument("--dtypes", default="float32,float16,int32,int8,bool")
    a.add_argument("--groups", default=",".join(GROUPS))
    a.add_argument("-v", action="store_true")
    a = a.parse_args()
    import tvm  # once, before the forks
    from tvm import relax
    for group in a.groups.split(","):
        count, differ, refused = collections.Counter(), {}, {}
        by = {}
        for op, dtype, case in specimens([group], a.dtypes.split(",")):
            by.setdefault((op, dtype), []).append(case)
        for (op, dtype), cases in by.items():
            for case, refusal, words in compare(a.relaxc, cases[:6]):
                count["refused" if refusal else "differ" if words else "agree"] += 1
                if refusal:
                    refused.setdefault(op, {}).setdefault(dtype, refusal)
                elif words:
                    differ.setdefault(op, {}).setdefault(dtype, f"{case.describe()}: {words}")
        print(f"{group}: {count['agree']} agree, {count['differ']} differ, {count['refused']} refused", flush=True)
        for title, table in (("differs", differ), ("refuses", refused)):
            for op, found in table.items():
                first = next(iter(found.values()))
                print(f"  {title} {op} ({', '.join(found)}): {first[:300]}", flush=True)


if __name__ == "__main__":
    main()
