"""Does iolens name who made whom wait? Real scenarios, each with its quiet twin; the load generators' own times are the truth.

    bench/diagnosis [NAME...] [--load medium] [--seed 1] [--program target/debug/iolens] [--short] [--again] [--table]

Each case is a line of target/diagnosis/results.jsonl. A case that has one is not run again, except with --again. Without names
all scenarios run. The recordings stay in target/diagnosis/recordings. Needs root, FUSE, loop devices and e2fsprogs; scenarios
for which the machine lacks something are skipped with a message.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from judge import Line, Requests, harm_s, is_hurt, judge, table
from scenarios import LOADS, SCENARIOS, VICTIMS_FROM_S, Scenario
from stage import Loads, Stage, StageError, control_group, fill, recording, staged

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = REPOSITORY / "target" / "diagnosis"
LENGTH_S = 14.0
PATIENCE_S = 40.0
PAUSES = {"device-pause", "slow-io"}
SHORT, SHORT_LENGTH_S = ("writeback", "backup", "hiccup", "lock"), 9.0


class Case:
    """A scenario at one load with one seed, run with and without its fault."""

    def __init__(self, scenario: Scenario, load: str, seed: int, program: Path, length_s: float = LENGTH_S) -> None:
        self.scenario, self.load, self.seed, self.program, self.length_s = scenario, load, seed, program, length_s
        self.key = f"{scenario.name}-{load}-{seed}" + ("-short" if length_s < LENGTH_S else "")

    def run(self) -> Line:
        """The line of results."""
        begin = os.getloadavg()[0]
        disturbed, story_report, device = self.play(is_twin=False)
        calm, twin_report, _ = self.play(is_twin=True)
        victims = self.scenario.truth.victims
        return {
            "scenario": self.scenario.name,
            "load": self.load,
            "seed": self.seed,
            "commit": commit(),
            "at": time.strftime("%Y-%m-%d %H:%M"),
            "load_average": round(max(begin, os.getloadavg()[0]), 2),
            "device": device,
            "is_hurt": all(is_hurt(disturbed[name], calm[name]) for name in victims),
            "harm_s": {name: round(harm_s(disturbed[name], calm[name]), 3) for name in victims},
            "harm_in_calls_s": {name: round(harm_s(disturbed[name], calm[name], 2), 3) for name in victims},
            "requests": {name: len(disturbed[name]) for name in victims},
            "mean_ms": {name: [mean_ms(disturbed[name]), mean_ms(calm[name])] for name in victims},
            "lost_ios": story_report["recording"].get("lost_ios"),
            "busiest": busiest(story_report, device),
            "stories": story_report["stories"],
            "findings": shown_findings(story_report),
            "twin_stories": twin_report["stories"],
            "twin_findings": shown_findings(twin_report),
        }

    def play(self, *, is_twin: bool) -> tuple[dict[str, Requests], Line, str]:
        """One run: the requests of each program, the report, and the device."""
        scenario = self.scenario
        target = TARGET / "recordings" / (self.key + ("-twin" if is_twin else ""))
        target.parent.mkdir(parents=True, exist_ok=True)
        faults = () if is_twin else scenario.faults
        with ExitStack() as stack:
            stage = stack.enter_context(staged(scenario.disk, faults, scenario.file_system, scenario.mount, scenario.layout))
            for directory in {stage.directory, stage.elsewhere}:
                for name, mib in scenario.files.items():
                    # A guest is small.
                    is_needed = directory == stage.directory or scenario.layout != "guest" or name == "data"
                    if is_needed:
                        fill(directory / name, mib)
            # The correct device: of a mirror, the disk with the faults.
            disk = stage.disks[-1 if scenario.layout == "mirror" else 0]
            groups = stack.enter_context(control_group(scenario.name, disk, {} if is_twin else scenario.limits))
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            with recording(self.program, target, stage.devices, losses=scenario.losses):
                requests = self.loads(stage, groups, logs, is_twin=is_twin)
        words = [str(self.program), "report", str(target), "--json"]
        report = subprocess.run(words, check=True, capture_output=True, text=True)
        return requests, json.loads(report.stdout), disk.name

    def loads(self, stage: Stage, groups: list[Path], logs: Path, *, is_twin: bool) -> dict[str, Requests]:
        """Start all programs and wait for them."""
        scenario = self.scenario
        # The time that Python takes to start on a busy machine.
        loads = Loads(time.monotonic() + 2.0, logs)
        for n, actor in enumerate(scenario.actors):
            if is_twin and actor.guilty:
                continue
            options: Line = {"from": VICTIMS_FROM_S, "to": self.length_s, "seed": 100 * self.seed + n}
            options |= actor.options | (actor.calm if is_twin else {})
            options["to"] = min(options["to"], self.length_s)
            directory = stage.elsewhere if actor.elsewhere else stage.directory
            options["file"] = directory / str(options["file"])
            if actor.name in scenario.truth.victims and "rate" in options:
                options["rate"] = float(options["rate"]) * LOADS[self.load]
            loads.start(actor.name, actor.role, options, groups if actor.group else [])
        time.sleep(max(loads.begin - time.monotonic(), 0))
        stage.start()
        requests = loads.finish(self.length_s + PATIENCE_S)
        stage.stop()
        return requests


def shown_findings(report: Line) -> list[Line]:
    """Findings outside stories, and their severities."""
    return [{key: finding[key] for key in ("kind", "severity", "device")} for finding in report["findings"]]


def mean_ms(requests: Requests) -> float:
    """Mean latency."""
    return round(1e3 * sum(took for _, took, _ in requests) / max(len(requests), 1), 3)


def busiest(report: Line, device: str) -> dict[str, list[str]]:
    """Programs on the device with most bytes, I/Os and I/O time, sorted."""
    sums: dict[str, dict[str, float]] = {"bytes": {}, "ios": {}, "time": {}}
    for actor in report["actors"]:
        if actor["device"] == device and actor["process"]:
            for key, column in (("bytes", "bytes"), ("ios", "ios"), ("time", "io_time_s")):
                of_key = sums[key]
                of_key[actor["process"]] = of_key.get(actor["process"], 0.0) + actor[column]
    return {key: sorted(of_key, key=lambda name: -of_key[name]) for key, of_key in sums.items()}


def commit() -> str:
    """The source version of the program, as far as the repository shows it."""
    words = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude=*"]
    return str(subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip())


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios: " + ", ".join(names))
    parser.add_argument("--load", nargs="+", choices=[*LOADS], default=["medium"])
    parser.add_argument("--seed", nargs="+", type=int, default=[1])
    parser.add_argument("--program", type=Path, default=REPOSITORY / "target" / "debug" / "iolens")
    parser.add_argument("--short", action="store_true", help="few scenarios, half a minute; the exit code says (make test)")
    parser.add_argument("--again", action="store_true", help="run cases that have a result, too")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table")
    parser.add_argument("--results", type=Path, default=TARGET / "results.jsonl")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(names)
    if unknown:
        parser.error(f"no scenario is named {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if not chosen.program.exists() and not chosen.table:
        parser.error(f"{chosen.program} does not exist: build it, or name another with --program")
    return chosen


def results(path: Path) -> dict[tuple[str, str, int], Line]:
    """Lines by case; the last line of each case."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["scenario"], line["load"], line["seed"]): line for line in lines}


