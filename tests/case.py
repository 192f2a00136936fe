"""Numeric one-file tests: a `.rx` that states its inputs and outputs in NumPy.

    # RUN: %python %tests/case.py %relaxc %s
    # in x = np.arange(6, dtype="float32").reshape(2, 3)
    # out = x + 1
    # out = x.sum(axis=1)
    # tol 1e-6
    # next                     starts another call of the same module (other sizes)
    # fails "shape of 'x'"     this call is refused at run time with these words
    # flags --bind n=4         more flags for the compiler

Every call runs compiled (-O2 and -O0), in the reference interpreter, and compiled from the text that
--emit=tir prints; each result must have the dtype and shape of the expected one and be within tol
(0: the same bits up to NaN payloads, the sign of zero counts).
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np


def parse(path):
    calls, flags = [{"in": [], "out": [], "tol": 1e-6, "fails": None, "entry": "main"}], []
    for line in open(path):
        m = re.match(r"#\s*(in|out|tol|next|fails|flags|entry)\b\s*(.*)", line)
        if not m:
            continue
        key, rest = m.groups()
        if key in ("in", "out") and "=" not in rest:
            continue  # prose
        if key == "next":
            calls.append({"in": [], "out": [], "tol": calls[-1]["tol"], "fails": None,
                          "entry": calls[-1]["entry"]})
        elif key == "in":
            calls[-1]["in"].append(tuple(s.strip() for s in rest.split("=", 1)))
        elif key == "out":
            calls[-1]["out"].append(rest.split("=", 1)[1].strip())
        elif key == "tol":
            calls[-1]["tol"] = float(rest)
        elif key == "fails":
            calls[-1]["fails"] = shlex.split(rest)[0]
        elif key == "entry":
            calls[-1]["entry"] = rest.strip()
        else:
            flags = shlex.split(rest)
    return calls, flags


def same(got, want, tol, what):
    want = np.asarray(want)
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if tol == 0:
        ok = (got == want) | ((got != got) & (want != want))
        if np.issubdtype(got.dtype, np.floating):
            ok &= (np.signbit(got) == np.signbit(want)) | np.isnan(got)
        assert ok.all(), f"{what}: got {got!r}, expected {want!r}"
    else:
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol, err_msg=what)


def main():
    relaxc, path = sys.argv[1:3]
    calls, flags = parse(path)
    checks = 0
    with tempfile.TemporaryDirectory() as tmp:
        tir = os.path.join(tmp, "tir.rx")
        subprocess.run([relaxc, path, *flags, "--emit=tir", "-o", tir], check=True)
        modes = [("-O2", ["run", path, *flags]), ("-O0", ["run", path, "-O0", *flags]),
                 ("eval", ["eval", path, *flags]), ("tir text", ["run", tir])]
        for number, call in enumerate(calls):
            env = {"np": np}
            args = []
            for name, text in call["in"]:
                env[name] = eval(text, env)
                if isinstance(env[name], np.ndarray):
                    np.save(os.path.join(tmp, name + ".npy"), env[name])
                    args += ["--input", f"{name}={tmp}/{name}.npy"]
                else:
                    args += ["--input", f"{name}={env[name]}"]
            wants = [eval(text, env) for text in call["out"]]
            for mode, cmd in modes:
                what = f"call {number}, {mode}"
                out = os.path.join(tmp, "out.npz" if len(wants) > 1 else "out.npy")
                if os.path.exists(out):
                    os.remove(out)
                r = subprocess.run([relaxc, *cmd, "--entry", call["entry"], *args, "--output", out],
                                   capture_output=True, text=True)
                if call["fails"] is not None:
                    assert r.returncode == 1, f"{what}: exit code {r.returncode}, expected 1\n{r.stderr}"
                    assert call["fails"] in r.stderr, f"{what}: no '{call['fails']}' in: {r.stderr}"
                    assert not os.path.exists(out), f"{what}: an output file after a failed run"
                    checks += 1
                    continue
                assert r.returncode == 0, f"{what}: exit code {r.returncode}\n{r.stderr}"
                loaded = np.load(out)
                gots = [loaded[k] for k in loaded.files] if len(wants) > 1 else [loaded]
                assert len(gots) == len(wants), f"{what}: {len(gots)} results, expected {len(wants)}"
                for i, (got, want) in enumerate(zip(gots, wants)):
                    same(got, want, call["tol"], f"{what}, result {i}")
                    checks += 1
    assert checks > 0, "nothing was checked"
    print(f"{checks} checks passed")


main()
