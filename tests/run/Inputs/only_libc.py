"""Fails when a name in the given list is not defined by the C library or libm."""
import ctypes
import sys

libs = [ctypes.CDLL("libc.so.6"), ctypes.CDLL("libm.so.6"), ctypes.CDLL("ld-linux-x86-64.so.2")]
bad = [n for n in open(sys.argv[1]).read().split()
       if n != "_GLOBAL_OFFSET_TABLE_" and not any(hasattr(l, n) for l in libs)]
print("undefined outside libc and libm:", bad)
sys.exit(bool(bad))
