"""Computing tables, fits and figures from recordings and published tables; needs no device."""
