//! Packs the data for the application inside a report file: documents of the API, heat maps, rows and single I/Os.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use iolens_core::analysis::Report;
use iolens_core::analysis::heat::{LatencyRows, SparseCells};
use iolens_core::analysis::waits::Grouping;
use iolens_core::model::Class;
use serde::Serialize;

use super::pack::{column, log_code};
use crate::engine::inside::{ChartRow, ClassFigures, DeviceCells, Inside, ScopeRows, Stepped};
use crate::engine::part::Part;
use crate::present::answers::actors::ActorsDocument;
use crate::present::answers::devices::DevicesDocument;
use crate::present::answers::series::IosDocument;
use crate::present::answers::stories::{self, StoriesDocument};
use crate::present::answers::waits::WaitsDocument;
use crate::present::columns::TableFormat;

/// Number of columns of the finest heat map per chunk, the unit of unpacking.
const COLUMNS_OF_CHUNK: usize = 1024;
/// Ratio of the column widths of successive tiers.
const COARSER: usize = 10;
/// A tier with fewer columns needs no coarser tier.
const MIN_COLUMNS: usize = 2048;
/// Number of latency rows that may be merged to make the file small enough.
const ROWS_TOGETHER: [usize; 2] = [1, 2];

/// What the application in the file can be asked. Texts named `data`, and all in `documents`, `read` and `write`, are base64 of a
/// zlib stream.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InsideBlock {
    /// What the file knows of begins here.
    from_unix_s: f64,
    /// End of the time range.
    to_unix_s: f64,
    /// JSON documents of the API by name: `devices`, `stories`, `waits/BY` with intervals, and `actors/BY` of the
    /// whole time and its steps.
    documents: BTreeMap<String, String>,
    /// Heat map; absent if the recording has no individual I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<HeatTiersBlock>,
    /// What the charts below the heat map show of all devices together, and of each.
    rows: Vec<RowsBlock>,
    /// Individual I/Os around the worst moments of stories.
    moments: Vec<MomentBlock>,
    /// Data omitted to keep the file small.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<String>,
}

