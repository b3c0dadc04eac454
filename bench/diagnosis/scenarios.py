"""The scenarios: programs, fault, and correct answers. Accepted kinds are fixed before any answer is seen.

The quiet twin of a scenario is the same without its `guilty` programs, its faulty disk and its limits.
"""

from dataclasses import dataclass, field

from stage import DiskSpec

# Factors of the victims' rates.
LOADS = {"light": 0.6, "medium": 1.0, "heavy": 1.5}
# Victims start late, so that earlier I/O of others does not affect them.
VICTIMS_FROM_S = 3.0
# Files on the disk and their MiB.
FILES = {"data": 64, "archive": 256, "table": 64}


@dataclass(frozen=True)
class Truth:
    """The correct answer. Without kinds there is none: storage is not the cause."""

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
    # Its files are not on the disk but on the device that the layout adds.
    elsewhere: bool = False


@dataclass(frozen=True)
class Scenario:
    """One scenario; `faults` are options of the disk, and `limits` those of the control group, that the twin lacks.

    `layout` is the device beside the disk (stage.py): a second one, its mirror, or a guest in a file on it. Of a mirror the
    second disk has the faults and is the correct device.
    """

    name: str
    truth: Truth
    actors: tuple[Actor, ...]
    disk: DiskSpec = field(default_factory=DiskSpec)
    faults: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    file_system: str = "ext4"
    files: dict[str, int] = field(default_factory=lambda: FILES)
    mount: str = "defaults"
    layout: str = "alone"
    # About 1 % of all I/Os are lost: the recorder is stopped while another device fills its rings.
    losses: bool = False


def truth(culprits: str, victims: str, kinds: str) -> Truth:
    """Names separated by blanks."""
    return Truth(frozenset(culprits.split()), frozenset(victims.split()), frozenset(kinds.split()))


def guilty(name: str, role: str, file: str, *, elsewhere: bool = False, **options: object) -> Actor:
    """The program that is the fault, for some seconds in the middle of the run."""
    return Actor(name, role, {"file": file, "from": 5, "to": 12} | options, guilty=True, elsewhere=elsewhere)


def shop(
    rate: float = 60,
    *,
    group: bool = False,
    elsewhere: bool = False,
    wrong: dict[str, object] | None = None,
    **options: object,
) -> Actor:
    """A latency-sensitive program that reads small blocks at random; `wrong`: options that its twin lacks."""
    wrong = wrong or {}
    options = {"file": "data", "op": "read", "rate": rate} | options | wrong
    return Actor("shop", "requests", options, group=group, calm=dict.fromkeys(wrong, 0), elsewhere=elsewhere)


# Transfers more bytes than any culprit, before any victim can be affected.
LOADER = Actor("loader", "scan", {"file": "archive", "from": 0, "to": 2.5})
# Does more I/Os than any culprit, before any victim can be affected.
POLLER = Actor("poller", "scan", {"file": "archive", "from": 0, "to": 2.5, "bytes": 4096, "depth": 2})
# Writes blocks in place and waits until each is durable.
LEDGER = Actor("ledger", "requests", {"file": "table", "op": "overwrite", "rate": 20})
# Does a little I/O all the time.
INDEXER = Actor("indexer", "scan", {"file": "archive", "bytes": 65536, "mib_per_s": 1})

