"""Does the page's calculator agree with `advise`?

Random inputs are typed into the calculator in Chromium. Its times, parts, speedup and break-even
size must equal those of `advise`, to the printed digit.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.decide import advise
from base.errors import StudyError
from kernels.catalog.baselines import CPU_BASELINES

SEED = 32
_FILL = """([n, products, memory, gpu, baseline]) => {
  const form = document.getElementById("calculator-form");
  const set = (name, value) => {
    form.elements[name].value = value;
    form.elements[name].dispatchEvent(new Event("input", {bubbles: true}));
  };
  set("gpu", gpu); set("memory", memory); set("products", products);
  set("baseline", baseline); set("n", n);
  const text = id => document.getElementById(`calculator-${id}`).textContent;
  return {
    shown: !document.getElementById("calculator-answer").hidden,
    times: [...document.querySelectorAll("#calculator-times li")].map(e => e.textContent),
    parts: document.getElementById("calculator-key").hidden ? []
      : ["h2d", "kernel", "d2h", "overhead"].map(text),
    speedup: text("speedup"), breakEven: text("break-even"), cpu: text("cpu-time"),
    notes: text("notes"),
  };
}"""


def disagreements(page: Any, tables: Path, combinations: int) -> Iterator[str]:
    """Type random inputs into the calculator of an open page; yield what `advise` does not print.

    `page` is a page of Playwright. N is a size of `predicted_times` up to 20,000; half of the runs
    have one product.
    """
    page.wait_for_selector(".calculator[data-ready]")
    options = "select => [...select.options].map(option => option.value)"
    gpus = page.locator("#calculator-form [name=gpu]").evaluate(options)
    rng = random.Random(SEED)
    rows = advise.read_table(tables / "predicted_times.csv")
    sizes = sorted({int(row["n"]) for row in rows if int(row["n"]) <= 20000})
    for _ in range(combinations):
        gpu, memory = rng.choice(gpus), rng.choice(("pinned", "pageable"))
        n = rng.choice(sizes)
        products = rng.choice((1, round(1000 ** rng.random())))
        baseline = rng.choice(list(CPU_BASELINES))
        shown = page.evaluate(_FILL, [n, products, memory, gpu, baseline])
        what = f"{gpu}, {memory}, N = {n}, {products} products, {baseline}"
        try:
            lines = advise.advise(tables, gpu, n, memory, products).splitlines()
        except StudyError as error:
            if shown["shown"]:
                yield f"{what}: {error}"
            continue
        own = next((x for x in lines if x.startswith(CPU_BASELINES[baseline] + "  ")), None)
        if own is None or not shown["shown"]:
            if shown["shown"] or own is not None:
                yield f"{what}: only one side answers: {shown['notes']}"
            continue
        printed = "\n".join(lines)
        names = advise.PARTS.values()
        parts = ", ".join(f"{x} {y}" for x, y in zip(names, shown["parts"], strict=False))
        sought = [*((text, printed) for text in shown["times"]), (parts, printed)]
        # The calculator evaluates curves: between sizes of the table, its break-even sizes differ.
        keys = ("speedup", "breakEven", "cpu") if products == 1 else ("speedup", "cpu")
        sought += [(shown[key], own) for key in keys if "not predicted" not in own]
        yield from (
            f"{what}: {text!r} is not in {there!r}" for text, there in sought if text not in there
        )
        if ("GPU time" in shown["notes"]) != ("note: extrapolated" in printed):
            yield f"{what}: {shown['notes']}"
