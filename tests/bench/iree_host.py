"""IREE's side of the runner: the Python process that the runner is loaded into, and what
runner/peer_iree.c calls there.

    iree_host.py RUNNER.so ARGUMENT...    the runner's command line

Methods give an empty text or say what is wrong.
"""
import ctypes
import functools
import math
import sys


def reported(method):
    @functools.wraps(method)
    def wrapped(*args):
        try:
            method(*args)
            return ""
        except Exception as e:  # whatever it is, the other peers go on
            return f"{type(e).__name__}: {e}"
    return wrapped


class Network:
    @reported
    def open(self, module, parameters, threads):
        import iree.runtime as runtime

        self.runtime = runtime
        if threads > 1:
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = runtime.Config("local-sync" if threads == 1 else "local-task")
        self.device = config.device
        self.context = runtime.SystemContext(config=config)
        index = runtime.ParameterIndex()
        index.load(parameters)
        provider = index.create_provider(scope="model")
        self.context.add_vm_modules([runtime.create_io_parameters_module(self.context.instance, provider)])
        code = runtime.VmModule.mmap(self.context.instance, module)
        self.context.add_vm_module(code)
        entries = [n for n in code.function_names if not n.startswith("_") and "$" not in n]
        self.function = code.lookup_function(entries[0])

    @reported
    def begin(self):
        self.inputs, self.outputs = [], []

    def array(self, address, dtype, dims):
        """The tensor at an address as an array."""
        import numpy as np

        shape = [int(d) for d in dims.split("x") if d]
        size = math.prod(shape) * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)

    @reported
    def input(self, *tensor):
        self.inputs.append(self.runtime.asdevicearray(self.device, self.array(*tensor)))

    @reported
    def output(self, *tensor):
        self.outputs.append(self.array(*tensor))

    @reported
    def bind(self):
        arguments = self.runtime.VmVariantList(len(self.inputs))
        for array in self.inputs:
            arguments.push_ref(array._buffer_view)
        invoke, function, results = self.context.vm_context.invoke, self.function, self.runtime.VmVariantList
        count = len(self.outputs)

        def step():  # IREE allocates the results of each call
            out = results(count)
            invoke(function, arguments, out)
            return out

        self.step = step

    @reported
    def fetch(self):
        for i, view in enumerate(self.outputs):
            result = self.step().get_as_object(i, self.runtime.HalBufferView)
            view[...] = self.runtime.DeviceArray(self.device, result, implicit_host_transfer=True).to_host()


if __name__ == "__main__":
    library, *arguments = sys.argv[1:]
    words = [b"runner", *map(str.encode, arguments)]
    sys.exit(ctypes.PyDLL(library).main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)))
