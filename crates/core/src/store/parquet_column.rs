//! Reads batches of decoded values from a column chunk, whatever integer or text type its writer chose.

use std::collections::HashMap;
use std::path::Path;

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use super::column::{Column, Ints, Lists, Texts};
use super::parquet_read::{ColumnChunk, ReadFailure};
use super::schema::Kind;
use super::text;

impl ColumnChunk {
    /// Skips `rows` rows.
    pub fn skip(&mut self, rows: usize) -> Result<(), ReadFailure> {
        let skipped = match &mut self.reader {
            ColumnReader::Int32ColumnReader(r) => r.skip_records(rows)?,
            ColumnReader::Int64ColumnReader(r) => r.skip_records(rows)?,
            ColumnReader::ByteArrayColumnReader(r) => r.skip_records(rows)?,
            ColumnReader::DoubleColumnReader(r) => r.skip_records(rows)?,
            ColumnReader::FloatColumnReader(r) => r.skip_records(rows)?,
            _ => 0,
        };
        self.row += skipped;
        if skipped == rows {
            Ok(())
        } else {
            Err(cut(self))
        }
    }

    /// Decodes the next `rows` rows.
    pub fn read(&mut self, path: &Path, rows: usize) -> Result<Column, ReadFailure> {
        let column = match self.def.kind {
            Kind::I32 | Kind::I64 | Kind::Text => self.read_numbers_or_texts(path, rows)?,
            Kind::F64 => Column::Doubles(self.read_doubles(rows)?),
            Kind::List => Column::Lists(self.read_lists(rows)?),
        };
        self.row += rows;
        Ok(column)
    }

    fn read_numbers_or_texts(&mut self, path: &Path, rows: usize) -> Result<Column, ReadFailure> {
        let mut levels = Vec::new();
        let column = match &mut self.reader {
            ColumnReader::Int32ColumnReader(r) => {
                let mut raw: Vec<i32> = Vec::with_capacity(rows);
                let (n, ..) = r.read_records(rows, Some(&mut levels), None, &mut raw)?;
                let values = if self.unsigned {
                    raw.into_iter().map(|v| i64::from(v as u32)).collect()
                } else {
                    raw.into_iter().map(i64::from).collect()
                };
                Some((
                    n,
                    Column::Ints(Ints {
                        values,
                        valid: None,
                    }),
                ))
            }
            ColumnReader::Int64ColumnReader(r) => {
                let mut values: Vec<i64> = Vec::with_capacity(rows);
                let (n, ..) = r.read_records(rows, Some(&mut levels), None, &mut values)?;
                if self.unsigned && values.iter().any(|v| *v < 0) {
                    return Err(bad(path, self, "holds an unsigned number beyond 2^63 - 1"));
                }
                Some((
                    n,
                    Column::Ints(Ints {
                        values,
                        valid: None,
                    }),
                ))
            }
            ColumnReader::ByteArrayColumnReader(r) => {
                let mut raw: Vec<ByteArray> = Vec::with_capacity(rows);
                let (n, ..) = r.read_records(rows, Some(&mut levels), None, &mut raw)?;
                Some((n, Column::Texts(intern(&raw, self.escaped))))
            }
            _ => None,
        };
        let Some((n, mut column)) = column else {
            return Err(cut(self));
        };
        if n != rows {
            return Err(cut(self));
        }
        // At this point the column holds values of non-null rows only.
        let (Column::Ints(ints) | Column::Texts(Texts { index: ints, .. })) = &mut column else {
            return Err(cut(self));
        };
        if self.nullable
            && !self.def.required
            && ints.values.is_empty()
            && levels.iter().all(|l| *l == 0)
        {
            return Ok(Column::Absent);
        }
        if self.nullable {
            spread(ints, &levels).map_err(|_| cut(self))?;
        }
        self.check(path, ints)?;
        Ok(column)
    }