/// Latencies of reads and writes over time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HeatTiersBlock {
    /// Latency bounds of the rows, one more than the number of rows.
    latency_us: Vec<f64>,
    /// Each device; their sum is all.
    scopes: Vec<HeatScopeBlock>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HeatScopeBlock {
    /// `null`: several with few I/Os.
    device: Option<String>,
    /// Whether its I/Os count in the sum of all devices.
    is_in_sum: bool,
    /// The heat map at several resolutions, finest first.
    tiers: Vec<TierBlock>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TierBlock {
    /// Length of a column.
    column_s: f64,
    /// Number of columns over the whole time.
    column_count: usize,
    /// Number of columns in a chunk of text. The last chunk may have fewer.
    columns_of_chunk: usize,
    /// Number of base rows in a row of this tier.
    rows_together: usize,
    /// Reads by chunk, which is empty where it has no I/O: first row, number of rows, then row by row a byte for each column.
    /// Counts to 16 are exact; from there on a byte is an eighth of a doubling.
    read: Vec<String>,
    /// Writes.
    write: Vec<String>,
}

impl TierBlock {
    /// Approximate size in the file in bytes.
    fn weight(&self) -> usize {
        let chunks = self.read.iter().chain(&self.write);
        chunks.map(|c| c.len() + 3).sum()
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RowsBlock {
    /// `null`: all devices together.
    device: Option<String>,
    /// Begin of the first row.
    from_unix_s: f64,
    /// Length of a row.
    step_s: f64,
    /// How many there are.
    row_count: usize,
    /// Packed columns: `classes` by name, with `bytes` per second as log codes, and `ios` per second, mean `latency` and `longest`
    /// in microseconds as log codes of thousandths; `mean` as log code of thousandths of I/Os in flight, `max`, and `lossy` where
    /// I/Os are missing. `busy`, of each class and of all, is the share of time with I/Os in flight in thousandths.
    data: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MomentBlock {
    /// Its begin.
    from_unix_s: f64,
    /// End of the time range.
    to_unix_s: f64,
    /// How many I/Os.
    ios: usize,
    /// The answer of `ios`.
    data: String,
}

/// An answer for the whole time, and one per step.
#[derive(Serialize)]
struct SteppedDocuments<T> {
    whole: T,
    steps: Vec<StepDocument<T>>,
}

#[derive(Serialize)]
struct StepDocument<T> {
    from_unix_s: f64,
    to_unix_s: f64,
    answer: T,
}

#[derive(Serialize)]
struct PackedRows {
    /// By class name.
    classes: BTreeMap<&'static str, PackedClass>,
    busy: String,
    mean: String,
    max: String,
    lossy: String,
}

#[derive(Serialize)]
struct PackedClass {
    bytes: String,
    ios: String,
    latency: String,
    longest: String,
    busy: String,
}

impl InsideBlock {
    /// Packs `inside`, which belongs to `part` and its `report`, into about `budget` bytes.
    pub(super) fn of(inside: &Inside, part: &Part, report: &Report, budget: usize) -> InsideBlock {
        let mut block = InsideBlock {
            from_unix_s: seconds(inside.unix_ns.start),
            to_unix_s: seconds(inside.unix_ns.end),
            documents: documents(inside, part, report),
            heat: None,
            rows: inside.rows.iter().map(|r| rows(r, inside.row_ns)).collect(),
            moments: Vec::new(),
            omitted: Vec::new(),
        };
        for moment in &inside.moments {
            block.moments.push(MomentBlock {
                from_unix_s: seconds(moment.unix_ns.start),
                to_unix_s: seconds(moment.unix_ns.end),
                ios: moment.ios.len(),
                data: document(&IosDocument::of(&moment.ios, TableFormat::Json, Vec::new())),
            });
        }
        let texts = block.documents.values();
        let mut used: usize = texts.map(String::len).sum();
        used += block.rows.iter().map(|r| r.data.len()).sum::<usize>();
        used += block.moments.iter().map(|m| m.data.len()).sum::<usize>();
        if !inside.heats.is_empty() {
            let left = budget.saturating_sub(used);
            block.heat = Some(heat(inside, left, &mut block.omitted));
        }
        block
    }
}

fn documents(inside: &Inside, part: &Part, report: &Report) -> BTreeMap<String, String> {
    let recording = &part.recording;
    let mut documents = BTreeMap::new();
    let devices = DevicesDocument::of(recording.meta(), recording.end_ns());
    documents.insert("devices".to_owned(), document(&devices));
    if inside.waits.is_empty() {
        return documents;
    }
    let not_proven = stories::not_proven(report, part);
    let stories = StoriesDocument::new(stories::of_part(report, part), not_proven, Vec::new());
    documents.insert("stories".to_owned(), document(&stories));
    for ((name, by), found) in Grouping::NAMES.into_iter().zip(&inside.actors) {
        let answers = stepped(found, |of| ActorsDocument::of(of.clone(), by, Vec::new()));
        documents.insert(format!("actors/{name}"), document(&answers));
    }
    for ((name, grouping), found) in Grouping::NAMES.into_iter().zip(&inside.waits) {
        let steps = Some((found.step_ns, &found.steps[..]));
        let answer = WaitsDocument::of(&found.whole, grouping, steps, Vec::new());
        documents.insert(format!("waits/{name}"), document(&answer));
    }
    documents
}

fn stepped<T, D>(found: &Stepped<T>, answer: impl Fn(&T) -> D) -> SteppedDocuments<D> {
    let mut steps = Vec::new();
    for (unix_ns, step) in &found.steps {
        let Range { start, end } = *unix_ns;
        steps.push(StepDocument {
            from_unix_s: seconds(start),
            to_unix_s: seconds(end),
            answer: answer(step),
        });
    }
    SteppedDocuments {
        whole: answer(&found.whole),
        steps,
    }
}

fn rows(scope: &ScopeRows, step_ns: i64) -> RowsBlock {
    let begin_ns = scope.rows.first().map_or(0, |r| r.from_unix_ns);
    let mut by_place: BTreeMap<i64, usize> = BTreeMap::new();
    for (i, row) in scope.rows.iter().enumerate() {
        let since_ns = row.from_unix_ns - begin_ns;
        by_place.insert((since_ns + step_ns / 2).div_euclid(step_ns.max(1)), i);
    }
    let count = by_place.keys().next_back().map_or(0, |last| last + 1);
    // Between two recordings nothing is known.
    let mut rows = Vec::new();
    for place in 0..count {
        rows.push(by_place.get(&place).map(|i| &scope.rows[*i]));
    }
    let mut classes = BTreeMap::new();
    for class in Class::ALL {
        classes.insert(class.name(), packed_class(&rows, class));
    }
    let packed = PackedRows {
        classes,
        busy: packed_figures(&rows, |row| row.busy_percent.map(thousandths)),
        mean: packed_figures(&rows, |row| row.inflight_mean.map(log_thousandths)),
        max: packed_figures(&rows, |row| row.inflight_max),
        lossy: packed_figures(&rows, |row| Some(u64::from(row.lossy))),
    };
    RowsBlock {
        device: scope.device.clone(),
        from_unix_s: seconds(begin_ns),
        step_s: seconds(step_ns),
        row_count: usize::try_from(count).unwrap_or(0),
        data: document(&packed),
    }
}

fn packed_class(rows: &[Option<&ChartRow>], class: Class) -> PackedClass {
    let mut figures: Vec<Option<&ClassFigures>> = Vec::with_capacity(rows.len());
    for row in rows {
        figures.push(row.map(|row| &row.classes[class as usize]));
    }
    PackedClass {
        bytes: packed_figures(&figures, |c| Some(log_code(c.kib_per_s? * 1024.0))),
        ios: packed_figures(&figures, |c| c.ios_per_s.map(log_thousandths)),
        latency: packed_figures(&figures, |c| c.mean_us.map(log_thousandths)),
        longest: packed_figures(&figures, |c| c.max_us.map(log_thousandths)),
        busy: packed_figures(&figures, |c| c.busy_percent.map(thousandths)),
    }
}

/// Packs one value of each row as a column.
fn packed_figures<T>(rows: &[Option<&T>], of: impl Fn(&T) -> Option<u64>) -> String {
    column(rows.iter().map(|row| of((*row)?)))
}

/// The log code of a number in thousandths.
fn log_thousandths(n: f64) -> u64 {
    log_code(n * 1000.0)
}

/// Converts percent to thousandths.
fn thousandths(percent: f64) -> u64 {
    (percent * 10.0).round() as u64
}

/// Packs the heat maps into about `budget` bytes. If they do not fit, rows of the finest tier are merged, or the tier
/// is left out.
fn heat(inside: &Inside, budget: usize, left_out: &mut Vec<String>) -> HeatTiersBlock {
    let mut scopes = Vec::new();
    for cells in &inside.heats {
        scopes.push(HeatScopeBlock {
            device: cells.device.clone(),
            is_in_sum: cells.is_in_sum,
            tiers: coarser_tiers(cells, inside.column_ns),
        });
    }
    let used: usize = scopes
        .iter()
        .flat_map(|s| &s.tiers)
        .map(TierBlock::weight)
        .sum();
    let left = budget.saturating_sub(used);
    let finest = ROWS_TOGETHER.into_iter().find_map(|together| {
        let mut finest = Vec::new();
        let mut weight = 0;
        for cells in &inside.heats {
            let column_s = seconds(inside.column_ns);
            let own = tier([&cells.read, &cells.write], column_s, together);
            weight += own.weight();
            finest.push(own);
        }
        (weight <= left).then_some(finest)
    });
    match finest {
        Some(finest) => {
            for (scope, own) in scopes.iter_mut().zip(finest) {
                scope.tiers.insert(0, own);
            }
        }
        None => left_out.push(format!(
            "The heat map in columns of {} ms did not fit into this file.",
            inside.column_ns / 1_000_000
        )),
    }
    HeatTiersBlock {
        latency_us: LatencyRows::ALL
            .edges_ns()
            .iter()
            .map(|ns| ns / 1e3)
            .collect(),
        scopes,
    }
}

/// All tiers except the finest; only the finest if it has few columns.
fn coarser_tiers(cells: &DeviceCells, column_ns: i64) -> Vec<TierBlock> {
    let mut tiers = Vec::new();
    let mut column_s = seconds(column_ns);
    let mut read = cells.read.coarser(COARSER);
    let mut write = cells.write.coarser(COARSER);
    loop {
        column_s *= COARSER as f64;
        tiers.push(tier([&read, &write], column_s, 1));
        if read.len() <= MIN_COLUMNS {
            return tiers;
        }
        read = read.coarser(COARSER);
        write = write.coarser(COARSER);
    }
}

fn tier([read, write]: [&SparseCells; 2], column_s: f64, together: usize) -> TierBlock {
    TierBlock {
        column_s,
        column_count: read.len().max(write.len()),
        columns_of_chunk: COLUMNS_OF_CHUNK,
        rows_together: together,
        read: chunks(read, together),
        write: chunks(write, together),
    }
}

fn chunks(cells: &SparseCells, together: usize) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut begin = 0;
    while begin < cells.len() {
        let end = (begin + COLUMNS_OF_CHUNK).min(cells.len());
        chunks.push(chunk(cells, begin..end, together));
        begin = end;
    }
    chunks
}

/// Packs some columns of `cells`, merging each `together` rows.
fn chunk(cells: &SparseCells, columns: Range<usize>, together: usize) -> String {
    let width = columns.len();
    let mut counts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (place, i) in columns.enumerate() {
        for (row, ios) in cells.column(i) {
            let row = usize::from(*row) / together;
            let row = counts.entry(row).or_insert_with(|| vec![0; width]);
            row[place] = row[place].saturating_add(*ios);
        }
    }
    let (Some((first, _)), Some((last, _))) = (counts.first_key_value(), counts.last_key_value())
    else {
        return String::new();
    };
    let rows = last - first + 1;
    let mut bytes = vec![0; 2 + rows * width];
    bytes[0] = *first as u8;
    bytes[1] = rows as u8;
    for (row, counts) in &counts {
        let begin = 2 + (row - first) * width;
        for (byte, ios) in bytes[begin..begin + width].iter_mut().zip(counts) {
            *byte = count_code(*ios);
        }
    }
    deflated(&bytes)
}

/// Counts up to this are stored exactly.
const EXACT_COUNT: u32 = 16;
/// Codes per octave above that.
const CODES_PER_OCTAVE: f64 = 8.0;

/// Encodes a count in one byte, with an error of at most 4.5 %.
fn count_code(ios: u32) -> u8 {
    if ios < EXACT_COUNT {
        return ios as u8;
    }
    let octaves = (f64::from(ios) / f64::from(EXACT_COUNT)).log2();
    let code = f64::from(EXACT_COUNT) + (CODES_PER_OCTAVE * octaves).round();
    code.min(255.0) as u8
}

/// Packs a document as JSON.
fn document(document: &impl Serialize) -> String {
    // Structs with string keys cannot fail to serialise; if they did, the page would report damaged data.
    deflated(&serde_json::to_vec(document).unwrap_or_default())
}

fn deflated(bytes: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(7));
    // Writing to memory cannot fail.
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(packed.unwrap_or_default())
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;
    use iolens_core::model::CallHistogram;

    use super::*;

    const MS: i64 = 1_000_000;

    fn inflated(text: &str) -> Vec<u8> {
        let packed = STANDARD.decode(text).unwrap();
        let mut bytes = Vec::new();
        ZlibDecoder::new(&packed[..])
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    }

    #[test]
    fn counts_are_exact_while_they_are_small_and_near_when_they_are_large() {
        let value = |code: u8| match u32::from(code) {
            exact if exact < EXACT_COUNT => f64::from(exact),
            code => 16.0 * 2f64.powf(f64::from(code - EXACT_COUNT) / CODES_PER_OCTAVE),
        };
        for ios in (0..100).chain([1_000, 123_456, 99_999_999]) {
            let off = (value(count_code(ios)) - f64::from(ios)).abs();
            assert!(off <= 0.045 * f64::from(ios), "{ios} is off by {off}");
            assert!(ios > EXACT_COUNT || off == 0.0, "{ios} is off by {off}");
        }
        assert_eq!(count_code(u32::MAX), 240);
    }

    #[test]
    fn a_chunk_has_a_byte_for_each_cell_and_none_where_nothing_completed() {
        let mut cells = SparseCells::default();
        cells.fill(COLUMNS_OF_CHUNK + 1);
        let mut column = CallHistogram::default();
        column.add(100_000, 3);
        column.add(800_000, 1);
        cells.push(&column);
        let chunks = chunks(&cells, 1);
        assert_eq!((chunks.len(), chunks[0].as_str()), (2, ""));
        let bytes = inflated(&chunks[1]);
        let low = LatencyRows::ALL.row_of(100_000.0);
        let high = LatencyRows::ALL.row_of(800_000.0);
        assert_eq!(usize::from(bytes[0]), low);
        assert_eq!(usize::from(bytes[1]), high - low + 1);
        assert_eq!(bytes.len(), 2 + 2 * (high - low + 1));
        assert_eq!((bytes[2], bytes[3], bytes[bytes.len() - 1]), (0, 3, 1));
    }

    /// Latencies of `ios` I/Os as a busy SSD has them: most are short, a few long. The same for the same `seed`.
    fn busy(ios: u64, seed: u64) -> CallHistogram {
        let mut column = CallHistogram::default();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for _ in 0..ios {
            // The sum of three is near enough to a bell.
            let bell = uniform() + uniform() + uniform() - 1.5;
            let tail = if uniform() < 0.02 {
                4.0 * uniform()
            } else {
                0.0
            };
            column.add((90_000.0 * (1.4 * bell + tail).exp()) as i64, 1);
        }
        column
    }

    /// One device with `columns` columns of 100 ms, a thousand I/Os each, half of them reads.
    fn busy_inside(columns: usize, distinct: usize) -> Inside {
        let samples: Vec<CallHistogram> = (0..distinct as u64).map(|i| busy(500, i + 1)).collect();
        let mut cells = DeviceCells {
            device: Some("nvme0n1".to_owned()),
            is_in_sum: true,
            read: SparseCells::default(),
            write: SparseCells::default(),
        };
        for i in 0..columns {
            // Another order each time, so that no repetition helps to pack them.
            cells.read.push(&samples[(i * i + i / distinct) % distinct]);
            cells.write.push(&samples[(i * 7 + i * i / 3) % distinct]);
        }
        Inside {
            unix_ns: 0..columns as i64 * 100 * MS,
            column_ns: 100 * MS,
            heats: vec![cells],
            ..Inside::default()
        }
    }

    fn weight(block: &HeatTiersBlock) -> usize {
        let tiers = block.scopes.iter().flat_map(|s| &s.tiers);
        tiers.map(TierBlock::weight).sum()
    }

    #[test]
    fn an_hour_of_ten_thousand_ios_a_second_has_every_row_in_under_2_mib() {
        let inside = busy_inside(36_000, 997);
        let mut left_out = Vec::new();
        let block = heat(&inside, usize::MAX, &mut left_out);
        let tiers = &block.scopes[0].tiers;
        assert_eq!((tiers[0].column_s, tiers[0].rows_together), (0.1, 1));
        assert!(tiers.len() >= 3 && left_out.is_empty(), "{left_out:?}");
        let bytes = weight(&block);
        eprintln!("an hour at 10k IOPS: {bytes} bytes of heat map");
        assert!(bytes < 2 << 20, "{bytes}");
    }

    #[test]
    fn what_does_not_fit_has_fewer_rows_and_then_no_finest_tier() {
        let inside = busy_inside(4_000, 97);
        let mut left_out = Vec::new();
        let all = weight(&heat(&inside, usize::MAX, &mut left_out));
        let fewer = heat(&inside, all - 1, &mut left_out);
        assert_eq!(fewer.scopes[0].tiers[0].rows_together, 2);
        assert!(weight(&fewer) < all && left_out.is_empty());
        let coarse = heat(&inside, all / 4, &mut left_out);
        assert_eq!(coarse.scopes[0].tiers[0].column_s, 1.0);
        assert!(left_out[0].contains("100 ms"), "{left_out:?}");
    }

    /// Takes a minute without optimisation: `cargo test --release -- --ignored a_day`.
    #[test]
    #[ignore = "takes a minute"]
    fn a_day_of_ten_thousand_ios_a_second_in_columns_of_100_ms_fits_into_10_mib() {
        let inside = busy_inside(864_000, 9973);
        let mut left_out = Vec::new();
        let block = heat(&inside, 9 << 20, &mut left_out);
        let bytes = weight(&block);
        let tiers = &block.scopes[0].tiers;
        eprintln!(
            "a day at 10k IOPS: {bytes} bytes, {} rows together",
            tiers[0].rows_together
        );
        assert!(tiers[0].column_s == 0.1 && bytes < 10 << 20, "{left_out:?}");
    }
}
