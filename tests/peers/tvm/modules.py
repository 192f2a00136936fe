"""The modules in modules/: what they cover, and that their types are what inference gives. Needs no peer.

    modules.py RELAXC

1. Every operator of --list-ops has a call in a function with static and in one with symbolic shapes.
2. Every construct of the tensor level, which tir_constructs.txt lists, stands in some module.
3. The files of modules/ops are prints; without the annotations of their bindings they print as the same bytes
   again. Their types were compared with those that TVM 0.27 infers when they were written (make peers does it again);
   known.txt says where and why they differ.
4. All others read, and their print reads and prints as the same bytes.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def without_annotations(text):
    """Relax bindings without their types: `y: R.Tensor(...) = e` as `y = e`."""
    out, relax = [], False
    for line in text.split("\n"):
        if line.strip().startswith(("@R.function", "@T.prim_func")):
            relax = line.strip().startswith("@R.function")
        m = relax and re.match(r"(\s+\w+): .*? = ((?!=).*)", line)
        out.append(f"{m.group(1)} = {m.group(2)}" if m and "match_cast" not in line else line)
    return "\n".join(out)


def functions(text):
    """(text of the parameters, text of the body) of the Relax functions."""
    for m in re.finditer(r"@R\.function.*\n\s*def \w+\((.*)\)(?: -> .*)?:\n((?:.*\n)*?)(?=\s*@|\Z)", text):
        yield m.group(1), m.group(2)


def coverage(relaxc, texts):
    names = re.findall(r"^  (\S+)", subprocess.run([relaxc, "--list-ops"], capture_output=True, text=True, check=True).stdout, re.M)
    static, symbolic = set(), set()
    for text in texts:
        for params, body in functions(text):
            shapes = re.findall(r"Tensor\(\((.*?)\)", params)
            dims = ",".join(shapes)
            uses = {name for name in re.findall(r"R\.([\w.]+)\(", body)}
            if re.search(r"[a-z]", dims):
                symbolic |= uses
            elif re.search(r"\d", dims):
                static |= uses
    for name in names:
        if name.startswith("relaxc."):
            continue  # parts of others, which LegalizeOps makes
        for kind, have in (("static", static), ("symbolic", symbolic)):
            if name not in have:
                yield f"no module shows {name} with a {kind} shape"


def tensor_level(texts):
    """The constructs of tir_constructs.txt that no module has, and the excused ones that some module has."""
    code = "\n".join(re.sub(r"#.*", "", text) for text in texts)
    with open(os.path.join(HERE, "tir_constructs.txt"), encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    for line in lines:
        construct, _, excuse = line.partition(": ")
        # a name is not a part of a longer one, nor an operator of a longer operator
        around = r"[\w.]" if construct[0].isalpha() else r"[<>=!/*&|^%]"
        found = re.search(f"(?<!{around}){re.escape(construct)}(?!{around})", code)
        if not found and not excuse:
            yield f"no module shows {construct}"
        if found and excuse:
            yield f"tir_constructs.txt excuses {construct}, which a module shows"


def emit(relaxc, text):
    with tempfile.NamedTemporaryFile("w", suffix=".rx", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        r = subprocess.run([relaxc, "--emit=relax", "-o", "-", f.name], capture_output=True, text=True)
    return r.stdout if r.returncode == 0 else "refused: " + r.stderr[:500]


def first_difference(a, b):
    for x, y in zip(a.split("\n"), b.split("\n")):
        if x != y:
            return f"\n    {x.strip()}\n    {y.strip()}"
    return " in length"


def main():
    relaxc, texts, wrong = sys.argv[1], {}, []
    for folder, _, names in sorted(os.walk(os.path.join(HERE, "modules"))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            texts[path] = open(path, encoding="utf-8").read()
    wrong += coverage(relaxc, texts.values())
    wrong += tensor_level(texts.values())
    for path, text in texts.items():
        name = os.path.relpath(path, HERE)
        if os.path.basename(os.path.dirname(path)) == "ops":
            got = emit(relaxc, without_annotations(text))
            if got != text:
                wrong.append(f"{name}: inference gives another print" + first_difference(text, got))
            continue
        once = emit(relaxc, text)
        if once.startswith("refused"):
            wrong.append(f"{name}: {once}")
        elif emit(relaxc, once) != once:
            wrong.append(f"{name}: the print of the print differs")
    print("\n".join(wrong))
    print(f"{len(texts)} modules")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
