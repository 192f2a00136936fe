"""Writes a module of many different kernels: result i is x * i + (0, 1, ...), of length i + 2."""
import sys

n = int(sys.argv[1])
print("@I.ir_module\nclass Module:")
for i in range(n):
    print(f"""    @T.prim_func(private=True)
    def k{i}(A: T.Buffer(({i + 2},), "float32"), B: T.Buffer(({i + 2},), "float32")):
        for j in range({i + 2}):
            B[j] = A[j] * T.float32({i}) + T.Cast("float32", j)
""")
args = ", ".join(f'x{i}: R.Tensor(({i + 2},), dtype="float32")' for i in range(n))
rets = ", ".join(f'R.Tensor(({i + 2},), dtype="float32")' for i in range(n))
print(f"    @R.function\n    def main({args}) -> R.Tuple({rets}):\n        cls = Module")
for i in range(n):
    print(f'        y{i} = R.call_tir(cls.k{i}, (x{i},), out_ty=R.Tensor(({i + 2},), dtype="float32"))')
print(f"        return ({', '.join(f'y{i}' for i in range(n))})")
