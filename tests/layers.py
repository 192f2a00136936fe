"""Checks that no #include crosses the layers: ir/base < ir < {frontend, passes, codegen}; runtime
stands alone; only the driver (frontend/main, driver, run, link) sees all."""
import os
import re
import sys

MAY = {
    "ir/base": ("ir/base",),
    "ir": ("ir",),
    "frontend": ("ir", "frontend"),
    "passes": ("ir", "passes"),
    "codegen": ("ir", "codegen"),
    "runtime": ("runtime",),
}
# The description of the machine is data that the scheduler asks for.
EXCEPT = {("passes", "codegen/target.h")}
DRIVER = re.compile(r"^frontend/(main|driver|run\w*|link)\.[ch]$")


def layer(path):
    return "ir/base" if path.startswith("ir/base/") else path.split("/")[0]


def below(path, folder):
    return path.startswith(folder + "/")


def main():
    bad = 0
    for top in sys.argv[1:]:
        for folder, _, files in sorted(os.walk(top)):
            for name in sorted(files):
                path = os.path.join(folder, name)
                if not name.endswith((".c", ".h", ".def", ".y", ".re")) or DRIVER.match(path):
                    continue
                with open(path, encoding="utf-8") as f:
                    for number, line in enumerate(f, 1):
                        m = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
                        if not m:
                            continue
                        target = m.group(1)
                        if target.startswith(("llvm-c/", "llvm/")):
                            wrong = layer(path) != "codegen"
                        elif any(below(target, t) for t in ("ir", "frontend", "passes", "codegen", "runtime")):
                            wrong = not any(below(target, t) for t in MAY[layer(path)])
                        else:
                            wrong = False
                        if wrong and (layer(path), target) not in EXCEPT:
                            print(f'{path}:{number}: {layer(path)} must not include "{target}"')
                            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
