"""Atomic operations, one per row with the name in its refusal (None: not atomic): each is read and printed as the
same text, and refused at its line by the compiler and by the interpreter."""
import subprocess
import sys
import tempfile

ROWS = [
    ("T.evaluate(T.atomic_add(B.data, A[0]))", "atomic_add"),
    ("T.evaluate(T.call_intrin(\"int32\", \"tirx.atomic_add\", B.data, A[0]))", "atomic_add"),
    ("T.evaluate(T.cuda.atomic_add(A.data, T.int32(1)))", "cuda.atomic_add"),
    ("T.evaluate(T.cuda.atomic_cas(A.data, T.int32(1), T.int32(2)))", "cuda.atomic_cas"),
    ("B[0] = T.call_extern(\"int32\", \"atomic_fetch_add\", T.address_of(A[0]), 1)", "atomic_fetch_add"),
    ("B[0] = T.call_pure_extern(\"int32\", \"atomic_load\", T.address_of(A[0]))", "atomic_load"),
    ("B[0] = T.call_extern(\"int32\", \"__atomic_fetch_add_4\", T.address_of(A[0]), 1, 5)", "__atomic_fetch_add_4"),
    ("B[0] = T.call_extern(\"int32\", \"__sync_fetch_and_add_4\", T.address_of(A[0]), 1)", "__sync_fetch_and_add_4"),
    ("B[0] = T.call_extern(\"int32\", \"atomicAdd\", T.address_of(A[0]), 1)", "atomicAdd"),
    ("T.call_extern(\"void\", \"atomic_add\", A.data, 1)", "atomic_add"),
    ("B[0] = T.call_extern(\"int32\", \"atomicity\", T.address_of(A[0]), 1)", None),
    ("B[0] = T.call_extern(\"int32\", \"my_atomic_add\", T.address_of(A[0]), 1)", None),
]

HEAD = """@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in T.parallel(16):
        B[i] = A[i]
    """


def run(*args):
    return subprocess.run([sys.argv[1], *args], capture_output=True, text=True)


bad = 0
with tempfile.TemporaryDirectory() as tmp:
    for text, name in ROWS:
        with open(tmp + "/m.rx", "w") as f:
            f.write(HEAD + text + "\n")
        printed = run("--emit=relax", tmp + "/m.rx", "-o", tmp + "/p.rx")
        again = run("--emit=relax", tmp + "/p.rx", "-o", tmp + "/q.rx")
        problems = [r.stderr for r in (printed, again) if r.returncode]
        if not problems and open(tmp + "/p.rx").read() != open(tmp + "/q.rx").read():
            problems.append("printed text differs when it is read and printed again\n")
        compiled = run("-c", tmp + "/m.rx", "-o", tmp + "/m.o")
        if name is None:
            problems += [compiled.stderr] if compiled.returncode else []
        else:
            for r in (compiled, run("eval", tmp + "/m.rx", "--random")):
                words = f"atomic operation '{name}'"
                if r.returncode != 1 or not r.stderr.split("\n")[0].startswith(tmp + "/m.rx:5:5: error:") or words not in r.stderr:
                    problems.append(r.stderr)
        if problems:
            print(text, *problems, sep="\n")
            bad += 1
print(f"{len(ROWS) - bad} as they should be, {bad} not")
sys.exit(bad != 0)
