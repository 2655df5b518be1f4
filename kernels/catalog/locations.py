"""Locations of the matrices: where A and B are before an end-to-end run, and C after it.

Each location is declared here once. The recorder runs it (`measurement.devices.placement`), and the
time of its copies alone is a floor of its end-to-end times.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """One location of the matrices.

    `memory` is the kind of host memory: ``pinned``, ``pageable``, ``aligned`` (pageable, starting
    at a page boundary) or ``managed``. `copied_in` names the matrices that a run copies to the GPU;
    the others are on the GPU before. If `copies_out` is set, a run copies C to the host.
    `registered`: a run pins the memory first and unpins it at the end. `prefetched`: a run requests
    that managed memory move, instead of waiting for page faults.
    """

    name: str
    title: str
    memory: str
    copied_in: tuple[str, ...] = ("a", "b")
    copies_out: bool = True
    registered: bool = False
    prefetched: bool = False

    @property
    def has_copies(self) -> bool:
        """Whether a run moves any matrix."""
        return self.copies_out or len(self.copied_in) > 0


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
    """Return the locations that give lower bounds: this location, and pinned ones that move less.

    A run from pinned memory that moves a subset of the same matrices takes at most as long.
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
