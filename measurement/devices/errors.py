"""Errors of a cell, which end the measurement of this cell only."""


class CellError(Exception):
    """A cell failed; the recording stores the message as the reason."""


class DeviceError(CellError):
    """A cell failed and may have broken the context: the device must be reopened."""
