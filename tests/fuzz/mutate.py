# Mutation fuzzing of the script reader: changed copies of sample scripts must give exit code 0 or 1
# with a message, never a crash or a hang.
#
#   mutate.py RELAXC [--seed N] [--count N] [--keep DIR] [--args="-O1 -o out.o"] FILE...
#
# Deterministic for a seed. Mutations: flip, insert, delete and repeat bytes, swap lines, change
# indentation, splice pieces of other files, replace tokens by ones that hurt. With --words only whole
# words change, into others of the file of the same kind (numbers, names, strings, operators), so that more
# of the copies are read and reach the passes. With --structure whole arguments, bracketed groups, lines and
# indented blocks are swapped, dropped, doubled and wrapped, so that the text keeps its form.
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

TOKENS = [b"(", b")", b"[", b"]", b"{", b"}", b":", b",", b"=", b"\n", b"    ", b"\t", b'"', b'"""', b"'",
          b"\\", b"#", b"\0", b"\xff", b"-1", b"0", b"9223372036854775807", b"99999999999999999999",
          b"1e999", b"0x", b"n", b"None", b"True", b"lambda x: x", b"if", b"else", b"for", b"in", b"with",
          b"def", b"class", b"return", b"R.", b"T.", b"cls.", b"R.tuple()", b"()", b"(0,)", b"[]", b"{}",
          b"R.add", b"R.Tensor", b"T.Buffer", b"T.int64(0)", b"T.float32(\"inf\")", b"T.match_buffer",
          b"T.sblock", b"@", b"->", b"**", b"//", b"%", b"<<", b"not", b"*", b"...", b"TypeVar"]


def mutate(rng, data, others):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        n = len(data)
        if not n:
            data += rng.choice(TOKENS)
            continue
        at = rng.randrange(n)
        what = rng.randrange(10)
        if what == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            data[at:at] = rng.choice(TOKENS)
        elif what == 2:
            del data[at:at + rng.choice([1, 2, 5, 20])]
        elif what == 3:
            data[at:at] = data[at:at + rng.randrange(1, 40)] * rng.choice([1, 2, 50])
        elif what == 4:
            lines = data.split(b"\n")
            i, k = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[k] = lines[k], lines[i]
            data = bytearray(b"\n".join(lines))
        elif what == 5:
            lines = data.split(b"\n")
            i = rng.randrange(len(lines))
            lines[i] = rng.choice([b" ", b"   ", b"\t", b"        "]) + lines[i].lstrip(b" ") if rng.random() < 0.5 else lines[i][1:]
            data = bytearray(b"\n".join(lines))
        elif what == 6:
            other = rng.choice(others)
            start = rng.randrange(len(other) or 1)
            data[at:at] = other[start:start + rng.randrange(1, 200)]
        elif what == 7:
            # replace a word by a token or another word of the file
            words = bytes(data).split()
            if words:
                old = rng.choice(words)
                new = rng.choice([rng.choice(words), rng.choice(TOKENS)])
                i = bytes(data).find(old, at)
                if i >= 0:
                    data[i:i + len(old)] = new
        elif what == 8:
            del data[at:]
        else:
            # a number becomes another one
            digits = [i for i, c in enumerate(data) if 48 <= c <= 57]
            if digits:
                i = rng.choice(digits)
                data[i:i + 1] = rng.choice([b"0", b"-1", b"1", b"65536", b"4294967296", b"n"])
    return bytes(data[:200000])


WORD = re.compile(rb'"[^"\n]*"|[A-Za-z_][A-Za-z_0-9.]*|[0-9]+|//|[-+*/%<>]')


def kind(word):
    return "s" if word[:1] == b'"' else "n" if word.isdigit() else "w" if word[:1].isalpha() or word[:1] == b"_" else "o"


def mutate_words(rng, data):
    for _ in range(rng.choice([1, 1, 2, 3])):
        words = [m for m in WORD.finditer(data)]
        if not words:
            break
        m = rng.choice(words)
        same = [w.group() for w in words if kind(w.group()) == kind(m.group())]
        new = rng.choice(same)
        if kind(new) == "n" and rng.random() < 0.3:
            new = rng.choice([b"0", b"1", b"2", b"17", b"1000000", b"4294967296"])
        data = data[:m.start()] + new + data[m.end():]
    return data


