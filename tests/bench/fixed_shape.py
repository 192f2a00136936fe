"""A network of an ONNX file at one shape of its input: SOURCE.onnx OUT DIM...

Writes OUT.onnx, whose shapes are all fixed and whose arithmetic on shapes is folded away (by ONNX
Runtime's passes from ONNX to ONNX), OUT.rx and OUT.npz, what TVM's importer makes of that, and, last,
OUT.json: name, shape and dtype of inputs and outputs.
"""
import json
import re
import sys

import numpy as np
import onnx
import onnxruntime
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.onnx import from_onnx


def fix_shape(model, shape, path):
    """Writes the model of that shape to `path` and returns it."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, shape, strict=True):
        dim.Clear()
        dim.dim_value = size
    for out in model.graph.output:
        out.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    options.optimized_model_filepath = path
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    results = session.run(None, {model.graph.input[0].name: np.zeros(shape, "float32")})
    fixed = onnx.load(path)
    for out, array in zip(fixed.graph.output, results, strict=True):
        kind = out.type.tensor_type.elem_type
        out.CopyFrom(onnx.helper.make_tensor_value_info(out.name, kind, array.shape))
    standard = [o for o in fixed.opset_import if o.domain in ("", "ai.onnx")]
    del fixed.opset_import[:]
    fixed.opset_import.extend(standard)
    onnx.save(fixed, path)
    return fixed


def tensor(info):
    kind = info.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    return info.name, [d.dim_value for d in kind.shape.dim], dtype


def main():
    source, out, *dims = sys.argv[1:]
    model = fix_shape(onnx.load(source), [int(d) for d in dims], out + ".onnx")
    module, weights = detach_params(from_onnx(model, keep_params_in_input=True))
    text, arrays = module.script(show_meta=True), weights["main"]
    with open(out + ".rx", "w") as f:
        f.write(text)
    # The weights are the last parameters; the .npz names them as the script does.
    names = re.findall(r"(\w+): R\.", re.search(r"def main\((.*)\) ->", text)[1])[-len(arrays):]
    np.savez(out + ".npz", **{n: a.numpy() for n, a in zip(names, arrays, strict=True)})
    with open(out + ".json", "w") as f:
        json.dump({"inputs": [tensor(i) for i in model.graph.input],
                   "outputs": [tensor(o) for o in model.graph.output]}, f)


if __name__ == "__main__":
    main()
