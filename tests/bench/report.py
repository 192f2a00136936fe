"""The results as tables (Markdown) and as a plot (SVG).

    report.py DIR            writes DIR/report.md and DIR/rows.svg from DIR/rows.tsv and DIR/costs.tsv
    report.py DIR --store    and stores them beside this file: README.md and rows.svg
"""
import glob
import math
import os
import shutil
import sys
import time

COLUMNS = ("row", "group", "peer", "ms", "state", "first_ms", "difference", "failure",
           "multiply_adds", "bytes")
OURS = "relaxc"
PEERS = ("relaxc", "relaxc-native", "onnxruntime", "openvino", "onednn", "openblas", "iree", "tvm", "onednn-blocked")
APART = ("relaxc-native", "onednn-blocked")  # not among those that ours is compared with
GROUPS = {"overhead": "Call overhead", "mlp": "Dense networks", "gemm": "Matrix products",
          "dyn": "Symbolic dims: one object for all shapes of a name", "mem": "Bound by memory",
          "conv": "Convolutions of ResNet-50", "dw": "Depthwise convolutions of MobileNetV2",
          "attn": "Attention", "whole": "Whole networks", "real": "Trained networks",
          "int8": "Quantised"}


def tolerance(row):
    """Of the largest value: peers sum in other orders, after which quantised values may differ by a step."""
    return 2e-2 if row.startswith("int8") else 1e-3


def duration(ms):
    """Three digits and a unit."""
    if ms < 1e-3:
        return f"{ms * 1e6:.0f} ns"
    return f"{ms * 1e3:.3g} µs" if ms < 1 else f"{ms:.4g} ms" if ms >= 100 else f"{ms:.3g} ms"


