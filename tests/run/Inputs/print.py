"""Writes print.rx: what R.print shows, with the lines to expect (see print.test)."""
import sys

TEXT = '''
@I.ir_module
class Module:
    @R.function(pure=False)
    def main() -> R.Tensor((2,), "float32"):
        x = R.const([[1.0, -0.5, 0.1], [1e30, 3.0, 16777217.0]], "float32")
        R.print(x)
        y = R.add(x, x)
        R.print(y, format="twice: {}, again {0} {{}}")
        R.print(x, R.const(7, "int64"), R.shape([3, 4]), 5)
        nothing = R.zeros((0, 3), "float32")
        R.print(nothing, format="{}")
        long = R.reshape(R.arange(2002, dtype="int32"), (2, 1001))
        R.print(long)
        R.print(format="no value")
%s
        z = R.sum(x, axis=[1])
        w = R.match_cast(R.nn.relu(R.strided_slice(R.nn.relu(y), (0,), (0,), (2,))), R.Tensor((2, 3), "float32"))
        v = R.sum(w, axis=[1])
        return v
'''
# CHECK: [{{\[}}1.0, -0.5, 0.1], [1e+30, 3.0, 16777216.0]]
# CHECK-NEXT: twice: [{{\[}}2.0, -1.0, 0.2], [2e+30, 6.0, 33554432.0]], again [{{\[}}2.0, -1.0, 0.2], [2e+30, 6.0, 33554432.0]] {}
# CHECK-NEXT: [{{\[}}1.0, -0.5, 0.1], [1e+30, 3.0, 16777216.0]] 7 [3, 4] 5
# CHECK-NEXT: []
# CHECK-NEXT: [{{\[}}0, 1, 2, ..., 998, 999, 1000], [1001, 1002, 1003, ..., 1999, 2000, 2001]]
# CHECK-NEXT: no value
# CHECK-NEXT: float64 [1.0, -2.5, 0.1, nan, inf]
# CHECK-NEXT: float32 [1.0, -2.5, 0.1, nan, inf]
# CHECK-NEXT: float16 [1.0, -2.5, 0.099975586, nan, inf]
# CHECK-NEXT: bfloat16 [1.0, -2.5, 0.100097656, nan, inf]
# CHECK-NEXT: float8_e5m2 [1.0, -2.5, 0.09375, nan, inf]
# CHECK-NEXT: float8_e4m3fn [1.0, -2.5, 0.1015625, nan, nan]
# CHECK-NEXT: int8 [1, -2, -128, 127]
# CHECK-NEXT: int16 [1, -2, -32768, 32767]
# CHECK-NEXT: int32 [1, -2, -2147483648, 2147483647]
# CHECK-NEXT: int64 [1, -2, -9223372036854775808, 9223372036854775807]
# CHECK-NEXT: uint8 [1, 0, 255]
# CHECK-NEXT: uint16 [1, 0, 65535]
# CHECK-NEXT: uint32 [1, 0, 4294967295]
# CHECK-NEXT: uint64 [1, 0, 18446744073709551615]
# CHECK-NEXT: bool [True, False]
lines = []


def line(dtype, value):
    lines.append(f"        t_{dtype} = {value}")
    lines.append(f'        R.print(t_{dtype}, format="{dtype} {{}}")')


line("float64", 'R.divide(R.const([1.0, -2.5, 0.1, 0.0, 1.0], "float64"), R.const([1.0, 1.0, 1.0, 0.0, 0.0], "float64"))')
for d in ("float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"):
    line(d, f'R.astype(t_float64, "{d}")')
for bits in (8, 16, 32, 64):
    edge = f"{-2**(bits - 1)}, {2**(bits - 1) - 1}"
    line(f"int{bits}", f'R.const([1, -2, {edge}], "int{bits}")')
for bits in (8, 16, 32, 64):
    line(f"uint{bits}", f'R.bitwise_not(R.subtract(R.const([0, 1, 1], "uint{bits}"), R.const([2, 2, 1], "uint{bits}")))')
line("bool", "R.equal(R.const([1, 2], \"int32\"), R.const([1, 1], \"int32\"))")
with open(sys.argv[1] + "/print.rx", "w") as f:
    f.write(TEXT % "\n".join(lines))
