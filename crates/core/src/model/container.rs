//! Derives the container and the pod of a control group from its path.

/// The quality-of-service class of a Kubernetes pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// Requests are limits.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// No requests.
    BestEffort,
}

impl Qos {
    /// As in the path.
    pub fn name(self) -> &'static str {
        match self {
            Qos::Guaranteed => "guaranteed",
            Qos::Burstable => "burstable",
            Qos::BestEffort => "besteffort",
        }
    }
}

/// A container, or a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// Of the pod, with dashes; of a static pod the hash of its configuration.
    pub pod_uid: Option<String>,
    /// Of the pod.
    pub qos: Option<Qos>,
    /// The runtime's id of the container, in the length found in the path. `None`: the pod itself.
    pub id: Option<String>,
    /// `containerd`, `cri-o`, `docker` or `podman`; `None` where the path has the bare number.
    pub runtime: Option<&'static str>,
}

/// Prefixes of systemd scopes and the container runtime that uses them. `crio-conmon` scopes hold the container's
/// monitor.
const PREFIXES: [(&str, &str); 5] = [
    ("cri-containerd-", "containerd"),
    ("crio-conmon-", "cri-o"),
    ("crio-", "cri-o"),
    ("docker-", "docker"),
    ("libpod-", "podman"),
];
/// Number of hexadecimal digits of a container id (SHA-256).
const ID_DIGITS: usize = 64;
/// Digits of a static pod's hash (MD5).
const HASH_DIGITS: usize = 32;

impl Container {
    /// Derives the container or pod from the path of a control group; `None` if the path belongs to neither. If pods
    /// are nested (a cluster in a container), the innermost pod counts. If a pod holds nested containers, the outermost
    /// counts.
    pub fn of(path: &str) -> Option<Container> {
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        let pod = parts
            .iter()
            .enumerate()
            .rev()
            .find_map(|(i, p)| Some((i, pod_uid(p)?)));
        let inside = pod.as_ref().map_or(&parts[..], |(i, _)| &parts[*i..]);
        let mut containers = inside.iter().filter_map(|p| container_id(p));
        // Outside a pod the innermost container counts.
        let container = if pod.is_some() {
            containers.next()
        } else {
            containers.next_back()
        };
        if pod.is_none() && container.is_none() {
            return None;
        }
        let (runtime, id) =
            container.map_or((None, None), |(runtime, id)| (runtime, Some(id.to_owned())));
        let runtime =
            runtime.or_else(|| (id.is_some() && parent_is(&parts, "docker")).then_some("docker"));
        let qos = pod.as_ref().and_then(|(i, _)| qos(&parts[..=*i]));
        Some(Container {
            pod_uid: pod.map(|(_, uid)| uid),
            qos,
            id,
            runtime,
        })
    }
}

/// `/docker/ID`, without a pod.
fn parent_is(parts: &[&str], name: &str) -> bool {
    parts.contains(&name) && !parts.iter().any(|p| pod_uid(p).is_some())
}

/// The pod's UID in a path component: `podUID`, or `kubepods-QOS-podUID.slice`, in which systemd replaces dashes by
/// underscores. It may also be the first part of `SLICE:RUNTIME:ID`, which a runtime with the other cgroup driver
/// creates as a directory.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.split(':').next().unwrap_or(part);
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None => name
            .split_once("kubepods-")
            .and_then(|(_, rest)| rest.rsplit_once("pod"))
            .map(|(_, uid)| uid)?,
    };
    let uid = uid.replace('_', "-");
    let is_uuid = uid.len() == 36
        && uid
            .bytes()
            .enumerate()
            .all(|(i, b)| (b == b'-') == matches!(i, 8 | 13 | 18 | 23));
    let hex = uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    (hex && (is_uuid || (uid.len() == HASH_DIGITS && !uid.contains('-')))).then_some(uid)
}

fn container_id(part: &str) -> Option<(Option<&'static str>, &str)> {
    if let Some((rest, id)) = part.rsplit_once(':').filter(|(_, id)| is_id(id)) {
        let runtime = PREFIXES
            .iter()
            .find(|(p, _)| rest.ends_with(p.trim_end_matches('-')));
        return Some((runtime.map(|(_, runtime)| *runtime), id));
    }
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let known = PREFIXES
        .iter()
        .find_map(|(prefix, runtime)| Some((Some(*runtime), name.strip_prefix(prefix)?)));
    known.or(Some((None, name))).filter(|(_, id)| is_id(id))
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The QoS class in the components up to and including the pod's.
fn qos(parts: &[&str]) -> Option<Qos> {
    let above = parts.iter().rposition(|p| {
        let p = p.trim_end_matches(".slice");
        p == "kubepods" || p.ends_with("-kubepods")
    });
    let below = &parts[above.map_or(0, |a| a + 1)..];
    if has_word(below, "burstable") {
        return Some(Qos::Burstable);
    }
    if has_word(below, "besteffort") {
        return Some(Qos::BestEffort);
    }
    // A guaranteed pod has no QoS component. It is recognised by its parent `kubepods` or by its own name.
    let is_pod = above.is_some() || parts.last().is_some_and(|p| p.contains("kubepods-pod"));
    is_pod.then_some(Qos::Guaranteed)
}

/// Whether one of the parts has `word` between hyphens or dots.
fn has_word(parts: &[&str], word: &str) -> bool {
    parts
        .iter()
        .any(|part| part.split(['-', '.']).any(|w| w == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `path`, `pod_uid`, `qos`, `container_id`, `runtime`, with `-` for what is not known.
    const PATHS: &str = include_str!("../../../../fixtures/cgroups/paths.tsv");

    #[test]
    fn paths_of_every_driver_and_runtime_are_understood() {
        let mut pods = 0;
        for line in PATHS
            .lines()
            .filter(|l| !l.starts_with('#') && !l.is_empty())
        {
            let columns: Vec<&str> = line.split('\t').collect();
            let [path, rest @ ..] = &columns[..] else {
                unreachable!()
            };
            let found = Container::of(path);
            let text = |s: Option<String>| s.unwrap_or_else(|| "-".to_owned());
            let c = found.clone().unwrap_or_default();
            let is = [
                text(c.pod_uid),
                text(c.qos.map(|q| q.name().to_owned())),
                text(c.id),
                text(c.runtime.map(str::to_owned)),
            ];
            assert_eq!(is, *rest, "{path}");
            assert_eq!(found.is_none(), rest.iter().all(|r| *r == "-"), "{path}");
            pods += u32::from(found.is_some_and(|c| c.pod_uid.is_some()));
        }
        assert!(pods >= 15, "{pods}");
    }

    #[test]
    fn any_text_is_a_path() {
        for text in [
            "",
            "/",
            ":",
            "pod",
            "pod-",
            "kubepods-pod.slice",
            "/////",
            "crio-.scope",
            "\u{1b}pod\u{fffd}",
        ] {
            assert_eq!(Container::of(text), None, "{text:?}");
        }
    }
}
