"""--help-op shows every attribute of defaults.tsv with the default that stands there.

    defaults.py RELAXC
"""
import collections
import os
import subprocess
import sys

want = collections.defaultdict(list)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "defaults.tsv"), encoding="utf-8") as f:
    for line in f:
        if not line.startswith("#"):
            op, name, default = line.rstrip("\n").split("\t")
            want[op].append((name, default))
wrong = []
for op, attributes in want.items():
    text = subprocess.run([sys.argv[1], f"--help-op={op}"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    for name, default in attributes:
        if not any(line.startswith(f"  {name} ") and f", default {default}; " in line for line in lines):
            wrong.append(f"R.{op}: expected {name}={default} in\n{text}")
print("\n".join(wrong))
print(f"{sum(map(len, want.values()))} defaults of {len(want)} operators")
sys.exit(1 if wrong else 0)
