"""Whether two .npz files hold the same arrays, up to the rounding of another order of sums."""
import sys
import numpy as np

a, b = np.load(sys.argv[1]), np.load(sys.argv[2])
assert sorted(a.files) == sorted(b.files) and a.files, (a.files, b.files)
for name in a.files:
    x, y = a[name], b[name]
    assert x.shape == y.shape and x.dtype == y.dtype, (name, x.shape, y.shape, x.dtype, y.dtype)
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5, err_msg=name)
