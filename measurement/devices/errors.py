"""Errors of a cell, which end the measurement of this cell only."""


class CellError(Exception):
    """An error that ends only this cell; the recording stores the message as the reason."""


class DeviceError(CellError):
    """An error of a cell that may have broken the context, so the device must be reopened."""
