"""C functions of a library that --load names, by value and in DLPack form, called by the interpreter, by compiled code, and
by the interpreter from the text that is printed after CallTIRRewrite. Expected values: what the C functions say,
worked out with NumPy."""
import subprocess
import sys

import numpy as np

relaxc, script, library, tmp = sys.argv[1:]
x = np.array([1, -2, 3, 0, 5], dtype="float32")
a = np.array([1, 3, 5, 7], dtype="float32")
np.save(tmp + "/x.npy", x)
np.save(tmp + "/a.npy", a)
mixed = -1 + 255 * 2 - 300 * 3 + 65535 * 5 - 7 * 7 + 4000000000 * 11 - 5000000000 * 13 + 6 * 17 + 19
floats = 1 + 2 * 3 + 3 * 5 + 4 * 7 + 5 * 9 + 2 + 2 * 4 + 3 * 6 + 4 * 8 + 5 * 10
want = [np.array([mixed, floats, 2.5, -128, 65534, 1, 4, 1.5 * 15]), x * 3, np.array([0, 2, 4], dtype="int32"),
        x * 3 + 5, np.array([25], dtype="float32")]


def call(command, path, k, load=True):
    args = [relaxc, command, path, "--input", f"x={tmp}/x.npy", "--input", f"a={tmp}/a.npy", "--input", f"k={k}",
            "--output", tmp + "/out.npz"] + (["--load", library] if load else [])
    return subprocess.run(args, capture_output=True, text=True)


subprocess.run([relaxc, script, "--stop-after=CallTIRRewrite", "-o", tmp + "/dps.rx"], check=True)
r = subprocess.run([relaxc, "-fsyntax-only", tmp + "/dps.rx"], capture_output=True, text=True)
assert not r.stderr, r.stderr
for command, path in (("eval", script), ("run", script), ("eval", tmp + "/dps.rx")):
    r = call(command, path, 3)
    assert r.returncode == 0, r.stderr
    got = np.load(tmp + "/out.npz")
    for g, w in zip([got[k] for k in sorted(got.files)], want, strict=True):
        assert g.dtype == w.dtype and np.array_equal(g, w), (command, path, g, w)
    r = call(command, path, 13)
    assert r.returncode == 1 and "external function 'scale' failed with code 7" in r.stderr, r.stderr
for command in ("eval", "run"):
    r = call(command, script, 3, load=False)
    assert r.returncode == 1 and "mixed" in r.stderr and "--load" in r.stderr and "internal error" not in r.stderr, r.stderr
r = subprocess.run([relaxc, "eval", script, "--load", tmp + "/nowhere.so"], capture_output=True, text=True)
assert r.returncode == 1 and "library '" + tmp + "/nowhere.so' can't be loaded" in r.stderr, r.stderr
print("3 ways agree")