def binary_size(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def save(path, lines):
    """Writes lines as they come, into place when all are there."""
    with open(path + ".new", "w") as f:
        for line in lines:
            print(line, file=f, flush=True)
    os.rename(path + ".new", path)


def brief(output):
    """The runner's lines of a workload, for the terminal."""
    texts = {}
    for line in output.splitlines():
        row, peer, ms, state, _, difference, why = line.split("\t")
        text = f"{peer} {duration(float(ms))}" if ms else f"{peer}: {why[:60]}"
        wrong = ms and float(difference) > tolerance(row)
        text += ("~" if state == "noisy" else "") + (" WRONG" if wrong else "")
        texts.setdefault(row, []).append(text)
    return "; ".join(", ".join(t) for t in texts.values())


class Results:
    """rows.tsv: by group and row, what each peer gave, and the machine's limits."""

    def __init__(self, path):
        self.head, self.bandwidth, self.rows = {}, [], {}
        for line in open(path):
            fields = line.rstrip("\n").split("\t")
            if fields[0] == "# bandwidth":
                self.bandwidth.append((int(fields[1]), float(fields[2])))
            elif fields[0].startswith("# "):
                self.head[fields[0][2:]] = fields[1]
            elif tuple(fields) != COLUMNS:
                entry = dict(zip(COLUMNS, fields))
                self.rows.setdefault(entry["row"], {})[entry["peer"]] = entry
        self.peers = [p for p in PEERS if any(p in entries for entries in self.rows.values())]

    def groups(self):
        """(title, names of its rows), in the order of GROUPS."""
        for group, title in GROUPS.items():
            names = [n for n, e in self.rows.items() if next(iter(e.values()))["group"] == group]
            if names:
                yield title, names

    def ms(self, row, peer):
        text = self.rows[row].get(peer, {}).get("ms")
        return float(text) if text else None

    def wider(self, row, peer):
        """Whether a peer that is held to an instruction set multiplies faster than that can."""
        ms, work = self.ms(row, peer), self.rows[row].get(peer, {}).get("multiply_adds")
        if self.head["isa"] == "host" or not ms or not work:
            return False
        return ms < 0.95 * int(work) / float(self.head["peak"]) * 1e-6

    def best(self, row):
        """The least time of another compiler or library."""
        others = [p for p in self.peers if p != OURS and p not in APART and not self.wider(row, p)]
        return min((t for t in (self.ms(row, p) for p in others) if t), default=None)

    def limit(self, row):
        """The least time that arithmetic and memory allow, in ms: multiply-adds at the peak, or every
        input, weight and output moved once at the bandwidth measured over as much, or less, memory.
        None where the work is not known."""
        entry = next(iter(self.rows[row].values()))
        if not entry["bytes"]:
            return None
        size = int(entry["bytes"])
        speed = [s for b, s in self.bandwidth if b <= size or b == self.bandwidth[0][0]][-1]
        return max(int(entry["multiply_adds"]) / float(self.head["peak"]), size / speed) * 1e-6

    def cell(self, row, peer, best):
        entry = self.rows[row].get(peer)
        if not entry:
            return ""
        if not entry["ms"]:
            return "failed"
        text = duration(float(entry["ms"]))
        if float(entry["ms"]) == best:
            text = f"**{text}**"
        text += "~" if entry["state"] == "noisy" else ""
        text += "w" if self.wider(row, peer) else ""
        return text + ("!" if float(entry["difference"]) > tolerance(row) else "")


# --- tables ----------------------------------------------------------------------------------------------
def row_table(r, names):
    peers = [p for p in r.peers if any(p in r.rows[row] for row in names)]
    lines = ["| row | " + " | ".join(peers) + " | ours / best peer | limit / ours |",
             "| --- |" + " ---: |" * (len(peers) + 2)]
    for row in names:
        best, ours = r.best(row), r.ms(row, OURS)
        least = min((t for t in (best, ours) if t), default=None)
        cells = [r.cell(row, p, least) for p in peers]
        cells.append(f"{ours / best:.2f}" if ours and best else "")
        cells.append(f"{100 * r.limit(row) / ours:.0f} %" if ours and r.limit(row) else "")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines + [""]


def row_tables(r):
    lines = [f"CPU: {r.head['cpu']}, {r.head['threads']} thread(s). {r.head['versions']}.", "",
             f"One core: {float(r.head['peak']):.0f} x 10^9 multiply-adds per second; GB/s by size: "
             + ", ".join(f"{binary_size(size)} {speed:.0f}" for size, speed in r.bandwidth) + ".", "",
             "![Times relative to the best peer's](rows.svg)", ""]
    for title, names in r.groups():
        lines += [f"### {title}", "", *row_table(r, names)]
    return lines


def isa_table(r):
    """Rows of all groups with everyone held to an instruction set."""
    names = [name for _, names in r.groups() for name in names]
    return [f"### {r.head['isa'].upper()}", "",
            f"Peak of one core with these instructions: {float(r.head['peak']):.0f} x 10^9 multiply-adds per second. "
            "`w`: faster than that peak, so with wider instructions, whatever it was told; not compared.",
            "", *row_table(r, names)]


def threads_table(r, one):
    """Rows timed with several threads; `one`: the results with one thread, or None."""
    lines = [f"### {r.head['threads']} threads", "",
             "| row | " + " | ".join(r.peers) + " | ours / best peer | ours: × one thread |",
             "| --- |" + " ---: |" * (len(r.peers) + 2)]
    for row in r.rows:
        best, ours = r.best(row), r.ms(row, OURS)
        least = min((t for t in (best, ours) if t), default=None)
        alone = one.ms(row, OURS) if one and row in one.rows else None
        lines.append(f"| {row} | " + " | ".join(r.cell(row, p, least) for p in r.peers)
                     + f" | {f'{ours / best:.2f}' if ours and best else ''} |"
                     + f" {f'{alone / ours:.2f}' if ours and alone else ''} |")
    return lines + [""]


def symbolic_table(path):
    """One object for all sizes against one for a single size, at that size."""
    table = {}
    for line in list(open(path))[1:]:
        row, variant, symbolic, static, _ = line.rstrip("\n").split("\t")
        table.setdefault(row, {})[variant] = float(symbolic), float(static)
    if not table:
        return []
    names = list(next(iter(table.values())))
    lines = ["### Symbolic against static", "",
             "| row | " + " | ".join(f"{n}: symbolic | static | ratio" for n in names) + " |",
             "| --- |" + " ---: |" * (3 * len(names))]
    for row, values in table.items():
        cells = [f"{duration(a)} | {duration(b)} | {a / b:.2f}" for a, b in values.values()]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines + [""]


def first_call_table(r):
    """Rows of one workload after its first: a shape that the loaded network has not seen."""
    names = [n for n, e in r.rows.items() if next(iter(e.values()))["group"] == "dyn"]
    peers = [p for p in r.peers if any(r.rows[n].get(p, {}).get("first_ms") for n in names)]
    if not names:
        return []
    lines = ["### First call at a shape (× a later one)", "", "| row | " + " | ".join(peers) + " |",
             "| --- |" + " ---: |" * len(peers)]
    for n in names:
        cells = []
        for p in peers:
            first, ms = r.rows[n].get(p, {}).get("first_ms"), r.ms(n, p)
            cells.append(f"{duration(float(first))} (× {float(first) / ms:.1f})" if first and ms else "")
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return lines + [""]


def cost_tables(path):
    table, columns = {}, {}
    for line in list(open(path))[1:]:
        workload, peer, what, value = line.rstrip("\n").split("\t")
        section = "Start" if what.startswith("start") else "Compiling"
        columns.setdefault(section, {})[what] = True
        table.setdefault(section, {}).setdefault((workload, peer), {})[what] = value
    lines = []
    for section, rows in table.items():
        names = list(columns[section])
        lines += [f"### {section}", "", "| workload | | " + " | ".join(names) + " |",
                  "| --- | --- |" + " ---: |" * len(names)]
        for (workload, peer), values in rows.items():
            if peer != "-":
                lines.append(f"| {workload} | {peer} | " + " | ".join(values.get(n, "") for n in names) + " |")
        lines.append("")
    return lines


# --- plot ------------------------------------------------------------------------------------------------
COLORS = {"relaxc": "#d62728", "relaxc-native": "#ff9896", "onnxruntime": "#1f77b4", "openvino": "#2ca02c",
          "onednn": "#9467bd", "onednn-blocked": "#c5b0d5", "openblas": "#8c564b", "iree": "#17becf", "tvm": "#bcbd22"}
LEFT, WIDTH, STEP, LOW, HIGH = 190, 560, 13, 0.05, 20.0


def position(ratio):
    """x of a ratio on the log axis; what lies beyond an end stands at it."""
    share = math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return round(LEFT + share * WIDTH, 1)


def svg(r):
    """One line per row: times relative to the best peer's on a log axis; grey: below the machine's limit."""
    body, y = [], 72
    for title, names in r.groups():
        y += 8
        body.append(f'<text x="4" y="{y + 4}" font-weight="bold">{title.split(":")[0]}</text>')
        y += STEP
        for row in names:
            best = r.best(row)
            if not best:
                continue
            edge = position((r.limit(row) or 0) / best)
            body.append(f'<rect x="{LEFT}" y="{y - 5}" width="{edge - LEFT:.1f}" height="11" class="l"/>'
                        f'<text x="{LEFT - 6}" y="{y + 4}" class="n">{row}</text>')
            for p in reversed(r.peers):  # ours last, on top
                if r.ms(row, p):
                    body.append(f'<circle cx="{position(r.ms(row, p) / best)}" cy="{y}" r="{4 if p == OURS else 3}" '
                                f'fill="{COLORS.get(p, "#7f7f7f")}"/>')
            y += STEP
    grid = []
    for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20):
        x = position(tick)
        grid.append(f'<line x1="{x}" y1="66" x2="{x}" y2="{y}" class="{"u" if tick == 1 else "g"}"/>'
                    f'<text x="{x}" y="62" text-anchor="middle">{tick:g}</text>')
    legend, x = [], 10
    for p in r.peers:
        legend.append(f'<circle cx="{x}" cy="14" r="4" fill="{COLORS.get(p, "#7f7f7f")}"/>'
                      f'<text x="{x + 8}" y="18">{p}</text>')
        x += 24 + 7 * len(p)
    caption = [f"time / best peer's, {r.head['threads']} thread(s), {r.head['cpu']}",
               f"grey: beyond the limit of {float(r.head['peak']):.0f} x 10^9 multiply-adds per second and of the "
               f"bandwidth ({r.bandwidth[-1][1]:.0f} GB/s from memory)"]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{y + 8}" '
        'font-family="sans-serif" font-size="10">',
        "<style>.l{fill:#e4e4e4}.n{text-anchor:end}.g{stroke:#ccc}.u{stroke:#444}</style>",
        '<rect width="100%" height="100%" fill="white"/>', *legend,
        *(f'<text x="10" y="{34 + 13 * i}">{line}</text>' for i, line in enumerate(caption)),
        *grid, *body, "</svg>"]) + "\n"


