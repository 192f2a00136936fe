"""Comments thrown at random into the scripts of the tests: does `relaxc fmt` keep them?

    comments.py RELAXC FOLDER SEED [COUNT]

For each of COUNT random scripts below FOLDER with random comments at places where Python allows
them: every comment comes back, once; the program is what it was without them; and the text, printed
once more, stays as it is. Scripts that don't parse are passed over.
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import tokenize

INSIDE = {",", "(", "[", "{"}
TAILS = ["", " (x", " 'q", ' """', " # more"]
NOTE = re.compile(r"\s*# note \d+(" + "|".join(map(re.escape, TAILS[1:])) + ")?")


def fmt(relaxc, path):
    return subprocess.run([relaxc, "fmt", str(path)], capture_output=True, text=True)


def with_comments(rng, path):
    """The text with comments, and how many there are."""
    number = 0

    def comment():
        nonlocal number
        number += 1
        return f"# note {number}" + rng.choice(TAILS)

    with open(path, "rb") as f:
        tokens = list(tokenize.tokenize(f.readline))
    lines = path.read_text().splitlines()
    after, depth, logical = {}, 0, []
    for i, t in enumerate(tokens):
        if t.type == tokenize.OP:
            depth += (t.string in "([{") - (t.string in ")]}")
        last = i + 1 == len(tokens) or tokens[i + 1].type in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
        if t.type == tokenize.NEWLINE:
            logical.append(t.end[0])
        if depth and t.type == tokenize.OP and t.string in INSIDE and not last and rng.random() < 0.1:
            after.setdefault(t.end[0], []).append(t.end[1])
    out, multi = [], {n for t in tokens if t.type == tokenize.STRING
                      for n in range(t.start[0], t.end[0])}
    for n, line in enumerate(lines, 1):
        column = len(line) - len(line.lstrip())
        ends = n in logical and "#" not in line and not line.rstrip().endswith("\\")
        for at in sorted(after.get(n, []), reverse=True):
            line = f"{line[:at]}  {comment()}\n{' ' * rng.randrange(20)}{line[at:]}"
        if ends and n not in multi and rng.random() < 0.2:
            line += "  " + comment()
        out.append(line)
        if n in logical and rng.random() < 0.2:
            for _ in range(rng.randrange(1, 3)):
                out.append(" " * rng.choice([column, 0, column + 4, 8]) + comment())
                out += [""] * rng.choice([0, 0, 1, 3])
    return "\n".join(out) + "\n", number


def strip(text):
    return [l for l in (NOTE.sub("", l) for l in text.splitlines()) if l]


def check(relaxc, rng, path, folder):
    plain = fmt(relaxc, path)
    if plain.returncode:
        return None
    try:
        text, number = with_comments(rng, path)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return None
    a, b = folder / "a.rx", folder / "b.rx"
    a.write_text(plain.stdout)
    if fmt(relaxc, a).stdout != plain.stdout:
        return None  # not the comments' fault
    a.write_text(text)
    once = fmt(relaxc, a)
    if once.returncode:
        return f"refused: {once.stderr}"
    b.write_text(once.stdout)
    if sorted(map(int, re.findall(r"# note (\d+)", once.stdout))) != list(range(1, number + 1)):
        return "comments are lost or doubled"
    if strip(once.stdout) != strip(plain.stdout):
        return "the program has changed"
    if fmt(relaxc, b).stdout != once.stdout:
        return "a second time changes the text"
    return ""


def main():
    relaxc, root, seed = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 100
    rng = random.Random(seed)
    # a comment of the script itself might join one of these on a line: those of Inputs are full of them
    files = [f for f in sorted(root.rglob("*.rx"))
             if f.stat().st_size < 20000 and "Inputs" not in f.parts]
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in rng.choices(files, k=count):
            why = check(relaxc, rng, path, pathlib.Path(folder))
            done += why is not None
            if why:
                keep = f"comments-{seed}.rx"
                pathlib.Path(keep).write_text((pathlib.Path(folder) / "a.rx").read_text())
                sys.exit(f"{path} (kept as {keep}): {why}")
    print(f"{done} of {count} scripts keep their comments")


main()
