//! Names of files and control groups, by their numbers.

use crate::model::{Inode, Name, Named};
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "names" of Name, by at_ns;

    /// time of the lookup; the table's time
    at_ns: i64 as Time = |r| r.at_ns;

    /// `file`, `cgroup` or `pod`
    kind: Text as Few = |r| r.of.kind().unwrap_or("");

    /// for a file: device number of the file system on which `id` counts
    fs_dev: Option<i32> as Few = |r| file_of(r).map(|f| f.fs_dev);

    /// inode number of the file, or cgroup v2 id (also for a pod)
    id: i64 as Many = id_of;

    /// path of the file as the recorder saw it; path of the control group within the hierarchy; for a pod
    /// `NAMESPACE/POD` or `NAMESPACE/POD/CONTAINER`, as in the names of the kubelet's logs
    text: Text as Few = |r| r.text.as_str();

    /// for a file: which of the files that had this inode number
    generation: Option<i64> as Many = |r| file_of(r)?.generation.map(i64::from);
}

fn file_of(name: &Name) -> Option<Inode> {
    match name.of {
        Named::File(inode) => Some(inode),
        _ => None,
    }
}

fn id_of(name: &Name) -> i64 {
    match name.of {
        Named::File(inode) => inode.ino,
        Named::Cgroup(id) | Named::Pod(id) => id,
        Named::Unknown => 0,
    }
}

impl Row for Name {
    const TABLE: Table = Table::Names;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[Name], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> Name {
        let c = Columns(columns);
        let id = c.id(i);
        let of = match (c.kind(i), c.fs_dev(i)) {
            (b"file", Some(fs_dev)) => Named::File(Inode {
                fs_dev,
                ino: id,
                generation: c.generation(i).and_then(|g| u32::try_from(g).ok()),
            }),
            (b"cgroup", _) => Named::Cgroup(id),
            (b"pod", _) => Named::Pod(id),
            _ => Named::Unknown,
        };
        Name {
            at_ns: c.at_ns(i),
            of,
            text: String::from_utf8_lossy(c.text(i)).into_owned(),
        }
    }
}
