"""Finds the pod and container of a control group: SQL over its path, the same text for DuckDB and Spark.

The rule is that of the program: the innermost pod, and within it the outermost container. No pattern contains a backslash,
which the engines interpret differently.
"""

from __future__ import annotations

_UUID = "[0-9a-fA-F]{8}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{12}"
# `podUID`, `kubepods-QOS-podUID.slice`, and the latter before `:RUNTIME:ID`.
_POD = f"^.*/(?:[^/:]*kubepods-[^/:]*)?pod({_UUID}|[0-9a-fA-F]{{32}})(?:[.]slice)?"
_RUNTIME = "cri-containerd|crio-conmon|crio|docker|libpod"
_CONTAINER = f"(?:^|/|:)(?:({_RUNTIME})[-:])?([0-9a-fA-F]{{64}})(?:[.]scope)?(?:/|$)"


def _extract(text: str, pattern: str, group: int) -> str:
    return f"nullif(regexp_extract({text}, '{pattern}', {group}), '')"


# From `names`, and from `actors`, which still have the paths when the names have been removed with the single I/Os. A row for
# each control group, with the information from its path and the kubelet's names.
CONTAINERS = f"""
with called as (
    select host, start_ns, id, text from raw_names where kind = 'cgroup'
    union all
    select a.host, a.start_ns, a.cgroup as id, a.name as text from raw_actors a
    where a.step_s = 600 and a.by = 'cgroup' and a.cgroup is not null and a.name is not null),
paths as (select host, start_ns, id as cgroup, max(text) as path from called group by host, start_ns, id),
pods as (
    select host as p_host, start_ns as p_start, id as p_id, max(text) as name from raw_names where kind = 'pod'
    group by host, start_ns, id),
split as (
    select *, {_extract("path", f"{_POD}(?:[/:]|$)", 1)} as uid, {_extract("path", f"{_POD}([/:].*)$", 2)} as inside
    from paths),
placed as (
    select *, case when uid is null then {_extract("path", "^.*((?:/|:)[^/:]*[0-9a-fA-F]{64}(?:[.]scope)?(?:/[^/]*)*)$", 1)}
                   else inside end as own from split),
found as (
    select *, {_extract("own", _CONTAINER, 2)} as container_id, {_extract("own", _CONTAINER, 1)} as prefix from placed)
select host, start_ns, cgroup, path, {_extract("name", "^([^/]*/[^/]*)", 1)} as pod,
       {_extract("name", "^[^/]*/[^/]*/(.*)$", 1)} as container, replace(uid, '_', '-') as pod_uid, container_id,
       case when container_id is null then null when prefix = 'cri-containerd' then 'containerd'
            when prefix in ('crio', 'crio-conmon') then 'cri-o' when prefix = 'libpod' then 'podman'
            when prefix = 'docker' then 'docker'
            when uid is null and path like '%/docker/%' then 'docker' end as runtime
from found left join pods on p_host = host and p_start = start_ns and p_id = cgroup"""
