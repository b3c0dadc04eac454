//! Whose control group it is: keys beside its path.

use std::collections::BTreeMap;

use iolens_core::analysis::timeline::GroupKey;
use iolens_core::model::Container;
use serde::Serialize;
use serde_json::{Value, json};

use super::escape;

/// The pod and the container of a control group; `null` where it belongs to none, or the recorder did not know.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Workload {
    /// `NAMESPACE/NAME`.
    pub(super) pod: Option<String>,
    /// Name of the container within the pod.
    container: Option<String>,
    /// UID of the pod from the control group's path, written with dashes.
    pod_uid: Option<String>,
    /// ID of the container in its runtime.
    container_id: Option<String>,
    /// Container runtime: `containerd`, `cri-o`, `docker` or `podman`.
    runtime: Option<&'static str>,
}

impl Workload {
    /// The names of its keys, in their order.
    pub const KEYS: [&str; 5] = ["pod", "container", "pod_uid", "container_id", "runtime"];

    /// Of the group at `path`; `name` is `NAMESPACE/POD[/CONTAINER]`, as it was looked up.
    pub fn of(path: &str, name: Option<&str>) -> Workload {
        let Container {
            pod_uid,
            id,
            runtime,
            ..
        } = Container::of(path).unwrap_or_default();
        let mut parts = name.into_iter().flat_map(|n| n.splitn(3, '/'));
        let pod = parts
            .next()
            .zip(parts.next())
            .map(|(namespace, pod)| format!("{namespace}/{pod}"));
        Workload {
            pod,
            container: parts.next().map(str::to_owned),
            pod_uid,
            container_id: id,
            runtime,
        }
    }

    /// What belongs to [`Workload::KEYS`].
    pub fn values(&self) -> [Option<&str>; 5] {
        [
            self.pod.as_deref(),
            self.container.as_deref(),
            self.pod_uid.as_deref(),
            self.container_id.as_deref(),
            self.runtime,
        ]
    }
}

/// Names of pods by the ids of their control groups.
#[derive(Debug, Clone, Default)]
pub struct Pods(BTreeMap<i64, String>);

impl Pods {
    /// Adds names: `NAMESPACE/POD[/CONTAINER]`.
    pub fn know(&mut self, names: impl IntoIterator<Item = (i64, String)>) {
        self.0.extend(names);
    }

    fn of(&self, key: GroupKey, path: &str) -> Option<Workload> {
        let GroupKey::Cgroup(id) = key else {
            return None;
        };
        Some(Workload::of(
            path,
            id.and_then(|id| self.0.get(&id)).map(String::as_str),
        ))
    }

    /// The cells of a row of the control group at `path`, each after a comma; none of rows of anything else.
    pub fn csv(&self, key: GroupKey, path: &str) -> String {
        let of = self.of(key, path);
        of.iter()
            .flat_map(Workload::values)
            .fold(String::new(), |line, v| {
                line + "," + &escape::csv(v.unwrap_or(""))
            })
    }

    /// The same as keys of an object.
    pub fn json(&self, key: GroupKey, path: &str) -> impl Iterator<Item = (String, Value)> + use<> {
        let of = self.of(key, path).map(|w| w.values().map(|v| json!(v)));
        of.into_iter()
            .flat_map(|values| Workload::KEYS.into_iter().map(str::to_owned).zip(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_document_and_null_without_a_pod() {
        let uid = "2f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d";
        let path = format!("/kubepods/pod{uid}/{}", "ab".repeat(32));
        let whose = Workload::of(&path, Some("default/web-0/nginx"));
        assert_eq!(
            whose.values()[..3],
            [Some("default/web-0"), Some("nginx"), Some(uid)]
        );
        let document = serde_json::to_value(&whose).expect("a document");
        for (key, value) in Workload::KEYS.iter().zip(whose.values()) {
            assert_eq!(document[key].as_str(), value, "{key}");
        }
        assert_eq!(Workload::of(&path, Some("default/web-0")).values()[1], None);
        let mut pods = Pods::default();
        pods.know([(7, "default/web-0/a,b".to_owned())]);
        let of = GroupKey::Cgroup(Some(7));
        assert!(
            pods.csv(of, &path).starts_with(",default/web-0,\"a,b\","),
            "{}",
            pods.csv(of, &path)
        );
        assert_eq!(pods.csv(GroupKey::Cgroup(None), "unknown"), ",,,,,");
        assert_eq!(pods.csv(GroupKey::All, ""), "");
        assert_eq!(
            (
                pods.json(of, &path).count(),
                pods.json(GroupKey::All, "").count()
            ),
            (Workload::KEYS.len(), 0)
        );
        assert_eq!(
            Workload::of("/system.slice/ssh.service", None),
            Workload::default()
        );
    }
}
