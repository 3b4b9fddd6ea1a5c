"""Text files as people save them: UTF-8 with or without a byte order mark, any line end."""

import re
from pathlib import Path

from pipeline.errors import AssayError

LINE_END = re.compile(rb"\r\n|\r|\n")


def read_text(path: Path, key: str) -> str:
    """Return a UTF-8 file's text, without its byte order mark and with its line ends as they are.

    `key` is the setting that names the file. Raises AssayError for a file that is missing or a folder,
    and for one in another encoding, naming the first line that is not UTF-8.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise AssayError(f"{path} {what}; set {key} to a text file")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AssayError(_encoding_message(path, data, error.start)) from None
    if "\0" in text:
        raise AssayError(f"{path} holds a NUL byte, so it is not UTF-8 text; save it as 'CSV UTF-8'")
    return text


def _encoding_message(path: Path, data: bytes, start: int) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{path} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    line = len(LINE_END.findall(data[:start])) + 1
    return (
        f"{path}, line {line}: byte 0x{data[start]:02x} is not UTF-8. If the file comes from a spreadsheet, "
        "save it as 'CSV UTF-8' or convert it: iconv -f WINDOWS-1252 -t UTF-8"
    )
