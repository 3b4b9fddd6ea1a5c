"""Times as the platforms write them, read as UTC."""

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Hours from UTC: strptime knows none of these names but UTC, GMT and the machine's own zone.
ZONES = {
    "UTC": 0,
    "GMT": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "AKST": -9,
    "AKDT": -8,
    "HST": -10,
}
CLOCK = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d{2}):(\d{2}):(\d{2}) ([A-Za-z]+) (\d{4})", re.A
)
EPOCH = re.compile(r"\d{9,10}(\.\d+)?|\d{13}", re.A)
MILLISECONDS = 10**11


@lru_cache(maxsize=4096)
def read_time(text: str) -> datetime | None:
    """Return a time in UTC, None for a blank, an unknown zone or another way to write it.

    Read are `Thu Oct 09 07:30:20 PDT 2025`, ISO 8601 (UTC where it names no zone) and seconds or
    milliseconds since 1970.
    """
    text = text.strip()
    try:
        if match := CLOCK.fullmatch(text):
            return _of_clock(match)
        if EPOCH.fullmatch(text):
            seconds = float(text)
            return datetime.fromtimestamp(seconds / 1000 if seconds > MILLISECONDS else seconds, UTC)
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def read_seconds(text: str) -> float:
    """Return a duration in seconds, NaN for anything but a finite number that is not negative."""
    try:
        seconds = float(text)
    except ValueError:
        return math.nan
    return seconds if 0 <= seconds < math.inf else math.nan


def _of_clock(match: re.Match[str]) -> datetime | None:
    month, day, hour, minute, second, zone, year = match.groups()
    if zone.upper() not in ZONES or month not in MONTHS:
        return None
    local = datetime(
        int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC
    )
    return local - timedelta(hours=ZONES[zone.upper()])
