//! The target of shipping: a directory, or a bucket of S3 or of a compatible server.

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Once;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::TryStreamExt as _;
use iolens_core::private::{Access, PrivateDir};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{
    ClientConfigKey, ObjectStore as _, ObjectStoreExt as _, PutPayload, RetryConfig,
};
use tokio::runtime::Runtime;

/// The value of `--ship`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShipTarget {
    /// `DIR`.
    Directory(PathBuf),
    /// `s3://BUCKET/PREFIX`.
    Bucket {
        /// The bucket.
        name: String,
        /// Prefix of all keys, without leading and trailing slash; may be empty.
        prefix: String,
    },
}

impl FromStr for ShipTarget {
    type Err = String;

    fn from_str(s: &str) -> Result<ShipTarget, String> {
        let Some(rest) = s.strip_prefix("s3://") else {
            return match s.split_once("://") {
                Some((scheme, _)) => {
                    Err(format!("{scheme}: give s3://BUCKET/PREFIX or a directory"))
                }
                None if s.is_empty() => Err("give s3://BUCKET/PREFIX or a directory".to_owned()),
                None => Ok(ShipTarget::Directory(s.into())),
            };
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if name.is_empty() || Key::parse(prefix).is_err() {
            return Err("expected s3://BUCKET/PREFIX, without empty parts".to_owned());
        }
        Ok(ShipTarget::Bucket {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for ShipTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShipTarget::Directory(path) => path.display().fmt(f),
            ShipTarget::Bucket { name, prefix } if prefix.is_empty() => write!(f, "s3://{name}"),
            ShipTarget::Bucket { name, prefix } => write!(f, "s3://{name}/{prefix}"),
        }
    }
}

/// An opened target. Names are relative to it, with slashes. A file there has either its old or its new content,
/// never a part of it.
#[derive(Debug)]
pub enum Destination {
    /// A directory.
    Directory(PrivateDir),
    /// A bucket, the prefix of all keys, and the runtime of the requests.
    Bucket(AmazonS3, String, Runtime),
}

/// Timeout of a single request.
const REQUEST_TIME: &str = "120 seconds";
const CONNECT_TIME: &str = "10 seconds";
/// Retries of the client itself, before [`super`] retries with growing delays.
const RETRIES: usize = 2;
const RETRY_TIME: Duration = Duration::from_secs(30);

impl Destination {
    /// Opens the target; nothing is sent yet.
    ///
    /// # Errors
    /// The directory does not exist or others may write to it; or the environment's settings for S3 are invalid.
    pub fn open(target: &ShipTarget, root: &Path, access: Access) -> Result<Destination> {
        match target {
            ShipTarget::Directory(path) => {
                let real = path.canonicalize().with_context(|| {
                    format!("--ship {}: give a directory that exists", path.display())
                })?;
                let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
                if real.starts_with(&root) || root.starts_with(&real) {
                    bail!(
                        "--ship {}: give a directory apart from the recording root",
                        path.display()
                    );
                }
                let dir = PrivateDir::open(&real, access)
                    .with_context(|| format!("--ship {}", path.display()))?;
                Ok(Destination::Directory(dir))
            }
            ShipTarget::Bucket { name, prefix } => {
                let store =
                    bucket(name).with_context(|| format!("--ship {target}: cannot be used"))?;
                // Its threads, which resolve names, are started later by the shipping thread.
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .max_blocking_threads(2)
                    .enable_all()
                    .build()?;
                Ok(Destination::Bucket(store, prefix.clone(), runtime))
            }
        }
    }

    /// The files of `recording` at the target, with their names relative to it and their sizes.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn files(&self, recording: &str) -> Result<HashMap<String, u64>> {
        match self {
            Destination::Directory(dir) => {
                files_below(&dir.path().join(recording)).context("cannot be listed")
            }
            Destination::Bucket(store, prefix, runtime) => {
                let below = key(prefix, recording)?;
                let listed = runtime.block_on(store.list(Some(&below)).try_collect::<Vec<_>>())?;
                let skip = below.as_ref().len() + 1;
                Ok(listed
                    .into_iter()
                    .filter_map(|o| Some((o.location.as_ref().get(skip..)?.to_owned(), o.size)))
                    .collect())
            }
        }
    }

    /// Stores or replaces a file.
    ///
    /// # Errors
    /// The file was not stored completely.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        match self {
            Destination::Directory(dir) => {
                let slashes = name.match_indices('/');
                for (end, _) in slashes {
                    dir.make_dir(&name[..end])?;
                }
                Ok(dir.write_atomically(name, &bytes)?)
            }
            Destination::Bucket(store, prefix, runtime) => {
                let key = key(prefix, name)?;
                runtime.block_on(store.put(&key, PutPayload::from(bytes)))?;
                Ok(())
            }
        }
    }

    /// The directory to which the shipping thread must be able to write.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Destination::Directory(dir) => Some(dir.path()),
            Destination::Bucket(..) => None,
        }
    }
}

fn key(prefix: &str, name: &str) -> Result<Key> {
    let whole = match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    };
    // Not encoded again: host names are encoded already.
    Ok(Key::parse(whole)?)
}

/// Opens a bucket with the usual environment: keys, or the role of a pod, container or machine; region and endpoint.
fn bucket(name: &str) -> Result<AmazonS3> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails if there is a provider already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(name)
        .with_retry(RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_TIME,
            ..RetryConfig::default()
        });
    // An endpoint that is given with http:// is used without TLS.
    let keys = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
    for endpoint in keys.map(|key| builder.get_config_value(&key)) {
        if endpoint.is_some_and(|url| url.starts_with("http://")) {
            builder = builder.with_allow_http(true);
        }
    }
    for (key, value) in [
        (ClientConfigKey::Timeout, REQUEST_TIME),
        (ClientConfigKey::ConnectTimeout, CONNECT_TIME),
    ] {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    Ok(builder.build()?)
}

/// Files in `dir` and one level below, with their relative names and sizes; empty if `dir` does not exist.
fn files_below(dir: &Path) -> std::io::Result<HashMap<String, u64>> {
    let mut found = HashMap::new();
    for name in add_files_in(dir, "", &mut found)? {
        add_files_in(&dir.join(&name), &format!("{name}/"), &mut found)?;
    }
    Ok(found)
}

/// Adds the files in `dir`, with the prefix `before`. Returns its sub-directories.
fn add_files_in(
    dir: &Path,
    before: &str,
    found: &mut HashMap<String, u64>,
) -> std::io::Result<Vec<String>> {
    let mut directories = Vec::new();
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(directories),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(|n| format!("{before}{n}")) else {
            continue;
        };
        let meta = entry.metadata()?;
        if meta.is_dir() {
            directories.push(name);
        } else {
            found.insert(name, meta.len());
        }
    }
    Ok(directories)
}
