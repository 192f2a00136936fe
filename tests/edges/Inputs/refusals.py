"""One expression per row, over x: (2, 3) float32, i: (2, 3) int64, v: (3,) float32, s: (n, m) float32, and words that the
refusal must have. The exit code is 1 and there is one error, with the line of the expression."""
import subprocess
import sys
import tempfile

ROWS = [
    ("R.add(x, i)", "dtype"),
    ("R.add(x, R.zeros(R.shape([4]), \"float32\"))", "broadcast"),
    ("R.matmul(x, x)", "R.matmul"),
    ("R.matmul(x, R.const(1.0, \"float32\"))", "R.matmul"),
    ("R.reshape(x, (7,))", "R.reshape"),
    ("R.reshape(x, (-1, -1))", "-1"),
    ("R.reshape(x, (-1, 4))", "R.reshape"),
    ("R.permute_dims(x, [0, 0])", "R.permute_dims"),
    ("R.permute_dims(x, [0])", "R.permute_dims"),
    ("R.concat((x, v))", "R.concat"),
    ("R.concat((x, i))", "R.concat"),
    ("R.stack((x, v))", "R.stack"),
    ("R.split(x, 2, axis=2)", "axis"),
    ("R.sum(x, axis=2)", "axis"),
    ("R.sum(x, axis=[0, 0])", "axis"),
    ("R.argmax(x, axis=-3)", "axis"),
    ("R.nn.softmax(x, axis=5)", "axis"),
    ("R.nn.softmax(i)", "R.nn.softmax"),
    ("R.exp(i)", "R.exp"),
    ("R.expand_dims(x, [0, 0])", "R.expand_dims"),
    ("R.broadcast_to(x, (3, 3))", "R.broadcast_to"),
    ("R.broadcast_to(x, (3,))", "R.broadcast_to"),
    ("R.take(x, v, axis=0)", "R.take"),
    ("R.take(x, R.const([0], \"int64\"))", "axis"),
    ("R.gather_elements(x, v)", "R.gather_elements"),
    ("R.scatter_elements(x, i, i)", "R.scatter_elements"),
    ("R.strided_slice(x, (0,), (0, 1), (1,))", "R.strided_slice"),
    ("R.strided_slice(x, (0,), (0,), (1,), (0,))", "strides"),
    ("R.strided_slice(x, (5,), (0,), (1,))", "axis"),
    ("R.nn.conv2d(x, x)", "R.nn.conv2d"),
    ("R.nn.conv1d(R.zeros(R.shape([1, 4, 9]), \"float32\"), R.zeros(R.shape([2, 3, 3]), \"float32\"))", "channels"),
    ("R.nn.conv1d(R.zeros(R.shape([1, 4, 9]), \"float32\"), R.zeros(R.shape([3, 2, 3]), \"float32\"), groups=2)", "groups"),
    ("R.nn.max_pool2d(x)", "R.nn.max_pool2d"),
    ("R.nn.layer_norm(x, x, v, axes=[-1])", "R.nn.layer_norm"),
    ("R.nn.pad(x, (1, 1))", "R.nn.pad"),
    ("R.tril(v)", "R.tril"),
    ("R.einsum((x, v), \"ij,k->l\")", "R.einsum"),
    ("R.einsum((x,), \"ijk->i\")", "R.einsum"),
    ("R.one_hot(v, R.prim_value(1.0), R.prim_value(0.0), depth=3)", "R.one_hot"),
    ("R.where(x, x, x)", "R.where"),
    ("R.repeat(x, 2, axis=4)", "axis"),
    ("R.flip(x, axis=2)", "axis"),
    ("R.image.resize2d(x, (2, 2))", "R.image.resize2d"),
    ("R.collapse_sum_to(x, (2,))", "R.collapse_sum_to"),
    ("R.astype(x, \"float12\")", "float12"),
    ("R.topk(x, axis=2)", "axis"),
    ("R.cumsum(x, axis=7)", "axis"),
    ("R.nosuch(x)", "nosuch"),
    ("x[0]", "tuple"),
    ("R.add(x)", "R.add"),
    ("R.add(x, x, x)", "R.add"),
    ("R.sum(x, axes=[0])", "axes"),
    ("R.match_cast(x, R.Tensor((2, 4), dtype=\"float32\"))", "match_cast"),
    ("R.match_cast(x, R.Tensor((2, 3), dtype=\"int32\"))", "match_cast"),
    ("R.full(R.shape([2]), v)", "R.full"),
    ("R.layout_transform(x, index_map=lambda i: (i,))", "R.layout_transform"),
    ("R.ccl.allreduce(x)", "ccl.allreduce"),
]

HEAD = """n = TypeVar("n")
m = TypeVar("m")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), i: R.Tensor((2, 3), dtype="int64"), v: R.Tensor((3,), dtype="float32"), s: R.Tensor((n, m), dtype="float32")):
        y = """

bad = 0
with tempfile.TemporaryDirectory() as tmp:
    for text, words in ROWS:
        with open(tmp + "/m.rx", "w") as f:
            f.write(HEAD + text + "\n        return y\n")
        r = subprocess.run([sys.argv[1], tmp + "/m.rx", "-c", "-o", tmp + "/m.o"], capture_output=True, text=True)
        first = r.stderr.split("\n")[0]
        if r.returncode != 1 or words not in r.stderr or "m.rx:7:" not in first or "error:" not in first:
            print(f"{text}: exit code {r.returncode}, wanted 1 and '{words}' at line 7\n{r.stderr}")
            bad += 1
print(f"{len(ROWS) - bad} refused, {bad} not as they should be")
sys.exit(bad != 0)
