"""-ffast-math: functions of float32 at less cost, right to about 1e-6 of the result (powers: 1e-5); infinities and NaN as
usual. For this machine and for x86-64-v2 (no fused multiply-add).

    fast_math.py RELAXC

Expected: NumPy in float64.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

UNARY = {"sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
         "atanh": np.arctanh, "rsqrt": lambda x: 1 / np.sqrt(x), "log": np.log, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "exp": np.exp,
         "tanh": np.tanh, "atan": np.arctan}
# sines lose to their argument near their zeros, whatever is computed: their error is one of the value
ABSOLUTE = {"sin", "cos"}


def run(relaxc, march, body, inputs):
    with tempfile.TemporaryDirectory() as tmp:
        parameters = ", ".join(f'{name}: R.Tensor(({x.size},), "float32")' for name, x in inputs.items())
        script = os.path.join(tmp, "m.rx")
        with open(script, "w") as f:
            f.write(f"@I.ir_module\nclass M:\n    @R.function\n    def main({parameters}):\n        return {body}\n")
        command = [relaxc, "run", script, "-ffast-math", *march, "--output", f"{tmp}/out.npy"]
        for name, x in inputs.items():
            np.save(f"{tmp}/{name}.npy", x)
            command += ["--input", f"{name}={tmp}/{name}.npy"]
        subprocess.run(command, check=True)
        return np.load(f"{tmp}/out.npy")


def check(what, got, want, tol, absolute=False):
    with np.errstate(over="ignore", invalid="ignore"):
        want32 = want.astype("float32")
        size = 1 if absolute else np.maximum(np.abs(want), 1e-30)
        near = np.abs(got - want) / size <= tol
    bad = ~((got == want32) | (np.isnan(got) & np.isnan(want)) | near)
    assert not bad.any(), f"{what}: got {got[bad][:3]}, expected {want[bad][:3]}"


def main():
    relaxc = sys.argv[1]
    x = np.concatenate([np.linspace(-20, 20, 4001), np.linspace(-0.01, 0.01, 100)]).astype("float32")
    ends = np.float32([np.inf, -np.inf, np.nan, 0, -100, 100, 1, -1])
    checks = 0
    with np.errstate(all="ignore"):
        for march in [["-march=native"], ["-march=x86-64-v2"]] if os.uname().machine == "x86_64" else [[]]:
            for name, f in UNARY.items():
                v = np.abs(x) + 1 if name in ("acosh", "rsqrt", "log") else x / 21 if name == "atanh" else x
                check(f"{name} {march}", run(relaxc, march, f"R.{name}(x)", {"x": v}), f(v.astype("float64")), 2e-6, name in ABSOLUTE)
                checks += 1
            for name in ("sigmoid", "exp", "tanh", "log"):
                v = np.abs(ends) if name == "log" else ends
                check(f"{name} {march}", run(relaxc, march, f"R.{name}(x)", {"x": v}), UNARY[name](v.astype("float64")), 2e-6)
                checks += 1
            y = np.linspace(-9, 9, x.size).astype("float32")
            base = np.abs(x) + np.float32(1e-3)
            check(f"power {march}", run(relaxc, march, "R.power(x, y)", {"x": base, "y": y}), base.astype("float64") ** y, 2e-5)
            whole = np.round(y)
            check(f"power {march}", run(relaxc, march, "R.power(x, y)", {"x": x, "y": whole}), x.astype("float64") ** whole, 2e-5)
            checks += 2
    print(f"{checks} checks")


if __name__ == "__main__":
    main()
