"""Every constraint that an operator's help lists has an example that violates it, and nothing else.

    constraints.py RELAXC TABLE

A row of the table: operators, number, parameters, expression; {} in the last two is the operator's name. The
function of each row must give exactly one error, on its line, that ends with [operator.number].
"""
import collections
import re
import subprocess
import sys
import tempfile

HEAD = """@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm")], "mesh": [R.device_mesh((2,), I.Range(0, 2))]})

    @T.prim_func
    def prim(a: T.handle):
        T.evaluate(0)
"""


def listed(relaxc):
    """All [operator.number] of --help-op."""
    names = re.findall(r"^  (\S+)", subprocess.run([relaxc, "--list-ops"], capture_output=True, text=True, check=True).stdout, re.M)
    for name in names:
        text = subprocess.run([relaxc, f"--help-op={name}"], capture_output=True, text=True, check=True).stdout
        yield from re.findall(r"^  \[(\S+)\]", text, re.M)


def main():
    relaxc, table = sys.argv[1:3]
    cases = []
    for line in open(table, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        names, number, params, expr = line.rstrip("\n").split("\t")
        for name in names.split(","):
            cases.append((f"{name}.{number}", params.replace("{}", name), expr.replace("{}", name)))
    lines, at = HEAD.splitlines(), {}
    for i, (_, params, expr) in enumerate(cases):
        lines += ["    @R.function(private=True)", f"    def f{i}({params}):", f"        r = {expr}", "        return 0"]
        at[len(lines) - 1] = at[len(lines) - 2] = i
    with tempfile.NamedTemporaryFile("w", suffix=".rx", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
        f.flush()
        r = subprocess.run([relaxc, "-fsyntax-only", "-ferror-limit=0", f.name], capture_output=True, text=True)
        found = re.findall(re.escape(f.name) + r":(\d+):\d+: error: (.*)", r.stderr)
    assert r.returncode == 1, f"exit code {r.returncode}: {r.stderr[-1000:]}"
    got = collections.defaultdict(list)
    for line, message in found:
        got[at.get(int(line))].append(message)
    wrong = [f"message outside of the rows: {m}" for m in got[None]]
    for i, (want, params, expr) in enumerate(cases):
        if len(got[i]) != 1 or not got[i][0].endswith(f"[{want}]"):
            wrong.append(f"{expr} with {params}: expected one error [{want}] but got {got[i]}")
    shown, have = set(listed(relaxc)), {c[0] for c in cases}
    wrong += [f"no example violates [{c}]" for c in sorted(shown - have)]
    wrong += [f"--help-op does not list [{c}]" for c in sorted(have - shown)]
    print("\n".join(wrong))
    print(f"{len(cases)} violations, {len(shown)} constraints")
    return 1 if wrong else 0


sys.exit(main())