def groups(data):
    """Spans of what stands in a pair of brackets, and of the items between the commas there."""
    stack, out = [], []
    for i, c in enumerate(data):
        if c in b"([{":
            stack.append([i + 1, i + 1])
        elif c == 44 and stack:  # a comma
            out.append((stack[-1][1], i))
            stack[-1][1] = i + 1
        elif c in b")]}" and stack:
            start, item = stack.pop()
            out += [(start, i), (item, i)]
    return [(a, b) for a, b in out if b > a]


def blocks(lines):
    """Runs of lines: each line with the deeper ones below it."""
    depth = [len(l) - len(l.lstrip(b" ")) if l.strip() else None for l in lines]
    out = []
    for i, d in enumerate(depth):
        if d is None:
            continue
        k = i + 1
        while k < len(lines) and (depth[k] is None or depth[k] > d):
            k += 1
        out.append((i, k, d))
    return out


WRAPS = [(b"(", b")"), (b"(", b",)"), (b"[", b"]"), (b"R.exp(", b")"), (b"-", b""), (b"R.Tuple(", b")"), (b"T.int64(", b")"),
         (b"R.shape([", b"])"), (b"R.match_cast(", b', R.Tensor((4,), "float32"))'), (b"(", b")[0]"), (b"T.Cast(\"int32\", ", b")")]


def mutate_structure(rng, data, others):
    for _ in range(rng.choice([1, 1, 2, 3])):
        what = rng.randrange(7)
        if what < 4:
            spans = groups(data)
            if not spans:
                continue
            a, b = rng.choice(spans)
            if what == 0:  # an item in place of another one, perhaps of another file
                source = rng.choice([data, data, rng.choice(others)])
                from_spans = groups(source) or [(0, 0)]
                c, d = rng.choice(from_spans)
                data = data[:a] + source[c:d] + data[b:]
            elif what == 1:  # dropped, with its comma
                data = data[:a] + data[b + (data[b:b + 1] == b","):]
            elif what == 2:  # doubled
                data = data[:b] + b", " + data[a:b] + data[b:]
            else:
                left, right = rng.choice(WRAPS)
                data = data[:a] + left + data[a:b] + right + data[b:]
            continue
        lines = data.split(b"\n")
        runs = blocks(lines)
        if not runs:
            continue
        i, k, d = rng.choice(runs)
        if what == 4:  # dropped
            lines = lines[:i] + lines[k:]
        else:  # copied or moved to another place, at the depth there
            j, _, e = rng.choice(runs)
            block = [b" " * max(0, len(l) - len(l.lstrip(b" ")) + e - d) + l.lstrip(b" ") for l in lines[i:k]]
            if what == 5:
                lines = lines[:j] + block + lines[j:]
            elif j <= i:
                lines = lines[:j] + block + lines[j:i] + lines[k:]
        data = b"\n".join(lines)
    return data[:200000]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("relaxc")
    ap.add_argument("files", nargs="+")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--keep", default=None, help="folder for inputs that failed")
    ap.add_argument("--args", default="-fsyntax-only", help="what relaxc is asked to do")
    ap.add_argument("--words", action="store_true", help="change whole words")
    ap.add_argument("--structure", action="store_true", help="change arguments, groups, lines and blocks")
    ap.add_argument("--timeout", type=float, default=20)
    args = ap.parse_args()
    rng = random.Random(args.seed)
    sources = [open(f, "rb").read() for f in args.files]
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "input.rx")
        for i in range(args.count):
            source = rng.choice(sources)
            if args.structure:
                data = mutate_structure(rng, source, sources)
            elif args.words:
                data = mutate_words(rng, source)
            else:
                data = mutate(rng, source, sources)
            with open(path, "wb") as f:
                f.write(data)
            try:
                r = subprocess.run([args.relaxc, *args.args.split(), path], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, timeout=args.timeout)
                bad = r.returncode not in (0, 1) or (r.returncode == 1 and b"error:" not in r.stderr)
                why = f"exit code {r.returncode}"
            except subprocess.TimeoutExpired:
                bad, why = True, "timeout"
                r = None
            if bad:
                failed += 1
                print(f"seed {args.seed}, case {i}: {why}", flush=True)
                if r is not None:
                    print(r.stderr.decode("utf-8", "replace")[-2000:])
                if args.keep:
                    os.makedirs(args.keep, exist_ok=True)
                    with open(os.path.join(args.keep, f"{args.seed}-{i}.rx"), "wb") as f:
                        f.write(data)
    print(f"{args.count} cases, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
