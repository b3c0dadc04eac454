//! Builds the columns of a segment from its frames.

use std::collections::HashMap;

use super::column::{Ints, Texts};
use super::dictionary::{DictionaryPlaces, Distinct};
use super::frame::{BadFrame, FrameColumns, Packed};
use super::schema::{ColumnDef, ColumnLayout, Kind, Table};

/// Maximum number of distinct values in a dictionary. With more, the column is stored without one.
const MAX_DISTINCT: usize = 4096;

/// One column of a segment.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    pub rows: usize,
    /// Whether each row has a value; `None`: all have.
    pub valid: Option<&'a [bool]>,
    pub values: Values<'a>,
}

/// The values of the rows that have one.
#[derive(Debug)]
pub(crate) enum Values<'a> {
    Each(&'a [i64]),
    /// Indices into a dictionary of numbers.
    Numbers(&'a [i64], &'a DictionaryPlaces),
    /// Indices into a dictionary of texts.
    Words(&'a [Vec<u8>], &'a DictionaryPlaces),
}

/// Gathers one column after the other, reusing its buffers.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    /// The values of one whole column, and the number of that column.
    ints: Ints,
    holds: Option<usize>,
    known: Vec<i64>,
    distinct: Distinct,
    words: Vec<Vec<u8>>,
    placed: PlacedBlock,
}

