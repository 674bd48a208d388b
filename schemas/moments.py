"""Moments in UTC, as files write them."""

from datetime import UTC, datetime


def parse_moment(text: str) -> datetime:
    """ISO 8601 text in UTC: a date is its first second, a time without a zone is taken for UTC.

    Raises ``ValueError``.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is out of range in UTC") from error


def as_text(moment: datetime) -> str:
    """One spelling for all, to the second, so that text sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
