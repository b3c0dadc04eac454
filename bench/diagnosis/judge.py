"""Compares answers with the truth: the verdict on a result line, and the table of all of them."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from scenarios import Scenario

# A victim is affected if it needs this much more time in total, in seconds and as a share of its time without the culprit.
MIN_HARM_S = 0.3
MIN_HARM_SHARE = 0.3
# Findings that blame no program and no device.
ABOUT_THE_RECORDING = {"lost-events", "util-disagreement"}
BASELINES = ("bytes", "ios", "time")
COLUMNS = (
    "scenario",
    "positive",
    "exact",
    "AC@1",
    "AC@3",
    "wrong named",
    "empty",
    "harm error",
    "false in quiet",
    "first story",
)

Line = dict[str, Any]
# Scheduled start of each request, its latency from then, and the duration of its call.
Requests = list[tuple[float, float, float]]


def harm_s(disturbed: Requests, calm: Requests, column: int = 1) -> float:
    """Time that requests (with column 2: their calls) took longer than the same number would have taken in the twin."""
    if not disturbed or not calm:
        return 0.0
    mean = sum(request[column] for request in calm) / len(calm)
    return sum(request[column] for request in disturbed) - len(disturbed) * mean


def is_hurt(disturbed: Requests, calm: Requests) -> bool:
    """Whether the load generator itself measured that the victim was affected."""
    harm = harm_s(disturbed, calm)
    without = sum(took for _, took, _ in disturbed) - harm
    return harm >= MIN_HARM_S and harm >= MIN_HARM_SHARE * without


@dataclass(frozen=True)
class Answer:
    """One story of a report, the parts that are judged."""

    kind: str
    device: str
    victim: str
    culprits: frozenset[str]
    harm_s: float

    @staticmethod
    def of(story: dict[str, Any]) -> "Answer":
        """The answer of a story of `report --json`."""
        culprits = frozenset(c["process"] or "?" for c in story["culprits"])
        victim = story["victim"]
        # The load generator's calls are I/Os of several classes: an append is writes and a flush.
        harm_s = story["harm"]["seconds"]
        for also in story["also"]:
            if also["process"] == victim["process"]:
                harm_s += also["harm_s"]
        return Answer(story["kind"], story["device"], victim["process"] or "?", culprits, harm_s)

    @staticmethod
    def of_finding(finding: dict[str, Any]) -> "Answer":
        """The answer of a finding outside stories: it has no culprit, and names no victim."""
        return Answer(finding["kind"], finding["device"], "", frozenset(), 0.0)

    def causes(self) -> list[str]:
        """The named culprits: programs, or the kind if there is no program."""
        return sorted(self.culprits) or [self.kind]


@dataclass
class Verdict:
    """The result of one case."""

    scenario: str
    is_positive: bool
    # Programs that should be named; if there are none, the kind is the answer.
    is_exact: bool = False
    at_1: float = 0.0
    at_3: float = 0.0
    is_wrong_named: bool = False
    is_empty: bool = False
    harm_error: float | None = None
    baselines: dict[str, float] | None = None
    # Stories of the twin; of a case in which storage is not the cause, also those of the case itself.
    false_stories: int = 0
    quiet_reports: int = 0
    is_innocent: bool = False
    first: str = ""


def answers_of(line: Line, stories: str, findings: str) -> list[Answer]:
    """The first answers that a reader sees: the stories, then the warnings about the load."""
    warnings = [f for f in line[findings] if f["severity"] != "info" and f["kind"] not in ABOUT_THE_RECORDING]
    return [*map(Answer.of, line[stories]), *map(Answer.of_finding, warnings)]


def right_causes(answers: Iterable[Answer], scenario: Scenario, n: int) -> float:
    """AC@n: share of the true causes among the first `n` that are named."""
    named: list[str] = []
    for answer in answers:
        named += [cause for cause in answer.causes() if cause not in named]
    true = scenario.truth.culprits or scenario.truth.kinds
    expected = len(scenario.truth.culprits) or 1
    found = sum(1 for cause in named[:n] if cause in true)
    return min(found / min(n, expected), 1.0)


def baseline(busiest: list[str], scenario: Scenario) -> float:
    """AC@1 of naming the program that did most I/O, without the victims."""
    others = [name for name in busiest if name not in scenario.truth.victims - scenario.truth.culprits]
    return float(bool(others) and others[0] in scenario.truth.culprits)


def harm_error(answers: list[Answer], line: Line, scenario: Scenario) -> float | None:
    """Relative error of the harm of the first correct story, compared with the intervention."""
    for answer in answers:
        if answer.victim in scenario.truth.victims and answer.culprits == scenario.truth.culprits:
            true = float(line["harm_in_calls_s"][answer.victim])
            return abs(answer.harm_s - true) / true
    return None


def judge(line: Line, scenario: Scenario) -> Verdict:
    """The verdict on a line of results."""
    truth = scenario.truth
    answers = answers_of(line, "stories", "findings")
    verdict = Verdict(scenario.name, line["is_hurt"], is_innocent=not truth.kinds)
    verdict.false_stories, verdict.quiet_reports = int(bool(answers_of(line, "twin_stories", "twin_findings"))), 1
    first = answers[0] if answers else None
    verdict.first = f"{first.kind}: {'+'.join(first.causes())} -> {first.victim}" if first else "(nothing)"
    if verdict.is_innocent:
        if verdict.is_positive:
            verdict.false_stories += int(bool(answers))
            verdict.quiet_reports += 1
        return verdict
    if not verdict.is_positive:
        return verdict
    verdict.is_empty = not answers
    if first:
        is_victim_right = first.victim in truth.victims or not first.victim
        is_place_right = is_victim_right and first.device == line["device"]
        verdict.is_exact = is_place_right and first.culprits == truth.culprits and first.kind in truth.kinds
    verdict.at_1 = right_causes(answers, scenario, 1)
    verdict.at_3 = right_causes(answers, scenario, 3)
    verdict.is_wrong_named = any(answer.culprits - truth.culprits for answer in answers)
    verdict.harm_error = harm_error(answers, line, scenario)
    verdict.baselines = {key: baseline(line["busiest"][key], scenario) for key in BASELINES}
    return verdict


def percent(values: list[float] | list[bool]) -> str:
    """The mean in percent."""
    return f"{100 * sum(values) / len(values):.0f} %" if values else "-"


def table(lines: list[Line], scenarios: dict[str, Scenario]) -> str:
    """The printed output: a row for each scenario, then the sums."""
    verdicts = [judge(line, scenarios[line["scenario"]]) for line in lines if line["scenario"] in scenarios]
    positive = [v for v in verdicts if v.is_positive and not v.is_innocent]
    rows = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for name in scenarios:
        own = [v for v in verdicts if v.scenario == name]
        if own:
            rows.append(row(name, own))
    errors = [v.harm_error for v in positive if v.harm_error is not None]
    quiet, false = sum(v.quiet_reports for v in verdicts), sum(v.false_stories for v in verdicts)
    loads = [line["load_average"] for line in lines]
    named = sum(1 for v in positive if v.is_wrong_named)
    rows += [
        "",
        f"{len(verdicts)} cases, {len(positive)} positive; load average {min(loads):.1f} to {max(loads):.1f}",
        f"joint exact (culprits, victim, kind, device in the first story): {percent([v.is_exact for v in positive])}",
        f"AC@1 {percent([v.at_1 for v in positive])}, AC@3 {percent([v.at_3 for v in positive])}",
        f"wrong culprit named anywhere: {named} of {len(positive)}",
        f"empty answers: {sum(v.is_empty for v in positive)} of {len(positive)}",
        f"false stories: in {false} of {quiet} reports of quiet twins and of cases in which storage is innocent",
        f"median error of the harm: {percent([statistics.median(errors)] if errors else [])} ({len(errors)} cases)",
        "baselines, AC@1: " + ", ".join(f"most {key} {percent(of_baseline(positive, key))}" for key in BASELINES),
    ]
    return "\n".join(rows)


def of_baseline(verdicts: list[Verdict], key: str) -> list[float]:
    """AC@1 of a baseline in each case."""
    return [v.baselines[key] for v in verdicts if v.baselines]


def row(name: str, own: list[Verdict]) -> str:
    """One scenario."""
    judged = [v for v in own if v.is_positive]

    def share(of: Callable[[Verdict], float]) -> str:
        return percent([of(v) for v in judged]) if judged and not own[0].is_innocent else "-"

    errors = [v.harm_error for v in judged if v.harm_error is not None]
    cells = [
        name,
        f"{len(judged)} of {len(own)}",
        share(lambda v: v.is_exact),
        share(lambda v: v.at_1),
        share(lambda v: v.at_3),
        share(lambda v: v.is_wrong_named),
        share(lambda v: v.is_empty),
        percent([statistics.median(errors)] if errors else []),
        f"{sum(v.false_stories for v in own)} of {sum(v.quiet_reports for v in own)}",
        own[-1].first,
    ]
    return "| " + " | ".join(cells) + " |"
