"""A parsed HTML page, for tests of its contents."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page in sequence, and the texts of its scripts; all elements are closed."""

    _VOID = ("input", "meta", "link", "br", "hr", "img", "mspace")

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open[-1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag == "script":
            self.scripts.append("")
        if tag not in self._VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        opened = self._open.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts[-1] += data

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]