SCENARIOS = (
    Scenario(
        "writeback",
        truth("dbwriter", "shop", "writeback-flush"),
        (shop(), LOADER, guilty("dbwriter", "flush", "table", mib=40, every=2)),
    ),
    Scenario(
        "backup",
        truth("backup", "shop", "sequential-scan"),
        (shop(40), POLLER, guilty("backup", "scan", "archive", depth=3)),
    ),
    Scenario(
        "fsync-storm",
        truth("logger", "shop", "fsync-storm journal"),
        (shop(), LOADER, guilty("logger", "syncs", "log", threads=6)),
        DiskSpec(options=("--flush-us", "10000")),
    ),
    # Writes are fast until a sync of any program flushes the data of all of them from the disk's cache.
    Scenario(
        "write-cache",
        truth("importer", "mailer", "bulk-writes"),
        (
            Actor("mailer", "requests", {"file": "mail", "op": "append", "rate": 12, "workers": 8}),
            LOADER,
            guilty("importer", "scan", "table", mode="write", mib_per_s=20),
        ),
        DiskSpec(options=("--cache-mb-per-s", "60")),
    ),
    Scenario("cgroup-limit", truth("", "shop", "held rate-limit"), (shop(70, group=True), LOADER), limits={"read_iops": 55}),
    # Reads through the page cache a file that fits into memory, but not into its control group's limit.
    Scenario(
        "memory-limit",
        truth("", "shop", "cache-misses"),
        (shop(group=True, op="cached", bytes=65536, workers=6), LOADER),
        limits={"memory": 24 << 20},
        files=FILES | {"data": 36},
    ),
    Scenario(
        "hiccup",
        truth("", "shop", "device-pause"),
        (shop(100), LOADER, INDEXER),
        faults=("--pause", "5.5+0.7", "--pause", "9.1+0.5"),
    ),
    Scenario(
        "two-culprits",
        truth("backup importer", "shop", "sequential-scan bulk-writes"),
        (shop(40), POLLER, guilty("backup", "scan", "archive"), guilty("importer", "scan", "table", mode="write")),
    ),
    Scenario(
        "two-victims",
        truth("backup", "shop mailer", "sequential-scan"),
        (
            shop(30),
            Actor("mailer", "requests", {"file": "mail", "op": "append", "rate": 15, "workers": 8}),
            POLLER,
            guilty("backup", "scan", "archive", depth=3),
        ),
    ),
    Scenario(
        "own-queue",
        truth("", "analytics", "own-queue"),
        (Actor("analytics", "scan", {"file": "data", "bytes": 65536, "random": 1, "depth": 24}, calm={"depth": 1}), LOADER),
        DiskSpec(base_us=3000),
    ),
    Scenario(
        "own-flush",
        truth("engine", "engine", "writeback-flush"),
        (Actor("engine", "engine", {"file": "data", "rate": 60, "mib": 40}, calm={"mib": 0}), LOADER),
    ),
    Scenario("iops-cap", truth("", "shop", "rate-limit"), (shop(110), LOADER), faults=("--limit", "60")),
    Scenario("credit", truth("", "shop", "rate-limit"), (shop(110),), faults=("--limit", "40", "--credit", "200")),
    Scenario("slow-io", truth("", "shop", "slow-io"), (shop(40), LOADER), DiskSpec(channels=4), faults=("--slow", "7+1.5")),
    Scenario(
        "discards",
        truth("cleaner", "shop", "discard"),
        (shop(), LOADER, guilty("cleaner", "trim", "")),
        DiskSpec(options=("--discard-us", "30000")),
        files=FILES | {f"old-{n:03}": 1 for n in range(120)},
    ),
    Scenario(
        "small-writes",
        truth("ledger", "shop", "small-writes fsync-storm"),
        (shop(), LOADER, guilty("ledger", "syncs", "table", direct=1, threads=8)),
        DiskSpec(base_us=1000),
    ),
    Scenario(
        "journal",
        truth("builder", "shop", "journal"),
        (shop(), LOADER, guilty("builder", "flush", "new", mib=12, every=1.2)),
        mount="data=journal",
    ),
    Scenario(
        "copies",
        truth("copier", "shop", "writeback-flush compaction sequential-scan"),
        (shop(40), POLLER, guilty("copier", "copy", "archive")),
    ),
    Scenario(
        "random-reads",
        truth("crawler", "shop", "random-reads"),
        (shop(), LOADER, guilty("crawler", "scan", "archive", bytes=4096, random=1, depth=8)),
        DiskSpec(base_us=1000),
    ),
    Scenario(
        "bulk-writes",
        truth("importer", "shop", "bulk-writes"),
        (shop(40), POLLER, guilty("importer", "scan", "table", mode="write", depth=3)),
    ),
    Scenario(
        "compaction",
        truth("merger", "shop", "compaction"),
        (shop(40), POLLER, guilty("merger", "scan", "table", mode="mix", depth=2)),
    ),
    Scenario(
        "xfs-backup",
        truth("backup", "shop", "sequential-scan"),
        (shop(40), POLLER, guilty("backup", "scan", "archive", depth=3)),
        file_system="xfs",
    ),
    Scenario(
        "late-commits",
        truth("backup", "ledger", "sequential-scan"),
        (LEDGER, POLLER, guilty("backup", "scan", "archive", depth=3)),
    ),
    Scenario(
        "two-flushers",
        truth("dbwriter logwriter", "shop", "writeback-flush"),
        (
            shop(40),
            LOADER,
            guilty("dbwriter", "flush", "table", mib=24, every=1.5),
            guilty("logwriter", "flush", "log", mib=24, every=1.5),
        ),
    ),
    Scenario(
        "flush-hurts-two",
        truth("dbwriter", "shop ledger", "writeback-flush"),
        (shop(30), LEDGER, LOADER, guilty("dbwriter", "flush", "new", mib=40, every=2)),
    ),
    Scenario(
        "two-of-each",
        truth("backup exporter", "shop ledger", "sequential-scan"),
        (shop(25), LEDGER, POLLER, guilty("backup", "scan", "archive"), guilty("exporter", "scan", "data")),
    ),
    Scenario(
        "guest",
        truth("backup", "shop", "sequential-scan"),
        (shop(30, elsewhere=True), POLLER, guilty("backup", "scan", "archive", depth=3)),
        layout="guest",
    ),
    Scenario(
        "losses",
        truth("backup", "shop", "sequential-scan"),
        (shop(40), LOADER, guilty("backup", "scan", "archive", depth=3)),
        losses=True,
    ),
    Scenario(
        "slow-member",
        truth("", "shop", "slow-member"),
        (shop(60),),
        DiskSpec(base_us=500, channels=4),
        faults=("--degraded-us", "20000"),
        file_system="btrfs",
        layout="mirror",
    ),
    # Storage is not the cause: the program's own code, its own pace, a lock, the CPUs, a stopped process.
    Scenario("slow-code", truth("", "shop", ""), (shop(80, workers=1, wrong={"compute_ms": 6}), LOADER, INDEXER)),
    Scenario("own-pace", truth("", "shop", ""), (shop(80, wrong={"tick_ms": 50}), LOADER, INDEXER)),
    Scenario("lock", truth("", "shop", ""), (shop(50, wrong={"peer_ms": 18}), LOADER, INDEXER)),
    Scenario("cpu-hogs", truth("", "shop", ""), (shop(60, nice=0), LOADER, guilty("cruncher", "burn", "", threads=8))),
    Scenario(
        "other-disk",
        truth("", "shop", ""),
        (shop(60, wrong={"compute_ms": 8}, workers=1), LOADER, guilty("backup", "scan", "archive", elsewhere=True)),
        layout="beside",
    ),
    # The readahead of a player is late, but completes before the player needs the data.
    Scenario(
        "read-ahead",
        truth("", "shop", ""),
        (
            shop(60, wrong={"compute_ms": 8}, workers=1, elsewhere=True),
            Actor("player", "play", {"file": "data", "mib_per_s": 2}),
            LOADER,
            guilty("backup", "scan", "archive"),
        ),
        layout="beside",
    ),
    Scenario("stopped", truth("", "shop", ""), (shop(60, wrong={"stops": "5 8 11"}), LOADER)),
)
