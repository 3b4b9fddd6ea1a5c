"""Errors of a download, whichever of its libraries the hub's client speaks through."""

CLIENTS = ("httpx", "httpx2", "httpcore", "requests", "urllib3")


def is_of_network(error: BaseException) -> bool:
    """Say whether an error comes of a broken, refused or late connection; not all of them are OSErrors."""
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or not modules.isdisjoint(CLIENTS)
