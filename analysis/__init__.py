"""From recordings and published tables to tidy tables, fits and figures; knows no device."""
