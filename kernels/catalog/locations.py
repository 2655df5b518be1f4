"""Locations of the data: where A and B are before an end-to-end run, and C after it.

Each is declared here once. The recorder runs it (`measurement.devices.placement`), and its copies
give the floor of its times.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A location of the data.

    `memory` is the kind of host memory: ``pinned``, ``pageable``, ``aligned`` (pageable, beginning
    at a page) or ``managed``. `copied_in` names the matrices that a run moves to the GPU; the
    others are there before. With `copies_out` a run moves C to the host. `registered`: a run pins
    its memory first and releases it at the end. `prefetched`: a run requests the moves of managed
    memory, instead of waiting for page faults.
    """

    name: str
    title: str
    memory: str
    copied_in: tuple[str, ...] = ("a", "b")
    copies_out: bool = True
    registered: bool = False
    prefetched: bool = False


LOCATIONS = {
    location.name: location
    for location in [
        Location("pinned", "pinned memory", "pinned"),
        Location("pageable", "pageable memory", "pageable"),
        Location("registered", "memory pinned in each run", "aligned", registered=True),
        Location("managed", "managed memory, moved by page faults", "managed"),
        Location("prefetched", "managed memory, prefetched", "managed", prefetched=True),
        Location("a_resident", "A on the GPU, others in pinned memory", "pinned", ("b",)),
        Location(
            "c_stays", "A and B in pinned memory, C stays on the GPU", "pinned", ("a", "b"), False
        ),
        Location("resident", "all on the GPU", "pinned", (), False),
    ]
}


def bounding(name: str) -> list[str]:
    """Return the locations whose runs bound those of a location: it itself, and the pinned ones.

    A run from pinned memory that moves at least the same matrices takes at least as long.
    """
    one = LOCATIONS[name]
    others = [
        other.name
        for other in LOCATIONS.values()
        if one.memory == other.memory == "pinned" and other is not one
        if {*one.copied_in} <= {*other.copied_in} and one.copies_out <= other.copies_out
    ]
    return [name, *others]


# The locations of every variant; a series in the configuration adds others.
HOST_MEMORY = ("pinned", "pageable")
