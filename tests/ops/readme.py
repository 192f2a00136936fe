"""README's table of operators, made from `relaxc --list-ops`.

    readme.py RELAXC README.md           compares; the exit code is 1 when the table is not current
    readme.py RELAXC README.md --write   writes it
"""
import re
import subprocess
import sys

BEGIN, END = "<!-- operators: made by `make readme` -->\n", "<!-- end of operators -->\n"


def table(relaxc):
    text = subprocess.run([relaxc, "--list-ops"], capture_output=True, text=True, check=True).stdout
    out = ["| operator | dtypes | what |\n", "| --- | --- | --- |\n"]
    for line in text.splitlines():
        m = re.match(r"  (\S+) +(-|[a-z0-9]+(?:, [a-z0-9]+)*)  +(.*)", line)
        if m and not m[1].startswith("relaxc."):
            what = m[3].replace("|", "\\|").replace("*", "\\*")
            out.append(f"| `R.{m[1]}` | {m[2] if m[2] != '-' else ''} | {what} |\n")
        elif line.endswith(":") and line[0] != " ":
            out.append(f"| **{line[:-1]}** | | |\n")
    return "".join(out)


def main(relaxc, readme, *rest):
    with open(readme) as f:
        text = f.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    now = table(relaxc)
    if rest == ("--write",):
        with open(readme, "w") as f:
            f.write(text[:begin] + now + text[end:])
    elif text[begin:end] != now:
        print("README's table of operators is not current; run: make readme")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
