"""Tables as aligned text for a terminal."""

import pandas as pd

MISSING = "-"


def aligned(rows: pd.DataFrame) -> str:
    """Return a table of text in columns under their names; no line ends in a space."""
    columns = [[str(name), *map(str, rows[name])] for name in rows]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*columns, strict=True)
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"
