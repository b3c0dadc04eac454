"""The scenarios: what runs, what is wrong, and which answers are right. Accepted kinds are fixed before any answer is seen.

The quiet twin of a scenario is the same without its `guilty` programs, its faulty disk and its limits.
"""

from dataclasses import dataclass, field

from stage import DiskSpec

# What the victims' rates are multiplied by.
LOADS = {"light": 0.6, "medium": 1.0, "heavy": 1.5}
# Victims begin late, so that what others did before does not hurt them.
VICTIMS_FROM_S = 3.0


@dataclass(frozen=True)
class Truth:
    """The right answer. Without kinds there is none to give: storage is innocent."""

    culprits: frozenset[str]
    victims: frozenset[str]
    kinds: frozenset[str]


@dataclass(frozen=True)
class Actor:
    """A program of a scenario: a role of load.py and its options. A `guilty` one is absent from the twin."""

    name: str
    role: str
    options: dict[str, object] = field(default_factory=dict)
    guilty: bool = False
    group: bool = False
    # Options that differ in the twin, where the culprit is the victim itself.
    calm: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """One scenario; `faults` are options of the disk, and `limits` those of the control group, that the twin lacks."""

    name: str
    truth: Truth
    actors: tuple[Actor, ...]
    disk: DiskSpec = field(default_factory=DiskSpec)
    faults: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    file_system: str = "ext4"
    files: dict[str, int] = field(default_factory=lambda: {"data": 64, "archive": 256})
    record: tuple[str, ...] = ()


def truth(culprits: str, victims: str, kinds: str) -> Truth:
    """Names separated by blanks."""
    return Truth(frozenset(culprits.split()), frozenset(victims.split()), frozenset(kinds.split()))


def shop(rate: float = 60, *, group: bool = False, **more: object) -> Actor:
    """A program that reads small blocks at random and must answer at once."""
    return Actor("shop", "requests", {"file": "data", "op": "read", "rate": rate, **more}, group=group)


# Moves more bytes than any culprit, before anybody can be hurt.
LOADER = Actor("loader", "scan", {"file": "archive", "from": 0, "to": 2.5})
# Makes more I/Os than any culprit, before anybody can be hurt.
POLLER = Actor("poller", "scan", {"file": "archive", "from": 0, "to": 2.5, "bytes": 4096, "depth": 2})

SCENARIOS = (
    Scenario(
        "writeback",
        truth("dbwriter", "shop", "writeback-flush"),
        (shop(), LOADER, Actor("dbwriter", "flush", {"file": "table", "mib": 40, "every": 2.5}, guilty=True)),
    ),
    Scenario(
        "backup",
        truth("backup", "shop", "sequential-scan"),
        (shop(40), POLLER, Actor("backup", "scan", {"file": "archive", "from": 5, "to": 11, "depth": 3}, guilty=True)),
    ),
    Scenario(
        "fsync-storm",
        truth("logger", "shop", "fsync-storm journal"),
        (shop(), LOADER, Actor("logger", "syncs", {"file": "log", "threads": 6, "from": 5}, guilty=True)),
        DiskSpec(options=("--flush-us", "6000")),
    ),
    Scenario(
        "cgroup-limit",
        truth("", "shop", "held rate-limit"),
        (shop(70, group=True), LOADER),
        limits={"read_iops": 55},
    ),
    Scenario(
        "hiccup",
        truth("", "shop", "device-pause"),
        (shop(100), LOADER, Actor("indexer", "scan", {"file": "archive", "bytes": 65536, "mib_per_s": 1})),
        faults=("--pause", "5.5+0.7", "--pause", "9.1+0.5"),
    ),
    Scenario(
        "slow-code",
        truth("", "shop", ""),
        (
            Actor(
                "shop",
                "requests",
                {"file": "data", "rate": 80, "compute_ms": 10, "workers": 1},
                calm={"compute_ms": 1},
            ),
            LOADER,
            Actor("indexer", "scan", {"file": "archive", "bytes": 65536, "mib_per_s": 1}),
        ),
    ),
)
