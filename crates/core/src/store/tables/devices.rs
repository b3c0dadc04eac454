//! The devices of `meta.json` as a table, for joins in SQL: `devices/000001.parquet`.

use parquet::errors::ParquetError;

use crate::model::{Device, DeviceKind};
use crate::store::cell::Text;
use crate::store::whole_file::encode;

table! {
    whole "devices" of Device;

    /// device number
    dev: i32 = |d| d.id.0;

    /// the kernel's name
    name: Text = |d| d.name.as_str();

    /// `request`, `bio` or `unknown`, as in `meta.json`
    kind: Text = kind_of;

    /// a name that survives reboots; empty if it is not known
    stable_id: Text = |d| d.stable_id.as_deref().unwrap_or("");

    /// model name; empty if it is not known
    model: Text = |d| d.model.as_deref().unwrap_or("");

    /// capacity
    size_bytes: Option<i64> = |d| d.size_bytes.and_then(|n| i64::try_from(n).ok());

    /// 0 or 1
    rotational: Option<i32> = |d| d.rotational.map(i32::from);

    /// when it appeared while recording
    added_ns: Option<i64> = |d| d.added_ns;

    /// when it went away while recording
    removed_ns: Option<i64> = |d| d.removed_ns;
}

/// The one file of the table in a recording.
pub(in crate::store) const DEVICES_FILE: &str = "devices/000001.parquet";

fn kind_of(device: &Device) -> &'static str {
    match device.kind {
        DeviceKind::Request => "request",
        DeviceKind::Bio => "bio",
        DeviceKind::Unknown => "unknown",
    }
}

/// Encodes the table of devices. Unknown text is empty.
pub(in crate::store) fn encode_devices(devices: &[Device]) -> Result<Vec<u8>, ParquetError> {
    encode(&TABLE, std::iter::once(collect(devices)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DevId;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    #[test]
    fn devices_are_a_table() {
        let device = Device {
            model: Some("Disk".to_owned()),
            ..Device::named("sda", DevId(8))
        };
        let bytes = encode_devices(&[device]).expect("encodes");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("readable");
        let row = reader
            .get_row_iter(None)
            .expect("rows")
            .next()
            .expect("one")
            .expect("readable")
            .to_string();
        assert!(
            row.contains("name: \"sda\"")
                && row.contains("model: \"Disk\"")
                && row.contains("size_bytes: null"),
            "{row}"
        );
    }
}
