import ctypes
import sys

import numpy as np

n = int(sys.argv[2])
x = [np.arange(i + 2, dtype="float32") + 1 for i in range(n)]
y = [np.zeros(i + 2, "float32") for i in range(n)]
code = ctypes.CDLL(sys.argv[1]).many_main(*[ctypes.c_void_p(a.ctypes.data) for a in x + y])
assert code == 0, code
for i in range(n):
    np.testing.assert_array_equal(y[i], x[i] * np.float32(i) + np.arange(i + 2, dtype="float32"))