def write(folder):
    """Writes report.md and rows.svg from what is there; returns the report."""
    lines, one = [], None
    costs, symbolic = (os.path.join(folder, name) for name in ("costs.tsv", "symbolic.tsv"))
    if os.path.exists(os.path.join(folder, "rows.tsv")):
        one = Results(os.path.join(folder, "rows.tsv"))
        lines += row_tables(one) + first_call_table(one)
        with open(os.path.join(folder, "rows.svg"), "w") as f:
            f.write(svg(one))
    if os.path.exists(symbolic):
        lines += symbolic_table(symbolic)
    for path in sorted(glob.glob(os.path.join(folder, "rows-*.tsv"))):
        other = Results(path)
        lines += threads_table(other, one) if other.head["isa"] == "host" else isa_table(other)
    if os.path.exists(costs):
        lines += cost_tables(costs)
    text = "\n".join(lines)
    with open(os.path.join(folder, "report.md"), "w") as f:
        f.write(text)
    return text


def disagreements(folder):
    """Rows and peers whose results are not those of any other peer."""
    return [f"{row} ({peer})" for path in glob.glob(os.path.join(folder, "rows*.tsv"))
            for row, entries in Results(path).rows.items() for peer, e in entries.items()
            if e["ms"] and float(e["difference"]) > tolerance(row)]


def store(folder):
    """Puts the results of `folder` into README.md, after its last heading, and the plot beside it."""
    here = os.path.dirname(os.path.abspath(__file__))
    readme = os.path.join(here, "README.md")
    with open(readme) as f:
        text = f.read()
    head = text[:text.index("## Results")]
    date = time.strftime("%Y-%m-%d", time.localtime(os.path.getmtime(os.path.join(folder, "rows.tsv"))))
    with open(readme, "w") as f:
        f.write(f"{head}## Results\n\nOf {date}. {write(folder)}".rstrip("\n") + "\n")
    shutil.copy(os.path.join(folder, "rows.svg"), os.path.join(here, "rows.svg"))


if __name__ == "__main__":
    print(write(sys.argv[1]))
    if "--store" in sys.argv:
        store(sys.argv[1])
