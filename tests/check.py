"""Runs every test of a build and closes with "N passed, N failed".

Tests are lit files below tests/ and cmocka programs in BUILD/unit. Each lit file and each cmocka test
counts as one; a unit program that crashes counts as one failure more.
"""
import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sanitizer_options(build):
    """Leaks are looked for, except where the system keeps the sanitizer from looking."""
    probe = subprocess.run([os.path.join(build, "relaxc"), "--version"], capture_output=True,
                           env=dict(os.environ, ASAN_OPTIONS="detect_leaks=1"))
    fails = b"LeakSanitizer has encountered a fatal error" in probe.stderr
    return "detect_leaks=0" if fails else "detect_leaks=1"


def run_units(build, env):
    """Runs BUILD/unit/*; returns (passed, failed)."""
    folder = os.path.join(build, "unit")
    sources = os.path.join(ROOT, "tests", "unit")
    names = sorted(f[:-2] for f in os.listdir(sources) if f.startswith("test_") and f.endswith(".c"))
    passed = failed = 0
    for name in names:
        try:
            r = subprocess.run([os.path.join(folder, name)], capture_output=True, timeout=300, env=env,
                               cwd=ROOT)
            out = (r.stdout + r.stderr).decode("utf-8", "replace")
            code = r.returncode
        except (OSError, subprocess.TimeoutExpired) as e:
            out, code = str(e), -1
        ok = len(re.findall(r"^\[       OK \]", out, re.M))
        bad = len(set(re.findall(r"^\[  FAILED  \] (?!tests)(\S+)$", out, re.M)))
        if code != 0 and bad == 0:
            bad = 1
        passed, failed = passed + ok, failed + bad
        if bad:
            print(f"--- unit/{name} failed (exit code {code}):\n{out}")
    return passed, failed


def run_lit(build, paths, env, jobs):
    """Runs lit; returns (passed, failed)."""
    lit = os.path.join(env["LLVM_BIN"], "lit")
    if not os.path.exists(lit):
        lit = "lit"
    os.makedirs(os.path.join(build, "tests"), exist_ok=True)
    report = os.path.join(build, "tests", "lit.json")
    if os.path.exists(report):
        os.remove(report)
    r = subprocess.run([lit, "-q", "-v", "--no-progress-bar", f"-j{jobs}", "--timeout=600", "-o",
                        report] + paths, env=env, cwd=ROOT)
    if not os.path.exists(report):
        # No test below the path is lit's only quiet way out.
        return 0, 0 if r.returncode == 0 else 1
    with open(report) as f:
        codes = [t["code"] for t in json.load(f)["tests"]]
    good = sum(c in ("PASS", "XFAIL", "FLAKYPASS") for c in codes)
    bad = sum(c not in ("PASS", "XFAIL", "FLAKYPASS", "UNSUPPORTED") for c in codes)
    skipped = sum(c == "UNSUPPORTED" for c in codes)
    if skipped:
        print(f"{skipped} lit tests not for this machine")
    return good, bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--san", action="store_true")
    p.add_argument("-j", type=int, default=os.cpu_count() or 1)
    p.add_argument("paths", nargs="*")
    a = p.parse_args()
    build = os.path.join(ROOT, a.build)
    env = dict(os.environ, BUILD_DIR=build, SAN="1" if a.san else "0", LC_ALL="C.UTF-8",
               PYTHON=sys.executable)
    env.setdefault("LLVM_BIN", "/usr/lib/llvm-22/bin")
    if a.san:
        env.setdefault("ASAN_OPTIONS", sanitizer_options(build))
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    passed = failed = 0
    if not a.paths:
        passed, failed = run_units(build, env)
    sys.stdout.flush()
    good, bad = run_lit(build, a.paths or [os.path.join(ROOT, "tests")], env, a.j)
    passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
