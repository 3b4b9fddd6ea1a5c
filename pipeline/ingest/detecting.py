"""Which format a file has: by what is in it, never by its name."""

from typing import Any

from pipeline.delimited import DELIMITERS, first_record
from pipeline.errors import AssayError
from pipeline.ingest import answers_xml, label_studio, long_table, mturk_csv
from pipeline.ingest.sheets import File, Sheet
from pipeline.ingest.text import decode, load_json

REFUSED = {
    b"PK\x03\x04": "a zip file or a spreadsheet workbook; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet workbook; save the sheet as CSV",
    b"%PDF": "a PDF",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"SQLite format 3": "an SQLite database; export its ratings first",
}
EXPECTED = (
    "expected MTurk or Turkle results (CSV), assignments from boto3 (JSON), a Label Studio export (JSON), "
    "or a table with worker, input_id and rating (CSV, TSV, Parquet)"
)


def read_sheet(file: File) -> Sheet:
    """Return a file's rows; AssayError names what the file seems to be where no format fits."""
    if file.data.startswith(b"PAR1"):
        return long_table.read_parquet(file)
    for magic, what in REFUSED.items():
        if file.data.startswith(magic):
            raise AssayError(f"{file.source}: {what}; {EXPECTED}")
    text = decode(file)
    start = text.lstrip()[:1]
    if not start:
        raise AssayError(f"{file.source} is empty; {EXPECTED}")
    if start == "<":
        raise AssayError(f"{file.source}: an HTML or XML page; {EXPECTED}")
    return _of_json(file, text) if start in "[{" else _of_table(file, text)


def _of_json(file: File, text: str) -> Sheet:
    values = _json_values(file, text)
    if label_studio.fits(values):
        return label_studio.read(values)
    if answers_xml.fits(values):
        return answers_xml.read(values)
    names = sorted(values[0]) if values and isinstance(values[0], dict) else []
    raise AssayError(
        f"{file.source}: JSON of an unknown kind, its first record has "
        f"{', '.join(map(ascii, names[:8])) or 'no names'}; {EXPECTED}"
    )


def _json_values(file: File, text: str) -> list[Any]:
    """Return the elements of a list, or one value, or one value a line."""
    try:
        value = load_json(text)
    except ValueError as error:
        return _json_lines(file, text, error)
    return value if isinstance(value, list) else [value]


def _json_lines(file: File, text: str, whole: ValueError) -> list[Any]:
    values = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            values += [load_json(line)] if line.strip() else []
        except ValueError as error:
            reason = f"line {number}: {error}" if values else str(whole)
            raise AssayError(
                f"{file.source}: JSON that cannot be read ({reason}); export the file again"
            ) from None
    return values


def _of_table(file: File, text: str) -> Sheet:
    headers = [(delimiter, first_record(text, delimiter)) for delimiter in DELIMITERS]
    headers.sort(key=lambda pair: -len(pair[1]))
    for delimiter, header in headers:
        if mturk_csv.fits(header):
            return mturk_csv.read(file, text, delimiter)
        if long_table.fits(header):
            return long_table.read(file, text, delimiter)
        if mturk_csv.fits_headerless(header):
            return mturk_csv.read_headerless(file, text, delimiter)
    shown = ", ".join(ascii(name[:40]) for name in headers[0][1][:8])
    raise AssayError(f"{file.source}: a table of an unknown kind, its first line has {shown}; {EXPECTED}")
