//! Names of pods and containers, from the names of the kubelet's log files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iolens_core::model::Container;

/// Minimum age of a listing before the directories are listed again for an unknown name.
const LISTING_AGE: Duration = Duration::from_secs(1);
/// Maximum number of directory entries that are read; a kubelet runs some hundred pods.
const MAX_ENTRIES: usize = 1 << 16;

/// Looks up names by listing directories; reads no files.
#[derive(Debug)]
pub struct Pods {
    logs: PathBuf,
    /// `NAMESPACE/POD` by pod UID.
    pods: HashMap<String, String>,
    /// `NAMESPACE/POD/CONTAINER` by container id.
    containers: HashMap<String, String>,
    listed: Option<Instant>,
}

impl Pods {
    /// Looks up names below `root`, which is `/` except in tests. Reads nothing until the first lookup.
    pub fn new(root: &Path) -> Pods {
        Pods {
            logs: root.join("var/log"),
            pods: HashMap::new(),
            containers: HashMap::new(),
            listed: None,
        }
    }

    /// Whether this machine has, or had, a kubelet.
    pub fn are_here(&self) -> bool {
        self.logs.join("pods").is_dir()
    }

    /// `NAMESPACE/POD/CONTAINER`, or `NAMESPACE/POD` if only that is known or `of` is a pod. `None` if not known. Not
    /// escaped.
    pub fn name(&mut self, of: &Container) -> Option<String> {
        let stale = self.listed.is_none_or(|at| at.elapsed() >= LISTING_AGE);
        if stale && self.exact(of).is_none() {
            self.list();
        }
        let name = match self.exact(of) {
            Some(name) => name,
            None => self.pods.get(of.pod_uid.as_deref()?)?,
        };
        Some(name.clone())
    }

    fn exact(&self, of: &Container) -> Option<&String> {
        match &of.id {
            Some(id) => self.containers.get(id),
            None => self.pods.get(of.pod_uid.as_deref()?),
        }
    }

    fn list(&mut self) {
        let pods = names_in(&self.logs.join("pods"));
        self.pods = pods.iter().filter_map(|n| pod(n)).collect();
        let containers = names_in(&self.logs.join("containers"));
        self.containers = containers.iter().filter_map(|n| container(n)).collect();
        self.listed = Some(Instant::now());
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .take(MAX_ENTRIES)
        .filter_map(|e| e.file_name().into_string().ok())
        .collect()
}

/// Parses `NAMESPACE_POD_UID`; names in Kubernetes contain no underscore.
fn pod(entry: &str) -> Option<(String, String)> {
    let [namespace, pod, uid] = entry.split('_').collect::<Vec<_>>().try_into().ok()?;
    let known = !namespace.is_empty() && !pod.is_empty() && !uid.is_empty();
    known.then(|| (uid.to_owned(), format!("{namespace}/{pod}")))
}

/// Parses `POD_NAMESPACE_CONTAINER-ID.log`.
fn container(entry: &str) -> Option<(String, String)> {
    let [pod, namespace, rest] = entry
        .strip_suffix(".log")?
        .split('_')
        .collect::<Vec<_>>()
        .try_into()
        .ok()?;
    let (container, id) = rest.rsplit_once('-')?;
    let known = !pod.is_empty() && !namespace.is_empty() && !container.is_empty();
    known.then(|| (id.to_owned(), format!("{namespace}/{pod}/{container}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const UID: &str = "2f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d";
    const STATIC: &str = "7e1f0a2b3c4d5e6f708192a3b4c5d6e7";

    fn of(pod_uid: &str, id: Option<&str>) -> Container {
        Container {
            pod_uid: Some(pod_uid.into()),
            id: id.map(str::to_owned),
            ..Container::default()
        }
    }

    #[test]
    fn names_come_from_the_names_of_log_files() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("var/log");
        assert!(!Pods::new(root.path()).are_here());
        fs::create_dir_all(logs.join(format!("pods/default_web-0_{UID}/nginx"))).unwrap();
        fs::create_dir_all(logs.join(format!("pods/kube-system_etcd-node1_{STATIC}"))).unwrap();
        fs::create_dir_all(logs.join("pods/no-pod")).unwrap();
        fs::create_dir_all(logs.join("containers")).unwrap();
        let id = "ab".repeat(32);
        fs::write(
            logs.join(format!("containers/web-0_default_my-nginx-{id}.log")),
            "",
        )
        .unwrap();
        let mut pods = Pods::new(root.path());
        assert!(pods.are_here());
        assert_eq!(
            pods.name(&of(UID, Some(&id))).as_deref(),
            Some("default/web-0/my-nginx")
        );
        assert_eq!(pods.name(&of(UID, None)).as_deref(), Some("default/web-0"));
        assert_eq!(
            pods.name(&of(STATIC, None)).as_deref(),
            Some("kube-system/etcd-node1")
        );
        let pause = "cd".repeat(32);
        assert_eq!(
            pods.name(&of(UID, Some(&pause))).as_deref(),
            Some("default/web-0"),
            "a sandbox has no log"
        );
        assert_eq!(pods.name(&of("gone", None)), None);
        assert_eq!(
            pods.name(&Container {
                id: Some(id),
                ..Container::default()
            })
            .as_deref(),
            Some("default/web-0/my-nginx")
        );
        // Listed anew once the listing is stale.
        fs::create_dir(logs.join("pods/later_job-x_3f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d")).unwrap();
        pods.listed = None;
        assert_eq!(
            pods.name(&of("3f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d", None))
                .as_deref(),
            Some("later/job-x")
        );
    }

    #[test]
    fn without_the_directories_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Pods::new(root.path()).name(&of(UID, None)), None);
    }
}
