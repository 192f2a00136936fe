# Configuration of the lit tests: a test is one file with "# RUN:" lines.
#
# Substitutions: %relaxc the compiler; %cc a C compiler (with the sanitizers in their build); %rt what
# a C program needs to find relaxrt.h and to link the runtime (last on the line); %include only the
# first half of it, %libdir the folder of librelaxrt.a; %python Debian's Python with NumPy; %FileCheck %not; lit's own %s %S %t; %samples
# and %tests the folders. Environment: BUILD_DIR, SAN set by tests/check.py.
import os
import lit.formats

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build = os.path.abspath(os.environ.get("BUILD_DIR", os.path.join(root, "build")))
san = os.environ.get("SAN") == "1"
llvm = os.environ.get("LLVM_BIN", "/usr/lib/llvm-22/bin")

config.name = "relaxc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".rx", ".test"]
config.excludes = ["unit", "fuzz", "bench", "peers", "Inputs", "models_data"]
config.test_source_root = os.path.join(root, "tests")
config.test_exec_root = os.path.join(build, "tests")

rt_dir = os.path.join(build, "san") if san else build
include = f"-I{root}/runtime"
rt = f"{include} -L{rt_dir} -l:librelaxrt.a -L{build} -lpthreadpool -lpthread -lm"
cc = "gcc -Wall -Werror" + (" -fsanitize=address,undefined -fno-sanitize-recover=undefined" if san else "")
python = os.environ.get("PYTHON", "/usr/bin/python3")

# Longer names first: lit replaces in this order.
for name, value in [
    ("%relaxc", os.path.join(build, "relaxc")),
    ("%include", include),
    ("%libdir", rt_dir),
    ("%rt", rt),
    ("%cc", cc),
    ("%python", python),
    ("%FileCheck", os.path.join(llvm, "FileCheck")),
    ("%not", os.path.join(llvm, "not")),
    ("%llvm", llvm),
    ("%samples", os.path.join(root, "samples")),
    ("%tests", os.path.join(root, "tests")),
    ("%root", root),
    ("%build", build),
]:
    config.substitutions.append((name + r"\b", value))

config.environment["LC_ALL"] = "C.UTF-8"
config.environment["PYTHONPATH"] = os.path.join(root, "tests")
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"
config.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "detect_leaks=0")
config.environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
config.environment["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + os.pathsep + llvm
for name in ("HOME", "TMPDIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

if any(l.startswith("MemAvailable:") and int(l.split()[1]) > 6e6 for l in open("/proc/meminfo")):
    config.available_features.add("memory")
if san:
    config.available_features.add("san")
if os.path.exists("/usr/bin/qemu-x86_64"):
    config.available_features.add("qemu")
if all(os.path.exists("/usr/bin/" + x) for x in ("qemu-aarch64", "aarch64-linux-gnu-gcc")):
    config.available_features.add("aarch64")
try:
    cpu = open("/proc/cpuinfo").read()
except OSError:
    cpu = ""
for feature in ("avx2", "avx512f", "fma"):
    if f" {feature} " in cpu:
        config.available_features.add(feature)