    fn read_doubles(&mut self, rows: usize) -> Result<Vec<Option<f64>>, ReadFailure> {
        let mut levels = Vec::new();
        let mut values: Vec<f64> = Vec::new();
        let n = match &mut self.reader {
            ColumnReader::DoubleColumnReader(r) => {
                r.read_records(rows, Some(&mut levels), None, &mut values)?
                    .0
            }
            ColumnReader::FloatColumnReader(r) => {
                let mut raw: Vec<f32> = Vec::new();
                let (n, ..) = r.read_records(rows, Some(&mut levels), None, &mut raw)?;
                values.extend(raw.into_iter().map(f64::from));
                n
            }
            _ => 0,
        };
        if n != rows {
            return Err(cut(self));
        }
        let mut values = values.into_iter();
        if !self.nullable {
            return Ok(values.map(Some).collect());
        }
        // Null rows have no value in the file.
        Ok(levels
            .into_iter()
            .map(|level| if level > 0 { values.next() } else { None })
            .collect())
    }

    fn read_lists(&mut self, rows: usize) -> Result<Lists, ReadFailure> {
        let mut lists = Lists::default();
        let mut defined = Vec::new();
        let mut repeated = Vec::new();
        let n = match &mut self.reader {
            ColumnReader::Int32ColumnReader(r) => {
                let values = &mut lists.values;
                r.read_records(rows, Some(&mut defined), Some(&mut repeated), values)?
                    .0
            }
            _ => 0,
        };
        // The file has one level per element and one per empty list. A list starts where the repetition level is 0.
        let mut elements = 0;
        for (level, repeats) in defined.into_iter().zip(repeated) {
            if repeats == 0 {
                lists.ends.push(elements);
            }
            elements += usize::from(level == self.max_definition);
            if let Some(end) = lists.ends.last_mut() {
                *end = elements;
            }
        }
        if n != rows || lists.ends.len() != rows || elements != lists.values.len() {
            return Err(cut(self));
        }
        Ok(lists)
    }

    fn check(&self, path: &Path, ints: &Ints) -> Result<(), ReadFailure> {
        if self.def.required && ints.valid.is_some() {
            return Err(bad(path, self, "holds a null, and it is required"));
        }
        if let Some(problem) = self.def.problem(ints, self.row, self.foreign) {
            return Err(bad(path, self, &problem));
        }
        if self.def.kind == Kind::I32 && ints.values.iter().any(|v| i32::try_from(*v).is_err()) {
            return Err(bad(path, self, "holds a number beyond 32 bits"));
        }
        Ok(())
    }
}

fn cut(chunk: &ColumnChunk) -> ReadFailure {
    ReadFailure::Damage(format!(
        "column {} has fewer rows than its row group",
        chunk.def.name
    ))
}

fn bad(path: &Path, chunk: &ColumnChunk, problem: &str) -> ReadFailure {
    ReadFailure::bad_column(path, chunk.def.name, problem)
}

/// Moves values, which are stored without nulls, to their rows.
fn spread(ints: &mut Ints, levels: &[i16]) -> Result<(), ParquetError> {
    let nulls = levels.iter().filter(|l| **l == 0).count();
    if nulls + ints.values.len() != levels.len() {
        return Err(ParquetError::General(
            "definition levels do not fit".to_owned(),
        ));
    }
    if nulls == 0 {
        return Ok(());
    }
    let mut known = ints.values.iter();
    let values = levels
        .iter()
        .map(|l| {
            if *l == 0 {
                0
            } else {
                known.next().copied().unwrap_or(0)
            }
        })
        .collect();
    *ints = Ints {
        values,
        valid: Some(levels.iter().map(|l| *l != 0).collect()),
    };
    Ok(())
}

/// Converts texts to dictionary indices. Most texts come from the page's own dictionary and share its memory, so the
/// index is compared before the text. `escaped`: the texts were written by [`text::escape`].
fn intern(raw: &[ByteArray], escaped: bool) -> Texts {
    const NEAR_BITS: u32 = 6;
    let mut texts = Texts::default();
    texts.index.values.reserve(raw.len());
    let mut seen: HashMap<&[u8], i64> = HashMap::new();
    let mut near: [(&[u8], i64); 1 << NEAR_BITS] = [(&[], -1); 1 << NEAR_BITS];
    for word in raw {
        let word = word.data();
        let slot =
            (word.as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - NEAR_BITS);
        let (known, index) = &mut near[slot as usize];
        if *index < 0 || !std::ptr::eq(*known, word) {
            let next = texts.dictionary.len() as i64;
            *index = *seen.entry(word).or_insert(next);
            if *index == next {
                texts.dictionary.push(if escaped {
                    text::unescape(word)
                } else {
                    word.to_vec()
                });
            }
            *known = word;
        }
        texts.index.values.push(*index);
    }
    texts
}
