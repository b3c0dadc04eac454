#!/usr/bin/env python3
"""Is the judge right? Run as a program."""

from typing import Any

from judge import Line, judge, table
from scenarios import SCENARIOS

NAMED = {scenario.name: scenario for scenario in SCENARIOS}


def story(kind: str, victim: str, *culprits: str, seconds: float = 2.0) -> dict[str, Any]:
    """A story as far as it is judged."""
    named = [{"process": culprit} for culprit in culprits]
    harm = {"seconds": seconds}
    return {"kind": kind, "device": "d", "victim": {"process": victim}, "culprits": named, "harm": harm, "also": []}


def line(scenario: str, *stories: dict[str, Any], hurt: bool = True) -> Line:
    """A result with these stories and a silent twin."""
    busiest = {"bytes": ["loader", "backup"], "ios": ["shop", "backup"], "time": ["shop", "x"]}
    more = {"is_hurt": hurt, "harm_in_calls_s": {"shop": 2.5}, "busiest": busiest, "load_average": 1.0}
    silent = {"findings": [], "twin_stories": [], "twin_findings": []}
    return {"scenario": scenario, "device": "d", "stories": list(stories), **more, **silent}


def test_a_right_answer() -> None:
    """All right, the harm 20 % too small."""
    verdict = judge(line("backup", story("sequential-scan", "shop", "backup")), NAMED["backup"])
    assert (verdict.is_exact, verdict.at_1, verdict.is_wrong_named) == (True, 1.0, False)
    assert round(verdict.harm_error or 0, 6) == 0.2
    assert verdict.baselines == {"bytes": 0.0, "ios": 1.0, "time": 0.0}


def test_the_harm_is_that_of_all_classes_of_the_victim() -> None:
    """Another victim's is not counted."""
    flushes = story("bulk-writes", "shop", "backup", seconds=1.5)
    flushes["also"] = [{"process": "shop", "harm_s": 1.0}, {"process": "mailer", "harm_s": 4.0}]
    assert judge(line("backup", flushes), NAMED["backup"]).harm_error == 0


def test_a_wrong_program_a_wrong_kind_and_silence() -> None:
    """Each is distinguished from the others."""
    stories = story("sequential-scan", "shop", "loader"), story("sequential-scan", "shop", "backup")
    wrong = judge(line("backup", *stories), NAMED["backup"])
    assert (wrong.is_exact, wrong.at_1, wrong.at_3, wrong.is_wrong_named) == (False, 0.0, 1.0, True)
    kind = judge(line("backup", story("journal", "shop", "backup")), NAMED["backup"])
    assert (kind.is_exact, kind.at_1) == (False, 1.0)
    assert judge(line("backup"), NAMED["backup"]).is_empty


def test_one_of_two_culprits_is_half() -> None:
    """AC@3 counts both; the first of them is right at 1."""
    one = judge(line("two-culprits", story("bulk-writes", "shop", "importer")), NAMED["two-culprits"])
    assert (one.is_exact, one.at_1, one.at_3) == (False, 1.0, 0.5)


def test_without_a_culprit_the_kind_is_the_answer() -> None:
    """A program that is named for a hiccup is wrong."""
    assert judge(line("hiccup", story("device-pause", "shop")), NAMED["hiccup"]).is_exact
    assert judge(line("hiccup", story("sequential-scan", "shop", "indexer")), NAMED["hiccup"]).is_wrong_named


def test_a_warning_that_stands_alone_is_an_answer() -> None:
    """A slow member has no culprit; in a twin it is false, and a loss of the recorder is no answer at all."""
    slow = {"kind": "slow-member", "severity": "warning", "device": "d"}
    lost = {"kind": "lost-events", "severity": "warning", "device": "d"}
    case = line("slow-member")
    assert judge(case | {"findings": [lost, slow]}, NAMED["slow-member"]).is_exact
    assert not judge(case | {"findings": [slow | {"device": "e"}]}, NAMED["slow-member"]).is_exact
    assert judge(case | {"findings": [lost]}, NAMED["slow-member"]).is_empty
    assert judge(case | {"twin_findings": [slow, lost]}, NAMED["slow-member"]).false_stories == 1


def test_a_case_that_hurt_nobody_counts_nowhere() -> None:
    """Neither do its stories; where storage is innocent any story is false."""
    assert not judge(line("hiccup", hurt=False), NAMED["hiccup"]).is_empty
    innocent = judge(line("lock", story("slow-io", "shop")), NAMED["lock"])
    assert (innocent.false_stories, innocent.quiet_reports) == (1, 2)
    assert "1 positive" in table([line("backup"), line("hiccup", hurt=False)], NAMED)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
print("the judge is right")
