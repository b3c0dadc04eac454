//! Merges blocks into one stream in time order. Blocks overlap rarely, so usually one is open at a time.

use std::collections::VecDeque;
use std::ops::Range;

use super::block::{Block, Cursor};
use super::error::StoreError;
use super::parquet_read::ReadFailure;
use super::row::Row;
use crate::model::{LossReason, Lost};

/// Maximum rows of overlapping row groups that may be open at the same time; their times take 256 MiB.
const MAX_OPEN_ROWS: usize = if cfg!(test) { 20_000 } else { 32 << 20 };

/// Rows per batch where blocks overlap and are merged row by row.
const MERGED: usize = 4096;

/// The rows of a time range over all blocks of a table, in order, in batches.
pub(crate) struct TableReader<R> {
    /// Blocks not opened yet, by their first time.
    waiting: VecDeque<Block>,
    /// For each waiting block, the earliest start of any row in it or in later blocks.
    floors: VecDeque<i64>,
    open: Vec<(Block, Cursor<R>)>,
    range: Range<i64>,
    selected: u64,
    damage: Vec<Lost>,
    warnings: Vec<String>,
    failed: bool,
}

impl<R: Row> TableReader<R> {
    /// `selected` has a bit for every optional column that is to be decoded.
    pub fn new(blocks: &[Block], range: Range<i64>, selected: u64) -> TableReader<R> {
        let mut waiting: Vec<Block> = blocks
            .iter()
            .filter(|b| b.max >= range.start && b.min < range.end)
            .cloned()
            .collect();
        waiting.sort_by_key(|b| b.min);
        for block in &mut waiting {
            block.measure_log(R::TABLE);
        }
        let mut floor = i64::MAX;
        let floors = waiting.iter().rev().map(|b| {
            floor = floor.min(b.began(b.min));
            floor
        });
        let floors: Vec<i64> = floors.collect();
        TableReader {
            floors: floors.into_iter().rev().collect(),
            waiting: waiting.into(),
            open: Vec::new(),
            range,
            selected,
            damage: Vec::new(),
            warnings: Vec::new(),
            failed: false,
        }
    }

    /// Lower bound of the start of all rows still to come; `i64::MIN` if not known, `i64::MAX` if there are none.
    pub fn later_start(&self) -> i64 {
        let open = self
            .open
            .iter()
            .map(|(block, cursor)| block.began(cursor.head()));
        open.chain(self.floors.front().copied())
            .min()
            .unwrap_or(i64::MAX)
    }

    /// Opens every block that may hold the next row. A block that begins exactly at the time of the next row stays
    /// closed: rows of equal time have no order, so any number of blocks of one time can be read one after the other.
    fn open_due(&mut self) -> Result<(), StoreError> {
        loop {
            let head = self.open.iter().map(|(_, c)| c.head()).min();
            if self
                .waiting
                .front()
                .is_some_and(|b| head.is_some_and(|head| b.min >= head))
            {
                return Ok(());
            }
            let Some(block) = self.waiting.pop_front() else {
                return Ok(());
            };
            self.floors.pop_front();
            let open: usize = self.open.iter().map(|(b, _)| b.rows).sum();
            if !self.open.is_empty() && open.saturating_add(block.rows) > MAX_OPEN_ROWS {
                let what = format!(
                    "its times overlap with those of others; at most {MAX_OPEN_ROWS} such rows are merged"
                );
                self.give_up(&block, block.rows, ReadFailure::Damage(what))?;
                continue;
            }
            let selected = self.selected;
            let cursor = block.open::<R>(&self.range, &|i| selected & 1 << i != 0);
            match cursor.and_then(|mut c| Ok(c.fill()?.then_some(c))) {
                Ok(Some(cursor)) => self.open.push((block, cursor)),
                Ok(None) => {}
                Err(trouble) => self.give_up(&block, block.rows, trouble)?,
            }
        }
    }

    /// Notes the rows lost with a damaged block. Any other error ends the reading.
    fn give_up(
        &mut self,
        block: &Block,
        rows: usize,
        trouble: ReadFailure,
    ) -> Result<(), StoreError> {
        let (reason, what) = match trouble {
            ReadFailure::Fatal(e) => return Err(e),
            ReadFailure::Gone => (
                LossReason::Retention,
                "removed while it was being read".to_owned(),
            ),
            ReadFailure::Damage(what) => (LossReason::Corrupt, format!("damaged: {what}")),
        };
        self.warnings.push(format!(
            "{}: {what}; {rows} rows of {} are missing",
            block.describe(),
            R::TABLE.name()
        ));
        self.damage.push(super::reader::lost_block(
            block.min,
            block.max,
            Some(rows as i64),
            reason,
        ));
        Ok(())
    }

    /// Refills cursor `i` or drops it at its end.
    fn advance(&mut self, i: usize) -> Result<(), StoreError> {
        let left = self.open[i].1.rows_left();
        match self.open[i].1.fill() {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.open.remove(i);
                Ok(())
            }
            Err(trouble) => {
                let (block, _) = self.open.remove(i);
                self.give_up(&block, left, trouble)
            }
        }
    }

    fn batch(&mut self) -> Result<Option<Vec<R>>, StoreError> {
        self.open_due()?;
        if self.open.is_empty() {
            return Ok(None);
        }
        let limit = self.waiting.front().map(|b| b.min);
        if let [(_, cursor)] = self.open.as_mut_slice() {
            let rows = cursor.take_until(limit);
            self.advance(0)?;
            return Ok(Some(rows));
        }
        let mut rows = Vec::with_capacity(MERGED);
        while rows.len() < MERGED {
            let heads = self
                .open
                .iter()
                .enumerate()
                .map(|(i, (_, c))| (c.head(), i));
            let Some((head, i)) = heads.min() else { break };
            if limit.is_some_and(|limit| head > limit) {
                break;
            }
            rows.extend(self.open[i].1.pop());
            self.advance(i)?;
        }
        Ok(Some(rows))
    }
}

impl<R> TableReader<R> {
    /// The damaged blocks found so far, as losses.
    pub fn damage(&self) -> &[Lost] {
        &self.damage
    }

    /// The damaged blocks found so far, as messages.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl<R: Row> Iterator for TableReader<R> {
    type Item = Result<Vec<R>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let batch = self.batch();
        self.failed = batch.is_err();
        batch.transpose()
    }
}
