#!/usr/bin/env python3
"""Compares relaxc's reader and printer with TVM's, both ways.

For each script: TVM reads it (A); relaxc prints it; TVM reads that (B); A and B must be structurally
equal, and relaxc's print of its own print must be the same bytes. What TVM refuses, relaxc refuses.
A script that is a print of TVM's and that relaxc reproduces byte for byte needs no second reading.

  run.py [--relaxc PATH] [--cache FILE] [--list BUCKET] [--limit N] [--quick] [--infer] PATH...

PATH: .rx files, or folders that are searched for them. Prints counts and buckets, the largest first.
With --infer the bindings lose their types first, so that both sides infer them.
"""
import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

from modules import without_annotations

HERE = os.path.dirname(os.path.abspath(__file__))
# Disagreements that are the peer's own fault: "name of file: reason" lines; "infer name of file: reason" for --infer;
# '"words": reason' for all scripts that the peer refuses with a message that holds these words.
KNOWN = os.path.join(HERE, "known.txt")


def find_scripts(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, _, names in sorted(os.walk(path)):
            for name in sorted(names):
                if name.endswith(".rx"):
                    yield os.path.join(folder, name)


def relaxc(args, path, text=None):
    """Exit code, text, messages of `relaxc --emit=relax`."""
    try:
        p = subprocess.run([args.relaxc, "--emit=relax", "-o", "-", path], capture_output=True,
                           input=text, timeout=60)
    except subprocess.TimeoutExpired:
        return -1, b"", "relaxc: timeout"
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace")


def relaxc_on(args, path, raw):
    """The same on another text than the file's."""
    if not args.infer:
        return relaxc(args, path)
    with tempfile.NamedTemporaryFile(suffix=".rx") as f:
        f.write(raw)
        f.flush()
        return relaxc(args, f.name)


def plain(text):
    """Without the imports, which are comments."""
    return re.sub(rb"(?m)^# from .*\n", b"", text).strip()


def normal(message):
    """A message without what differs from file to file."""
    message = re.sub(r"'[^']*'", "'_'", message)
    message = re.sub(r'"[^"]*"', '"_"', message)
    message = re.sub(r"\(.*\)", "(_)", message)
    return re.sub(r"\b\d+\b", "N", message)[:150]


def first_error(stderr):
    for line in stderr.splitlines():
        m = re.search(r"(?:error|bug): (.*)", line)
        if m:
            return m.group(1)
    return stderr.strip().splitlines()[-1] if stderr.strip() else "no message"


def read_with_tvm(text):
    """A module or function, or the message of the refusal."""
    import tvm
    import tvm.script

    try:
        return tvm.script.from_source(text), None
    except BaseException as e:  # the peer raises all kinds
        lines = [l for l in str(e).splitlines() if l.strip()]
        error = [l for l in lines if "error:" in l]
        return None, (error or lines or [type(e).__name__])[-1 if not error else 0].strip()[:300]


def first_difference(a, b):
    """Where the prints of two modules differ."""
    try:
        a, b = a.script(show_meta=True), b.script(show_meta=True)
    except BaseException as e:
        return f"can't be printed: {type(e).__name__}"
    for x, y in zip(a.splitlines(), b.splitlines()):
        if x != y:
            return f"{x.strip()[:200]}  |  {y.strip()[:200]}"
    return "prints agree"


def judge(text, text2, same_print):
    """The verdict of the peer on one script: (category, detail)."""
    a, why = read_with_tvm(text)
    if a is None:
        return "peer refuses", why
    if text2 is None:
        return "peer accepts", ""
    if same_print:
        return "agree", ""
    import tvm_ffi

    b, why = read_with_tvm(text2)
    if b is None:
        return "print refused by peer", why
    if tvm_ffi.structural_equal(a, b):
        return "agree", ""
    return "not equal", first_difference(a, b)


def judge_all(jobs, done):
    """Forks for each run of jobs, so that a crash of the peer loses only one script."""
    import tvm.script  # noqa: F401  (loaded once, before the forks)

    while jobs:
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(r)
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 2)
            with os.fdopen(w, "w") as out:
                try:
                    for key, text, text2, same in jobs[:100]:
                        out.write(json.dumps([key, *judge(text, text2, same)]) + "\n")
                        out.flush()
                finally:
                    os._exit(0)
        os.close(w)
        n = 0
        with os.fdopen(r) as pipe:
            for line in pipe:
                key, category, detail = json.loads(line)
                done[key] = (category, detail)
                n += 1
        os.waitpid(pid, 0)
        if n < min(100, len(jobs)):
            done[jobs[n][0]] = ("peer crashes", "")
            n += 1
        jobs = jobs[n:]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--relaxc", default=os.path.join(HERE, "../../../build/relaxc"))
    p.add_argument("--cache", help="file that keeps the peer's verdicts")
    p.add_argument("--limit", type=int, default=40, help="buckets to print")
    p.add_argument("--list", help="print the files of buckets whose name contains this")
    p.add_argument("--quick", action="store_true",
                   help="the scripts are prints of the peer's: ask it only where relaxc's differ")
    p.add_argument("--infer", action="store_true", help="without the types of bindings")
    p.add_argument("paths", nargs="+")
    args = p.parse_args()

    known = {}
    if os.path.exists(KNOWN):
        with open(KNOWN, encoding="utf-8") as f:
            for line in f:
                m = re.match(r'("[^"]+"|[^:#]+): *(.+)', line)
                if m:
                    name, reason = m.groups()
                    if name.startswith("infer ") == args.infer or not name.startswith("infer "):
                        known[name.removeprefix("infer ")] = reason.strip()
    cache = {}
    if args.cache and os.path.exists(args.cache):
        with open(args.cache, encoding="utf-8") as f:
            cache = json.load(f)

    rows, jobs = [], []
    for path in find_scripts(args.paths):
        with open(path, "rb") as f:
            raw = f.read()
        text = raw.decode("utf-8", "surrogateescape")
        if args.infer:
            text = without_annotations(text)
            raw = text.encode("utf-8", "surrogateescape")
        code, out, err = relaxc_on(args, path, raw)
        text2 = out.decode("utf-8", "surrogateescape") if code == 0 else None
        same = code == 0 and plain(out) == plain(raw)
        fixed = True
        if code == 0 and not same:
            tmp = "/tmp/relaxc-peer-%d.rx" % os.getpid()
            with open(tmp, "wb") as f:
                f.write(out)
            code2, out2, err2 = relaxc(args, tmp)
            fixed = code2 == 0 and out2 == out
            os.unlink(tmp)
            if not fixed:
                err = "second print differs" if code2 == 0 else first_error(err2)
        key = hashlib.sha1(raw + b"\0" + (b"" if same else out) + (b"=" if same else b"")
                           if code == 0 else raw).hexdigest()
        rows.append((path, key, code, err, fixed, "@R.function" in text))
        if args.quick and same:
            cache.setdefault(key, ("agree", ""))
        if key not in cache:
            jobs.append((key, text, text2, same))
    if jobs:
        judge_all(jobs, cache)
        if args.cache:
            with open(args.cache, "w", encoding="utf-8") as f:
                json.dump(cache, f)

    counts, buckets = collections.Counter(), collections.defaultdict(list)
    for path, key, code, err, fixed, graph in rows:
        category, detail = cache[key]
        kind = "relax" if graph else "tir"
        if os.path.basename(path) in known:
            verdict, detail = "known", known[os.path.basename(path)]
        elif code not in (0, 1):
            verdict, detail = "relaxc crashes", first_error(err)
        elif category == "peer crashes":
            verdict = "peer crashes"
        elif code == 1 and category == "peer refuses":
            verdict = "both refuse"
        elif category == "peer refuses":
            why = [r for words, r in known.items() if words[0] == '"' and words[1:-1] in detail]
            verdict, detail = ("known", why[0]) if why else ("only the peer refuses", detail)
        elif code == 1:
            verdict, detail = "only relaxc refuses", first_error(err)
        elif category != "agree":
            verdict = category
        elif not fixed:
            verdict, detail = "no fixed point", err
        else:
            verdict = "agree"
        counts[kind, verdict] += 1
        if verdict not in ("agree", "both refuse", "known", "peer crashes"):
            buckets[verdict + ": " + normal(detail)].append((path, detail))

    failed = 0
    for kind in ("relax", "tir"):
        n = sum(v for (k, _), v in counts.items() if k == kind)
        good = sum(counts[kind, v] for v in ("agree", "both refuse", "known", "peer crashes"))
        failed += n - good
        if n:
            print(f"{kind}: {good} of {n} agree ({100 * good / n:.2f} %)  " + ", ".join(
                f"{v} {c}" for (k, v), c in sorted(counts.items()) if k == kind))
    for name, files in sorted(buckets.items(), key=lambda b: -len(b[1]))[:args.limit]:
        print(f"{len(files):5} {name}\n        {os.path.relpath(files[0][0])}: {files[0][1][:400]}")
        if args.list is not None and args.list in name:
            for path, detail in files:
                print(f"          {path}: {detail[:300]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
