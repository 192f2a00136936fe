"""The memory plan of a program, checked on its text.

    peak_memory.py RELAXC MODEL.rx [DIM=N,...]...

Compiles up to StaticPlanBlockMemory and reads the main function: which tensors are parts of which storage, and
from where to where each is used, itself or by a view. For each set of dims, tensors that are alive at the same time
must not overlap, and the storages that one run allocates (those of one branch of each `if`) may take at most 1.1 times
the most that is alive at once. A result that a call writes over an operand counts with it as one, if the callee says that
it may be (relaxc.in_place)."""
import os
import re
import subprocess
import sys
import tempfile

SIZES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2,
         "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1}


def number(text, dims):
    text = re.sub(r"T\.int64\((-?\d+)\)", r"\1", text).replace("T.max", "max").replace("T.min", "min")
    return eval(text, {"__builtins__": {}, "max": max, "min": min}, dims)


def items(text):
    """Splits at commas outside of parentheses."""
    out, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    return [x.strip() for x in out + [text[start:]] if x.strip()]


def inside(text, call):
    """What stands between the parentheses of `call(`."""
    at = text.index(call + "(") + len(call) + 1
    depth = 1
    for i in range(at, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return text[at:i]
    raise ValueError(text)


def main_body(text):
    lines = iter(text.split("\n"))
    for line in lines:
        if re.match(r"\s+def main\(", line):
            break
    for line in lines:
        if re.match(r"\s+(@|def )", line):
            return
        if line.strip():
            yield line


def read(text, dims):
    """Storages {name: (bytes, branch)} and tensors {name: [storage, offset, bytes, first, last]}. A branch is the
    list of the positions of the `if`s around it, each with "if" or "else"."""
    storages, tensors, owner, branch, used_before = {}, {}, {}, [], set()
    in_place = {}
    for m in re.finditer(r"def (\w+)\(.*\n\s+T\.func_attr\((.*)\)", text):
        pairs = re.search(r'"relaxc.in_place": \[(.*?)\]', m[2])
        flat = [int(x) for x in pairs[1].split(",")] if pairs else []
        in_place[m[1]] = set(zip(flat[::2], flat[1::2]))
    for at, line in enumerate(main_body(text)):
        depth, line = len(line) - len(line.lstrip()), line.strip()
        word = re.match(r"(if .*|else):$", line)
        while branch and (depth < branch[-1][0] or depth == branch[-1][0] and not line == "else:"):
            branch.pop()
        if word:
            start = branch.pop()[1] if line == "else:" else at
            branch.append((depth, start, "else" if line == "else:" else "if"))
            continue
        m = re.match(r"(\w+)(?:: .*?)? = (.*)$", line)
        name, value = (m[1], m[2]) if m else (None, line)
        if "R.memory.alloc_storage" in value:
            storages[name] = number(inside(value, "R.shape")[1:-1], dims), [b[1:] for b in branch]
            continue
        if "R.memory.alloc_tensor" in value:
            storage, offset, shape, dtype = items(inside(value, "R.memory.alloc_tensor"))
            bytes_ = SIZES[inside(dtype, "R.dtype").strip('"')]
            for dim in items(inside(shape, "R.shape")[1:-1]):
                bytes_ *= number(dim, dims)
            offset = inside(offset, "R.prim_value") if "R.prim_value" in offset else offset
            tensors[name] = [storage, number(offset, dims), bytes_, at, at]
            continue
        used = [owner.get(word, word) for word in re.findall(r"\b[A-Za-z_]\w*", value)]
        used = [word for word in used if word in tensors]
        call = re.match(r"cls\.(\w+)\((.*)\)$", value)
        if call and used:
            args = [owner.get(x, x) for x in items(call[2])]
            for x, y in in_place[call[1]]:
                a, b = (tensors.get(args[i]) for i in (x, y))
                if a and b and a[:3] == b[:3] and args[y] not in used_before and args.count(args[y]) == 1:
                    assert all(arg != args[x] or (i, y) in in_place[call[1]] for i, arg in enumerate(args)), line
                    b[3] = at + 0.5
        used_before.update(used)
        for word in used:
            tensors[word][4] = max(tensors[word][4], at)
        if used and name and name != "_":
            owner[name] = used[0]
    return storages, tensors


def allocated(storages):
    """The most that one run allocates of [(bytes, branch)]."""
    total, below = 0, {}
    for n, branch in storages:
        if branch:
            (at, side), *rest = branch
            below.setdefault(at, {"if": [], "else": []})[side].append((n, rest))
        else:
            total += n
    return total + sum(max(map(allocated, sides.values())) for sides in below.values())


def main():
    relaxc, model, *cases = sys.argv[1:]
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "planned.rx")
        weights = os.path.splitext(model)[0] + ".safetensors"
        flags = ["--weights=" + weights] if os.path.exists(weights) else []
        subprocess.run([relaxc, model, *flags, "-march=x86-64-v3", "--stop-after=StaticPlanBlockMemory", "-o", out],
                       check=True)
        text = open(out).read()
    for case in cases or [""]:
        dims = {k: int(v) for k, v in (x.split("=") for x in case.split(",") if x)}
        storages, tensors = read(text, dims)
        assert tensors, "no tensor found"
        live = list(tensors.values())
        for i, (s, o, n, first, last) in enumerate(live):
            assert 0 <= o and o + n <= storages[s][0] and o % 64 == 0, (s, o, n, storages[s][0])
            for s2, o2, n2, first2, last2 in live[:i]:
                if s == s2 and first <= last2 and first2 <= last and n and n2:
                    assert o + n <= o2 or o2 + n2 <= o, f"overlap: {s} {o}+{n} {o2}+{n2}"
        least = max(sum((t[2] + 63) // 64 * 64 for t in live if t[3] <= at <= t[4]) for at in {t[3] for t in live})
        planned = allocated(storages.values())
        print(f"{os.path.basename(model)} {case}: {len(live)} tensors in {planned} bytes, {least} alive at once")
        bad += planned > 1.1 * least
    sys.exit(bad > 0)


main()
