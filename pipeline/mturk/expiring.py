"""Stop a study: close its HITs, so that no worker can accept them any more."""

from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.mturk.client import MTurk, explained, place_of
from pipeline.mturk.listing import reconcile
from pipeline.mturk.state import one_at_a_time
from pipeline.study.frozen import FrozenStudy


@dataclass(frozen=True)
class Expired:
    """How many HITs were closed, and how many had been closed already."""

    place: str
    n_expired: int
    n_closed: int


def expire(study: FrozenStudy, client: MTurk) -> Expired:
    """Close all HITs of the study that workers could still accept; work begun may be handed in.

    Raises AssayError where MTurk fails; expiring again closes the rest.
    """
    place = place_of(client)
    with one_at_a_time(study):
        now = datetime.now(UTC)
        listed = reconcile(study, client, place).listed
        still_open = [one for one in listed if one.is_open and one.expires > now]
        for one in still_open:
            with explained(f"closing HIT {one.hit.hit_id} (task {one.task_id}); expire again"):
                client.update_expiration_for_hit(HITId=one.hit.hit_id, ExpireAt=now)
    return Expired(place, len(still_open), len(listed) - len(still_open))
