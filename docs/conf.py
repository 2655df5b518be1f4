"""Configuration of Sphinx: ``make site`` builds the website from README.md, docs and kernels."""

from typing import Any

project = "gemm-study"
project_copyright = "The gemm-study authors"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "docs/*.md", "docs/**/*.md", "kernels/*.md"]
myst_heading_anchors = 4
html_theme_options = {"description": "Matrix multiplication on GPUs", "page_width": "1100px"}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_show_sphinx = html_show_sourcelink = html_copy_source = False

_CHAPTERS = {
    "Tutorials": "docs/tutorials/*",
    "How-to": "docs/how-to/*",
    "Explanation": "docs/explanation/*",
    "Results": "docs/results/*",
    "Reference": "docs/reference/*",
    "Project": "docs/*\nkernels/*",
}


def _add_contents(_: Any, document: str, source: list[str]) -> None:
    """Append the table of contents to the README on the website; on GitHub it is not needed."""
    if document == root_doc:
        for caption, pages in _CHAPTERS.items():
            options = f":hidden:\n:glob:\n:maxdepth: 1\n:caption: {caption}"
            source[0] += f"\n```{{toctree}}\n{options}\n\n{pages}\n```\n"


def setup(app: Any) -> None:
    """Register the function that adds the table of contents."""
    app.connect("source-read", _add_contents)
