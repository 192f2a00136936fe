"""No two arguments of one call emit instructions.

C leaves the order in which arguments are evaluated open: of

    LLVMBuildAdd(b, LLVMBuildLoad2(...), LLVMBuildMul(...), "")

one compiler makes the load first and another the multiplication, and relaxc's output would depend on
what built relaxc. What emits is found from the sources: LLVMBuild..., and every function of
codegen/llvm that calls something that emits.

    order.py [FOLDER]
"""
import pathlib
import re
import sys

TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*|\S",
                   re.S)
NOT_CALLS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "case"}
# Constants, whatever they are made by.
CONSTANT = {"mk", "mi"}


def tokens(text):
    line, at, out = 1, 0, []
    for m in TOKEN.finditer(text):
        line += text.count("\n", at, m.start())
        at = m.start()
        t = m.group()
        if not t.startswith(("/*", "//", '"', "'")):
            out.append((t, line))
        elif t[0] in "\"'":
            out.append(("0", line))
    return out


def functions(toks):
    """(name, first token of the body, end) of each function defined at file level."""
    depth, i, out = 0, 0, []
    while i < len(toks):
        t = toks[i][0]
        if t == "#":
            line = toks[i][1]
            while i < len(toks) and toks[i][1] == line:
                i += 1
            continue
        if t == "{" and depth == 0 and toks[i - 1][0] == ")":
            k, d = i - 1, 0
            while True:
                d += (toks[k][0] == ")") - (toks[k][0] == "(")
                if d == 0:
                    break
                k -= 1
            end, d = i, 0
            while True:
                d += (toks[end][0] == "{") - (toks[end][0] == "}")
                if d == 0:
                    break
                end += 1
            out.append((toks[k - 1][0], i, end))
            i = end
        else:
            depth += (t == "{") - (t == "}")
        i += 1
    return out


def calls(toks, begin, end):
    return {toks[i][0] for i in range(begin, end)
            if toks[i + 1][0] == "(" and re.match(r"[A-Za-z_]", toks[i][0])}


def check(name, toks, begin, end, emits):
    """Calls with two emitting arguments."""
    bad = []
    for i in range(begin, end):
        callee = toks[i][0]
        if toks[i + 1][0] != "(" or not re.match(r"[A-Za-z_]", callee) or callee in NOT_CALLS:
            continue
        depth, start, emitting = 0, i + 2, 0
        k = i + 1
        while True:
            t = toks[k][0]
            depth += (t in "([{") - (t in ")]}")
            if (depth == 1 and t == ",") or depth == 0:
                emitting += bool(calls(toks, start, k) & emits)
                start = k + 1
            if depth == 0:
                break
            k += 1
        if emitting > 1:
            bad.append((toks[i][1], callee))
    return bad


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "codegen/llvm")
    files = {f: tokens(f.read_text()) for f in sorted(root.glob("*.c"))}
    bodies = [(f, name, b, e) for f, toks in files.items() for name, b, e in functions(toks)]
    every = {t for toks in files.values() for t, _ in toks}
    emits = {t for t in every if t.startswith("LLVMBuild")}
    macros = {m.group(1): tokens(m.group(2)) + [("", 0)] for f in root.glob("*.[ch]")
              for m in re.finditer(r"#define (\w+)\([^)]*\)((?:[^\n]|\\\n)*)", f.read_text())}
    while True:
        more = {name for f, name, b, e in bodies if calls(files[f], b, e) & emits}
        more |= {name for name, body in macros.items() if calls(body, 0, len(body) - 1) & emits}
        more -= emits | CONSTANT
        if not more:
            break
        emits |= more
    bad = 0
    for f, name, b, e in bodies:
        for line, callee in check(name, files[f], b, e, emits):
            print(f"{f}:{line}: two arguments of {callee}() emit instructions; give them names")
            bad += 1
    return bad > 0


sys.exit(main())
