"""Time until the page is painted and the explorer draws: ``python -m benchmarks.page_speed``.

The page is opened in Chromium several times, each time in a new process. The command prints the
median and the largest of three times in seconds. Two are from the start of the navigation, to the
first contentful paint and to the answer of the calculator. The third is from scrolling to the
explorer until its chart exists. The exit status is 1 if a median exceeds its limit.
"""

import argparse
import sys
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

from benchmarks.chromium import find_chromium

_LIMITS_S = {"first paint": 0.6, "explorer": 1.0, "calculator": float("inf")}
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_READY = """selector => new Promise(done => {
  const start = performance.now();
  document.getElementById("explorer").scrollIntoView();
  const wait = () => document.querySelector(selector) ? done(performance.now() - start)
    : requestAnimationFrame(wait);
  wait();
})"""
_CALCULATED = """() => new Promise(done => {
  const wait = () => document.querySelector("[data-ready]") ? done(performance.now())
    : requestAnimationFrame(wait);
  wait();
})"""


def times_s(page: Path) -> dict[str, float]:
    """Return the times of one opening in a new Chromium."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.goto(page.resolve().as_uri(), wait_until="load")
        found = {"calculator": tab.evaluate(_CALCULATED)} if tab.query_selector("form") else {}
        found["first paint"] = tab.evaluate(_PAINT)
        found["explorer"] = tab.evaluate(_READY, "#explorer-chart svg")
        browser.close()
    return {name: milliseconds / 1e3 for name, milliseconds in found.items()}


def main() -> int:
    """Print the times; return 1 if a median exceeds its limit, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, nargs="?", default=Path("results/report.html"))
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args()
    runs = [times_s(asked.page) for _ in range(asked.runs)]
    print(f"size: {asked.page.stat().st_size / 1e6:.2f} MB")
    slow = False
    for name, limit in _LIMITS_S.items():
        known = [run[name] for run in runs if name in run]
        if known:
            slow |= median(known) > limit
            print(f"{name}: {median(known):.2f} s, at most {max(known):.2f} s; limit: {limit} s")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