def short(program: Path) -> int:
    """A few scenarios in parallel: no wrong program is named, and at most one of the affected ones is not explained."""
    scenarios = {scenario.name: scenario for scenario in SCENARIOS if scenario.name in SHORT}
    cases = [Case(scenario, "medium", 1, program, SHORT_LENGTH_S) for scenario in scenarios.values()]
    try:
        with ThreadPoolExecutor(len(cases)) as threads:
            lines = list(threads.map(Case.run, cases))
    except StageError as error:
        print(f"SKIP: {error}")
        return 0
    print(table(lines, scenarios))
    verdicts = [judge(line, scenarios[line["scenario"]]) for line in lines]
    hurt = [v for v in verdicts if v.is_positive and not v.is_innocent]
    missed = [v.scenario for v in hurt if v.at_3 < 1]
    wrong = []
    for line, verdict in zip(lines, verdicts, strict=True):
        # On a busy machine the disk, which is a process, may really have paused; such a finding names no program.
        stories = [story for story in line["stories"] if story["culprits"] or story["kind"] not in PAUSES]
        is_blamed_in_vain = verdict.is_innocent and verdict.is_positive and stories
        if verdict.is_wrong_named or line["twin_stories"] or is_blamed_in_vain:
            wrong.append(verdict.scenario)
    print(f"{len(hurt)} hurt; not explained: {missed}; wrongly explained: {wrong}")
    return int(bool(wrong) or len(missed) > 1)


def main() -> None:
    """Run the selected cases and print the table."""
    chosen = arguments()
    # Everything that was started is stopped, however this ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit("ended by a signal"))
    if chosen.short:
        sys.exit(short(chosen.program))
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    scenarios = {s.name: s for s in SCENARIOS if not chosen.names or s.name in chosen.names}
    done = results(chosen.results)
    wanted = [(s, load, seed) for load in chosen.load for seed in chosen.seed for s in scenarios.values()]
    for scenario, load, seed in wanted:
        if chosen.table or ((scenario.name, load, seed) in done and not chosen.again):
            continue
        case = Case(scenario, load, seed, chosen.program)
        try:
            line = case.run()
        except StageError as error:
            print(f"SKIP: {case.key}: {error}", flush=True)
            continue
        done[scenario.name, load, seed] = line
        with chosen.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        hurt = "positive" if line["is_hurt"] else "NOT positive"
        print(f"{case.key}: {hurt}, {line['harm_s']}, mean ms {line['mean_ms']}, load {line['load_average']}", flush=True)
    lines = [done[s.name, load, seed] for s, load, seed in wanted if (s.name, load, seed) in done]
    if not lines:
        sys.exit("no results")
    print("\n" + table(lines, scenarios))


main()
