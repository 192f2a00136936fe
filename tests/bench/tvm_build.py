"""Compiles a Relax script with TVM's default pipeline: SCRIPT WEIGHTS OUT.so CPU.

CPU is a name of LLVM's, or "host" for this processor. The script is in TVM's current dialect (relaxc --emit=relax prints it); WEIGHTS is an .npz.
"""
import sys

import numpy as np
import tvm
from tvm import relax


def main():
    script, weights, out, cpu = sys.argv[1:]
    with open(script) as f:
        module = tvm.script.from_source(f.read())
    if not isinstance(module, tvm.IRModule):
        module = tvm.IRModule({"main": module.with_attr("global_symbol", "main")})
    with np.load(weights) as values:
        bound = {name: tvm.runtime.tensor(values[name]) for name in values.files}
    module = relax.transform.BindParams("main", bound)(module)
    if cpu == "host":
        cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    tvm.compile(module, tvm.target.Target({"kind": "llvm", "mcpu": cpu})).export_library(out)


if __name__ == "__main__":
    main()
