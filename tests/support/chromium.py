"""The Chromium of this host, in which tests open the page."""

import shutil

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return next(filter(None, map(shutil.which, _NAMES)), None)
