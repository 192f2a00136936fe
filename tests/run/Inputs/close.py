"""close.py TOL EXPECTED.npy GOT.npy...: same dtype and shape, values within TOL (absolute and
relative)."""
import sys
import numpy as np

tol = float(sys.argv[1])
want = np.load(sys.argv[2])
for path in sys.argv[3:]:
    got = np.load(path)
    assert got.dtype == want.dtype and got.shape == want.shape, (path, got.dtype, got.shape)
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol, err_msg=path)
print("close")
