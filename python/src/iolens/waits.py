"""Who waited for whom: sums of the table `waits`, in one SQL text for DuckDB and Spark."""

from __future__ import annotations

from .columns import ORIGINS

# How the victims and culprits of a recording can be grouped.
GROUPS = ("process", "cgroup", "pod")
# How those of a lake can be grouped.
LAKE_GROUPS = ("cgroup", "pod", "process", "host")

# All other actors of a slot, which have no row of their own; and actors that the recorder did not know.
OTHERS, NOT_KNOWN = "(others)", "(not known)"

_DAY_NS = 86_400 * 10**9
_ORIGIN = " ".join(f"when {{0}} = {code} then '{name}'" for code, name in enumerate(ORIGINS))


# Prefixes of the columns of a victim and of a culprit.
_VICTIM, _CULPRIT = "w.", "w.culprit_"


def origin_sql(code: str) -> str:
    """SQL of an origin in words; numbers of later versions read as unknown."""
    return f"case when {code} is null then null {_ORIGIN.format(code)} else 'unknown' end"


def _process(side: str) -> str:
    """SQL of a process in the program's notation: `NAME[PID]`, or the name of several."""
    name = f"coalesce({side}name, '{NOT_KNOWN}')"
    return f"case when {side}tgid is null then {name} else concat({name}, '[', cast({side}tgid as string), ']') end"


def _party(side: str, known: str) -> str:
    """SQL of a victim (`side` is empty) or culprit; null if there is none."""
    nobody = f"when {side}class is null then null " if side == _CULPRIT else ""
    return f"case {nobody}when {side}others = 1 then '{OTHERS}' else {known} end"


def _group(number: str, text: str) -> str:
    """SQL of a control group by its path or pod; by its number if that is unknown."""
    return f"coalesce({text}, cast({number} as string), '{NOT_KNOWN}')"


# Whether victim and culprit are the same, so that the wait is its own: all columns that identify a process are equal.
_SAME_PROCESS = " and ".join(
    f"{column} is not distinct from culprit_{column}" for column in ("others", "name", "tgid", "cgroup")
)


def who_waited(by: str, from_ns: int, to_ns: int, relation: str) -> str:
    """Sums over the slots of `relation` that begin between the two times, the largest losses first.

    The views `cgroup_texts` (`cgroup`, `path`, `pod`) and `device_names` are those of the recording.
    """
    text = "pod" if by == "pod" else "path"
    victim_group, culprit_group = _group("w.cgroup", f"v.{text}"), _group("culprit_cgroup", f"c.{text}")
    if by == "process":
        parties = f"{_party(_VICTIM, _process(_VICTIM))} as victim, {_party(_CULPRIT, _process(_CULPRIT))} as behind"
        groups = f"case when others = 1 then null else {victim_group} end as victim_cgroup"
        groups += f", case when culprit_others = 0 then {culprit_group} end as behind_cgroup"
        keys, behind_keys = "victim, victim_cgroup", "behind, behind_cgroup"
        own = "false"
    else:
        parties = f"{_party(_VICTIM, victim_group)} as victim, {_party(_CULPRIT, culprit_group)} as behind"
        groups = "null as no_cgroup"
        keys, behind_keys = "victim", "behind"
        # A wait behind another process of the same group is a wait behind the group itself.
        own = "cause = 'others' and victim = behind and class = behind_class and origin = behind_origin"
    behind = ", ".join(f"case when not is_own then {key} end as {key}" for key in (*behind_keys.split(", "), "behind_class"))
    whose = f"device, {keys}, class, origin"
    return f"""
with placed as (
    select coalesce(n.name, (w.dev >> 20) || ':' || (w.dev & 1048575)) as device, {parties}, {groups}, class,
           {origin_sql("origin")} as origin, cause, culprit_class as behind_class,
           {origin_sql("culprit_origin")} as behind_origin, ns, ios
    from {relation} w left join device_names n on n.dev = w.dev
    left join cgroup_texts v on v.cgroup = w.cgroup left join cgroup_texts c on c.cgroup = w.culprit_cgroup
    where at_ns >= {from_ns} and at_ns < {to_ns}),
judged as (select *, coalesce({own}, false) as is_own from placed),
grouped as (
    select {whose}, case when is_own then 'own' else cause end as cause, {behind},
           case when not is_own then behind_origin end as behind_origin, ns, case when not is_own then ios end as ios
    from judged),
summed as (
    select {whose}, cause, {behind_keys}, behind_class, behind_origin,
           cast(sum(ns) as bigint) as ns, cast(sum(ios) as bigint) as ios
    from grouped group by {whose}, cause, {behind_keys}, behind_class, behind_origin),
ranked as (
    select *, sum(case when cause = 'undisturbed' then 0 else ns end) over (partition by {whose}) as lost_ns from summed)
select {whose}, cause, {behind_keys}, behind_class, behind_origin, ns / 1e9 as seconds, ios
from ranked order by lost_ns desc, {whose}, ns desc, cause, {behind_keys}, behind_class, behind_origin"""


def noisy(by: str, per_day: bool) -> str:
    """How long others waited behind each culprit of a lake, summed over its table of ten minutes, the worst first."""
    # Names of pods are removed with the single I/Os. If any recording of the host names a pod, all its rows get that name.
    pods = """
    select host as p_host, pod_uid as p_uid, max(pod) as p_name from containers
    where pod is not null and pod_uid is not null group by host, pod_uid"""
    joins = ""
    same = _SAME_PROCESS
    if by in ("process", "host"):
        victim, culprit = _party(_VICTIM, _process(_VICTIM)), _party(_CULPRIT, _process(_CULPRIT))
    else:
        for side, number in (("v", "w.cgroup"), ("c", "w.culprit_cgroup")):
            joins += f"""
    left join containers {side} on {side}.host = w.host and {side}.start_ns = w.start_ns and {side}.cgroup = {number}"""
            if by == "pod":
                joins += f"""
    left join pods {side}p on {side}p.p_host = w.host and {side}p.p_uid = {side}.pod_uid"""
        called = "coalesce({0}.pod, {0}p.p_name, {0}.pod_uid, {0}.path)" if by == "pod" else "{0}.path"
        victim = _party(_VICTIM, _group("w.cgroup", called.format("v")))
        culprit = _party(_CULPRIT, _group("w.culprit_cgroup", called.format("c")))
        same = "victim = culprit"
    day = f", at_unix_ns - at_unix_ns % {_DAY_NS} as day_unix_ns" if per_day else ""
    keys = ["host", "device", *(["day_unix_ns"] if per_day else []), *([] if by == "host" else ["culprit"])]
    shown = ", ".join(f"culprit as {by}" if key == "culprit" else key for key in keys)
    with_pods = f"pods as ({pods}),\n" if by == "pod" else ""
    return f"""
with {with_pods}blamed as (
    select w.host as host, w.device as device{day}, others, name, tgid, w.cgroup as cgroup, culprit_others, culprit_name,
           culprit_tgid, culprit_cgroup, {victim} as victim, {culprit} as culprit, ns, ios
    from waits w{joins}
    where cause = 'others' and culprit_class is not null)
select {shown}, cast(sum(ns) as double) / 1e9 as cost_s, cast(sum(ios) as bigint) as ios,
       count(distinct victim) as neighbours
from blamed where not ({same}) group by {", ".join(keys)} order by cost_s desc, {", ".join(keys)}"""