impl Gatherer {
    /// Starts with new frames. Returns the order in which their rows must be written, or `None` if they are sorted by
    /// time already.
    pub fn time_order(
        &mut self,
        table: Table,
        frames: &[FrameColumns<'_>],
    ) -> Result<Option<Vec<u32>>, BadFrame> {
        self.holds = None;
        self.read(table.time_column(), frames)?;
        let times = &self.ints.values;
        if times.is_sorted() {
            return Ok(None);
        }
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        order.sort_by_key(|i| times[*i as usize]);
        Ok(Some(order))
    }

    /// Gathers column `i` of all frames in the given order. `frames` must be those passed to [`Gatherer::time_order`].
    pub fn gather(
        &mut self,
        i: usize,
        def: &ColumnDef,
        frames: &[FrameColumns<'_>],
        order: Option<&[u32]>,
    ) -> Result<Gathered<'_>, BadFrame> {
        self.placed.clear();
        if def.kind == Kind::Text {
            self.place_texts(i, frames, order)?;
            return Ok(self
                .placed
                .gathered(|places| Values::Words(&self.words, places)));
        }
        let few = match def.layout {
            ColumnLayout::Time => false,
            ColumnLayout::Few => true,
            ColumnLayout::Many => is_steady(i, frames)?,
        };
        if few && self.place_numbers(i, frames, order)? {
            return Ok(self
                .placed
                .gathered(|places| Values::Numbers(&self.distinct.values, places)));
        }
        self.read_ordered(i, frames, order)?;
        let Ints { values, valid } = &self.ints;
        let values = match valid {
            None => values,
            Some(valid) => {
                self.known.clear();
                self.known.extend(
                    values
                        .iter()
                        .zip(valid)
                        .filter(|(_, valid)| **valid)
                        .map(|(v, _)| *v),
                );
                &self.known
            }
        };
        Ok(Gathered {
            rows: self.ints.len(),
            valid: valid.as_deref(),
            values: Values::Each(values),
        })
    }

    fn read(&mut self, i: usize, frames: &[FrameColumns<'_>]) -> Result<(), BadFrame> {
        if self.holds.replace(i) != Some(i) {
            self.ints.clear();
            frames.iter().try_for_each(|f| f.ints(i, &mut self.ints))?;
        }
        Ok(())
    }

    fn read_ordered(
        &mut self,
        i: usize,
        frames: &[FrameColumns<'_>],
        order: Option<&[u32]>,
    ) -> Result<(), BadFrame> {
        self.read(i, frames)?;
        if let Some(order) = order {
            self.ints = self.ints.permuted(order);
            self.holds = None;
        }
        Ok(())
    }

    /// Builds the dictionary of numbers of column `i`; `false` if it has too many distinct values.
    fn place_numbers(
        &mut self,
        i: usize,
        frames: &[FrameColumns<'_>],
        order: Option<&[u32]>,
    ) -> Result<bool, BadFrame> {
        self.distinct.start(MAX_DISTINCT);
        if order.is_some() {
            self.read_ordered(i, frames, order)?;
            return Ok(self.placed.add_ints(&self.ints, |v| self.distinct.place(v)));
        }
        for f in frames {
            if !self.placed.add(&f.packed(i)?, |v| self.distinct.place(v))? {
                self.placed.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds the dictionary of texts of column `i`.
    fn place_texts(
        &mut self,
        i: usize,
        frames: &[FrameColumns<'_>],
        order: Option<&[u32]>,
    ) -> Result<(), BadFrame> {
        self.words.clear();
        let mut seen = HashMap::new();
        if let Some(order) = order {
            let mut texts = Texts::default();
            frames
                .iter()
                .try_for_each(|f| f.texts(i, &mut texts, &mut seen))?;
            self.words = texts.dictionary;
            self.placed
                .add_ints(&texts.index.permuted(order), |v| Some(v as u32));
            return Ok(());
        }
        for f in frames {
            let (index, column) = f.packed_texts(i, &mut self.words, &mut seen)?;
            let all_placed = self.placed.add(&column, |v| {
                let place = index.get(usize::try_from(v).ok()?)?;
                Some(*place as u32)
            })?;
            if !all_placed {
                return Err(BadFrame);
            }
        }
        Ok(())
    }
}

/// Whether all rows of column `i` are the same.
fn is_steady(i: usize, frames: &[FrameColumns<'_>]) -> Result<bool, BadFrame> {
    let mut first = None;
    for f in frames {
        let steady = f.packed(i)?.steady();
        if steady.is_none() || steady != *first.get_or_insert(steady) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Rows as dictionary indices.
#[derive(Debug, Default)]
struct PlacedBlock {
    rows: usize,
    /// Whether each row has a value; empty as long as all have.
    valid: Vec<bool>,
    /// Indices of the rows with a value.
    places: DictionaryPlaces,
    ints: Ints,
}

impl PlacedBlock {
    fn clear(&mut self) {
        self.rows = 0;
        self.valid.clear();
        self.places.clear();
    }

    fn gathered<'a>(
        &'a self,
        values: impl FnOnce(&'a DictionaryPlaces) -> Values<'a>,
    ) -> Gathered<'a> {
        let valid = (!self.valid.is_empty()).then_some(&*self.valid);
        Gathered {
            rows: self.rows,
            valid,
            values: values(&self.places),
        }
    }

    /// Adds the rows of a frame; `false` if the dictionary has no room for one of its values.
    fn add(
        &mut self,
        column: &Packed<'_>,
        mut place: impl FnMut(i64) -> Option<u32>,
    ) -> Result<bool, BadFrame> {
        if let Some(value) = column.steady() {
            match value.map(place) {
                Some(None) => return Ok(false),
                Some(Some(place)) => self.places.repeat(place, column.rows),
                None => {}
            }
            self.mark(column.rows, value.is_some());
        } else if let Some((base, offsets)) = column.byte_offsets() {
            let mut of = [u32::MAX; 256];
            for offset in offsets {
                let of = &mut of[usize::from(*offset)];
                if *of == u32::MAX {
                    let Some(place) = place(base.wrapping_add((*offset).into())) else {
                        return Ok(false);
                    };
                    *of = place;
                }
            }
            self.places
                .extend(offsets.iter().map(|offset| of[usize::from(*offset)]));
            self.mark(column.rows, true);
        } else {
            let mut ints = std::mem::take(&mut self.ints);
            ints.clear();
            column.decode(&mut ints);
            let all = self.add_ints(&ints, place);
            self.ints = ints;
            return Ok(all);
        }
        Ok(true)
    }

    /// Adds rows; `false` if the dictionary has no room for one of the values.
    fn add_ints(&mut self, ints: &Ints, mut place: impl FnMut(i64) -> Option<u32>) -> bool {
        let mut all = true;
        let mut place = |v: &i64| {
            place(*v).unwrap_or_else(|| {
                all = false;
                0
            })
        };
        match &ints.valid {
            None => {
                self.places.extend(ints.values.iter().map(place));
                self.mark(ints.len(), true);
            }
            Some(valid) => {
                let known = ints.values.iter().zip(valid).filter(|(_, valid)| **valid);
                self.places.extend(known.map(|(v, _)| place(v)));
                self.mark(0, false);
                self.valid.extend(valid);
                self.rows += valid.len();
            }
        }
        all
    }

    /// Sets whether the next `n` rows have a value.
    fn mark(&mut self, n: usize, known: bool) {
        if !known || !self.valid.is_empty() {
            self.valid.resize(self.rows, true);
            self.valid.resize(self.rows + n, known);
        }
        self.rows += n;
    }
}
