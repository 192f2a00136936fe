"""A network as a list of operations, written once and printed twice: as a Relax script for relaxc
and TVM, as an ONNX file for the others.

An operation is a method of Graph (the shape of its result, what it costs) and a row in each of the
tables RELAX and ONNX. A dim is a number or, where it is symbolic, a name.
"""
import math

import numpy as np


class Value:
    """A tensor: an input, a weight or constant (then with `data`), or the result of an operation."""

    def __init__(self, name, shape, dtype="float32", data=None, fill=None):
        self.name, self.shape, self.dtype = name, tuple(shape), dtype
        self.data, self.fill = data, fill

    def size(self, dims):
        """Number of elements once the symbolic dims have values."""
        return math.prod(dims.get(d, d) for d in self.shape)


class Node:
    def __init__(self, op, operands, out, attrs):
        self.op, self.operands, self.out, self.attrs = op, operands, out, attrs


def broadcast(a, b):
    """The shape of an elementwise result; a symbolic dim meets itself or 1."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(a, b))


class Graph:
    def __init__(self, seed=0):
        self.inputs, self.weights, self.nodes, self.outputs = [], [], [], []
        self.random = np.random.default_rng(seed)
        self.products = []  # one tuple of dims per contraction: its multiply-adds

    # --- leaves ------------------------------------------------------------------------------------
    def input(self, name, shape, dtype="float32", fill=None):
        """`fill(random, shape)` makes its values; normal ones by default."""
        value = Value(name, shape, dtype, fill=fill or (lambda r, s: r.standard_normal(s)))
        self.inputs.append(value)
        return value

    def weight(self, *shape, scale=None, shift=0.0):
        """Normal values; by default of a size that keeps the activations' size through a layer."""
        inner = math.prod(shape[:-1]) if len(shape) == 2 else math.prod(shape[1:])
        scale = inner**-0.5 if scale is None else scale
        data = self.random.standard_normal(shape, "float32") * np.float32(scale) + np.float32(shift)
        value = Value(f"w{len(self.weights)}", shape, data=data)
        self.weights.append(value)
        return value

    def integers(self, low, high, *shape):
        """A weight of int8."""
        data = self.random.integers(low, high, shape).astype("int8")
        self.weights.append(Value(f"w{len(self.weights)}", shape, "int8", data))
        return self.weights[-1]

    def scalar(self, number, dtype="float32"):
        return Value(repr(number), (), dtype, data=np.array(number, dtype))

    def result(self, op, operands, shape, dtype=None, **attrs):
        operands = [v if isinstance(v, Value) else self.scalar(v) for v in operands]
        out = Value(f"v{len(self.nodes)}", shape, dtype or operands[0].dtype)
        self.nodes.append(Node(op, operands, out, attrs))
        return out

    # --- operations ----------------------------------------------------------------------------------
    def binary(self, op, a, b):
        return self.result(op, (a, b), broadcast(a.shape, getattr(b, "shape", ())))

    def add(self, a, b):
        return self.binary("add", a, b)

    def subtract(self, a, b):
        return self.binary("subtract", a, b)

    def multiply(self, a, b):
        return self.binary("multiply", a, b)

    def divide(self, a, b):
        return self.binary("divide", a, b)

    def unary(self, op, x, **attrs):
        """relu, relu6, sigmoid, erf, sqrt, negative; softmax over the last dim."""
        return self.result(op, (x,), x.shape, **attrs)

    def cast(self, x, dtype):
        return self.result("cast", (x,), x.shape, dtype, to=dtype)

    def quantize(self, x, scale, dtype="uint8"):
        """Without zero point."""
        return self.result("quantize", (x,), x.shape, dtype, scale=scale, to=dtype)

    def dequantize(self, x, scale):
        return self.result("dequantize", (x,), x.shape, "float32", scale=scale, given=x.dtype)

    def layer_norm(self, x, gamma, beta, epsilon=1e-5):
        return self.result("layer_norm", (x, gamma, beta), x.shape, epsilon=epsilon)

    def mean(self, x, axis):
        axis %= len(x.shape)
        return self.result("mean", (x,), x.shape[:axis] + (1,) + x.shape[axis + 1:], axis=axis)

    def total(self, x, axis):
        return self.result("total", (x,), x.shape[:axis] + x.shape[axis + 1:], axis=axis)

    def spatial_mean(self, x):
        """(n, c, h, w) to (n, c)."""
        return self.result("spatial_mean", (x,), x.shape[:2])

    def transpose(self, x, *axes):
        return self.result("transpose", (x,), [x.shape[a] for a in axes], axes=list(axes))

    def reshape(self, x, *shape):
        sizes = [-1 if isinstance(d, str) else d for d in shape]
        return self.result("reshape", (x,), shape, sizes=sizes)

    def slice(self, x, axis, begin, end):
        shape = x.shape[:axis] + (end - begin,) + x.shape[axis + 1:]
        return self.result("slice", (x,), shape, axis=axis, begin=begin, end=end)

    def concat(self, a, b, axis):
        size, more = a.shape[axis], b.shape[axis]
        size = f"{size} + {more}" if isinstance(size, str) or isinstance(more, str) else size + more
        shape = a.shape[:axis] + (size,) + a.shape[axis + 1:]
        return self.result("concat", (a, b), shape, axis=axis)

    def take(self, table, indices):
        """Rows of `table`."""
        return self.result("take", (table, indices), indices.shape + table.shape[1:])

    def matmul(self, a, b):
        shape = broadcast(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1])
        self.products.append(shape + (a.shape[-1],))
        return self.result("matmul", (a, b), shape)

    def conv2d(self, x, w, b, stride=1, groups=1):
        """(n, c, h, w) with (out, c / groups, k, k), padded so that stride 1 keeps the size."""
        kernel = w.shape[2]
        sizes = [d if stride == 1 else (d + 2 * (kernel // 2) - kernel) // stride + 1 for d in x.shape[2:]]
        shape = (x.shape[0], w.shape[0], *sizes)
        if not any(isinstance(d, str) for d in sizes):
            # Neither we nor the others multiply with the zeros around the image.
            taps = [sum(0 <= o * stride + k - kernel // 2 < d for o in range(size) for k in range(kernel))
                    for size, d in zip(sizes, x.shape[2:])]
            self.products.append(shape[:2] + (w.shape[1], *taps))
        return self.result("conv2d", (x, w, b), shape, stride=stride, groups=groups, kernel=kernel,
                           padding=kernel // 2, channels=w.shape[0])

    def max_pool(self, x):
        """3 x 3, stride 2."""
        return self.result("max_pool", (x,), x.shape[:2] + tuple((d - 1) // 2 + 1 for d in x.shape[2:]))

    def output(self, *values):
        self.outputs += values

    # --- what it costs ---------------------------------------------------------------------------------
    def multiply_adds(self, dims):
        return sum(math.prod(dims.get(d, d) for d in product) for product in self.products)

    def bytes(self, dims):
        """What must be moved: inputs, weights and outputs, each once."""
        return sum(v.size(dims) * np.dtype(v.dtype).itemsize
                   for v in self.inputs + self.weights + self.outputs)


# --- as a Relax script ---------------------------------------------------------------------------------
RELAX = {
    "add": "R.add({0}, {1})",
    "subtract": "R.subtract({0}, {1})",
    "multiply": "R.multiply({0}, {1})",
    "divide": "R.divide({0}, {1})",
    "relu": "R.nn.relu({0})",
    "relu6": "R.clip({0}, 0, 6)",
    "sigmoid": "R.sigmoid({0})",
    "erf": "R.erf({0})",
    "sqrt": "R.sqrt({0})",
    "negative": "R.negative({0})",
    "cast": 'R.astype({0}, "{to}")',
    "quantize": 'R.quantize({0}, R.const({scale}, "float32"), R.const(0, "int8"), axis=-1, out_dtype="{to}")',
    "dequantize": 'R.dequantize({0}, R.const({scale}, "float32"), R.const(0, "int8"), axis=-1)',
    "softmax": "R.nn.softmax({0}, axis=-1)",
    "layer_norm": "R.nn.layer_norm({0}, {1}, {2}, axes=[-1], epsilon={epsilon})",
    "mean": "R.mean({0}, axis=[{axis}], keepdims=True)",
    "total": "R.sum({0}, axis=[{axis}], keepdims=False)",
    "spatial_mean": "R.mean({0}, axis=[2, 3], keepdims=False)",
    "transpose": "R.permute_dims({0}, axes={axes})",
    "reshape": "R.reshape({0}, {sizes})",
    "slice": "R.strided_slice({0}, axes=[{axis}], begin=[{begin}], end=[{end}])",
    "concat": "R.concat(({0}, {1}), axis={axis})",
    "take": "R.take({0}, {1}, axis=0)",
    "matmul": "R.matmul({0}, {1})",
    "conv2d": "R.add(R.nn.conv2d({0}, {1}, strides=[{stride}, {stride}], "
              "padding=[{padding}, {padding}, {padding}, {padding}], groups={groups}), "
              "R.reshape({2}, [1, {channels}, 1, 1]))",
    "max_pool": "R.nn.max_pool2d({0}, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])",
}


def relax_type(value):
    dims = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in value.shape)
    return f'R.Tensor(({dims}{"," if len(value.shape) == 1 else ""}), "{value.dtype}")'


def relax_operand(value):
    if value.data is not None and value.shape == ():
        return f'R.const({value.name}, "{value.dtype}")'
    return value.name


def relax_text(graph):
    """The script; weights are parameters after the inputs, bound by name from the .npz."""
    params = ",\n    ".join(f"{v.name}: {relax_type(v)}" for v in graph.inputs + graph.weights)
    names = [v.name for v in graph.outputs]
    single = len(names) == 1
    types = [relax_type(v) for v in graph.outputs]
    lines = ["from tvm.script import relax as R", "", "", "@R.function", "def main(", f"    {params},",
             f") -> {types[0] if single else 'R.Tuple(' + ', '.join(types) + ')'}:",
             "    with R.dataflow():"]
    for node in graph.nodes:
        text = RELAX[node.op].format(*map(relax_operand, node.operands), **node.attrs)
        lines.append(f"        {node.out.name} = {text}")
    lines.append(f"        R.output({', '.join(names)})")
    lines.append(f"    return {names[0] if single else '(' + ', '.join(names) + ')'}")
    return "\n".join(lines) + "\n"


# --- as an ONNX file -------------------------------------------------------------------------------------
# Type and attributes of the node; a list among the attributes' names stands for constant operands.
ONNX = {
    "add": lambda a: ("Add", {}),
    "subtract": lambda a: ("Sub", {}),
    "multiply": lambda a: ("Mul", {}),
    "divide": lambda a: ("Div", {}),
    "relu": lambda a: ("Relu", {}),
    "relu6": lambda a: ("Clip", {"operands": [np.float32(0), np.float32(6)]}),
    "sigmoid": lambda a: ("Sigmoid", {}),
    "erf": lambda a: ("Erf", {}),
    "sqrt": lambda a: ("Sqrt", {}),
    "negative": lambda a: ("Neg", {}),
    "cast": lambda a: ("Cast", {"to": {"float32": 1}[a["to"]]}),
    "quantize": lambda a: ("QuantizeLinear", {"operands": [np.float32(a["scale"]), np.array(0, a["to"])]}),
    "dequantize": lambda a: ("DequantizeLinear", {"operands": [np.float32(a["scale"]), np.array(0, a["given"])]}),
    "softmax": lambda a: ("Softmax", {"axis": -1}),
    "layer_norm": lambda a: ("LayerNormalization", {"axis": -1, "epsilon": a["epsilon"]}),
    "mean": lambda a: ("ReduceMean", {"axes": [a["axis"]], "keepdims": 1}),
    "total": lambda a: ("ReduceSum", {"operands": [np.array([a["axis"]])], "keepdims": 0}),
    "spatial_mean": lambda a: ("GlobalAveragePool", {}),
    "transpose": lambda a: ("Transpose", {"perm": a["axes"]}),
    "reshape": lambda a: ("Reshape", {"operands": [np.array(a["sizes"])]}),
    "slice": lambda a: ("Slice", {"operands": [np.array([a[k]]) for k in ("begin", "end", "axis")]}),
    "concat": lambda a: ("Concat", {"axis": a["axis"]}),
    "take": lambda a: ("Gather", {"axis": 0}),
    "matmul": lambda a: ("MatMul", {}),
    "conv2d": lambda a: ("Conv", {"kernel_shape": [a["kernel"]] * 2, "strides": [a["stride"]] * 2,
                                  "pads": [a["padding"]] * 4, "group": a["groups"]}),
    "max_pool": lambda a: ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
}


def onnx_model(graph):
    from onnx import helper, numpy_helper

    initializers = {v.name: numpy_helper.from_array(v.data, v.name) for v in graph.weights}
    nodes = []

    def constant(array):
        array = np.asarray(array)
        name = f"c_{array.dtype}_{'_'.join(map(str, array.ravel()))}_{array.ndim}"
        if name not in initializers:
            initializers[name] = numpy_helper.from_array(array, name)
        return name

    def operand(value):
        return constant(value.data) if value.data is not None and value.shape == () else value.name

    def info(value):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
        return helper.make_tensor_value_info(value.name, kind, value.shape)

    for node in graph.nodes:
        kind, attrs = ONNX[node.op](node.attrs)
        operands = [operand(v) for v in node.operands] + [constant(c) for c in attrs.pop("operands", [])]
        out = node.out.name
        if kind == "GlobalAveragePool":  # keeps the two dims of length 1
            nodes.append(helper.make_node(kind, operands, [out + "_4d"]))
            kind, operands = "Flatten", [out + "_4d"]
        nodes.append(helper.make_node(kind, operands, [out], **attrs))
    body = helper.make_graph(nodes, "main", [info(v) for v in graph.inputs],
                             [info(v) for v in graph.outputs], list(initializers.values()))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model
