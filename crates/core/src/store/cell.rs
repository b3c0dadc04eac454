//! The types of column cells, and the conversion of model values to cells and back. A declaration of a table
//! ([`super::tables`]) names the type of each column; everything that depends on the type is here.

use std::collections::HashMap;

use super::column::{Column, Ints, Lists, Texts};
use super::frame_encoder::FrameEncoder;
use super::schema::Kind;
use crate::model::{CallHistogram, Class, Comm, LossReason};

/// The type of a column's cells. `Option` of another type makes a cell optional.
pub(crate) trait Cell {
    /// How it is stored.
    const KIND: Kind;
    /// Whether it must be there.
    const REQUIRED: bool;
    /// The type that a reader gets.
    type Read<'a>;

    /// The cell in `row` of a decoded column. Required cells have been checked before; a missing one reads as 0 or
    /// empty.
    fn read(column: &Column, row: usize) -> Self::Read<'_>;
}

/// A text.
#[derive(Debug)]
pub(crate) struct Text;

/// A list of numbers of 32 bits.
#[derive(Debug)]
pub(crate) struct List;

impl Cell for i64 {
    const KIND: Kind = Kind::I64;
    const REQUIRED: bool = true;
    type Read<'a> = i64;

    fn read(column: &Column, row: usize) -> i64 {
        column.int(row).unwrap_or(0)
    }
}

impl Cell for Option<i64> {
    const KIND: Kind = Kind::I64;
    const REQUIRED: bool = false;
    type Read<'a> = Option<i64>;

    fn read(column: &Column, row: usize) -> Option<i64> {
        column.int(row)
    }
}

impl Cell for i32 {
    const KIND: Kind = Kind::I32;
    const REQUIRED: bool = true;
    type Read<'a> = i32;

    fn read(column: &Column, row: usize) -> i32 {
        column.int(row).unwrap_or(0) as i32
    }
}

impl Cell for Option<i32> {
    const KIND: Kind = Kind::I32;
    const REQUIRED: bool = false;
    type Read<'a> = Option<i32>;

    fn read(column: &Column, row: usize) -> Option<i32> {
        column.int(row).map(|v| v as i32)
    }
}

impl Cell for Text {
    const KIND: Kind = Kind::Text;
    const REQUIRED: bool = true;
    type Read<'a> = &'a [u8];

    fn read(column: &Column, row: usize) -> &[u8] {
        column.text(row).unwrap_or_default()
    }
}

impl Cell for Option<Text> {
    const KIND: Kind = Kind::Text;
    const REQUIRED: bool = false;
    type Read<'a> = Option<&'a [u8]>;

    fn read(column: &Column, row: usize) -> Option<&[u8]> {
        column.text(row)
    }
}

impl Cell for Option<f64> {
    const KIND: Kind = Kind::F64;
    const REQUIRED: bool = false;
    type Read<'a> = Option<f64>;

    fn read(column: &Column, row: usize) -> Option<f64> {
        column.double(row)
    }
}

impl Cell for List {
    const KIND: Kind = Kind::List;
    const REQUIRED: bool = true;
    type Read<'a> = &'a [i32];

    fn read(column: &Column, row: usize) -> &[i32] {
        column.list(row)
    }
}

/// A value that can be stored in a text column.
pub(crate) trait Word: Copy + Eq {
    /// Appends the text.
    fn spell(&self, out: &mut Vec<u8>);
}

impl Word for &str {
    fn spell(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Word for Comm {
    fn spell(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Word for LossReason {
    fn spell(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name().as_bytes());
    }
}

impl Word for Class {
    fn spell(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name().as_bytes());
    }
}

impl Word for &CallHistogram {
    fn spell(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.to_string().as_bytes());
    }
}

/// A JSON object.
impl Word for &serde_json::Map<String, serde_json::Value> {
    fn spell(&self, out: &mut Vec<u8>) {
        let text = serde_json::Value::from((*self).clone()).to_string();
        out.extend_from_slice(text.as_bytes());
    }
}

/// A value that becomes a cell of type `C` in a frame of the log.
pub(crate) trait Framed<C: Cell>: Sized {
    /// Hands the values of the next column to `e`.
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = Self> + Clone);
}

impl Framed<i64> for i64 {
    #[inline]
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = i64> + Clone) {
        e.ints(values);
    }
}

impl Framed<Option<i64>> for Option<i64> {
    #[inline]
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = Option<i64>> + Clone) {
        e.options(values);
    }
}

impl Framed<i32> for i32 {
    #[inline]
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = i32> + Clone) {
        e.ints(values.map(i64::from));
    }
}

impl Framed<Option<i32>> for Option<i32> {
    #[inline]
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = Option<i32>> + Clone) {
        e.options(values.map(|v| v.map(i64::from)));
    }
}

impl<W: Word> Framed<Text> for W {
    #[inline]
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = W> + Clone) {
        e.texts(values.map(Some), W::spell);
    }
}

impl<W: Word> Framed<Option<Text>> for Option<W> {
    #[inline]
    fn frame(e: &mut FrameEncoder, values: impl ExactSizeIterator<Item = Option<W>> + Clone) {
        e.texts(values, W::spell);
    }
}

/// A value that becomes a cell of type `C` in a table that is written as a whole.
pub(crate) trait Collected<C: Cell>: Sized {
    /// The column of `values`.
    fn collect(values: impl Iterator<Item = Self>) -> Column;
}

impl Collected<i64> for i64 {
    fn collect(values: impl Iterator<Item = i64>) -> Column {
        Column::Ints(Ints {
            values: values.collect(),
            valid: None,
        })
    }
}

impl Collected<Option<i64>> for Option<i64> {
    fn collect(values: impl Iterator<Item = Option<i64>>) -> Column {
        Column::Ints(Ints::of(values))
    }
}

impl Collected<i32> for i32 {
    fn collect(values: impl Iterator<Item = i32>) -> Column {
        <i64 as Collected<i64>>::collect(values.map(i64::from))
    }
}

impl Collected<Option<i32>> for Option<i32> {
    fn collect(values: impl Iterator<Item = Option<i32>>) -> Column {
        Column::Ints(Ints::of(values.map(|v| v.map(i64::from))))
    }
}

impl<W: Word> Collected<Text> for W {
    fn collect(values: impl Iterator<Item = W>) -> Column {
        let mut texts = texts_of(values.map(Some));
        texts.index.valid = None;
        Column::Texts(texts)
    }
}

impl<W: Word> Collected<Option<Text>> for Option<W> {
    fn collect(values: impl Iterator<Item = Option<W>>) -> Column {
        Column::Texts(texts_of(values))
    }
}

impl Collected<Option<f64>> for Option<f64> {
    fn collect(values: impl Iterator<Item = Option<f64>>) -> Column {
        Column::Doubles(values.collect())
    }
}

impl Collected<List> for Vec<i32> {
    fn collect(values: impl Iterator<Item = Vec<i32>>) -> Column {
        let mut lists = Lists::default();
        for list in values {
            lists.values.extend(list);
            lists.ends.push(lists.values.len());
        }
        Column::Lists(lists)
    }
}

/// Assigns numbers to the distinct words, in order of first appearance.
fn texts_of<W: Word>(words: impl Iterator<Item = Option<W>>) -> Texts {
    let mut known = NumberedWords::default();
    let index = Ints::of(words.map(|word| Some(known.number_of(word?))));
    Texts {
        dictionary: known.words,
        index,
    }
}

/// Numbered words.
#[derive(Default)]
struct NumberedWords {
    words: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, i64>,
    /// Scratch buffer for the text of the current word, so that a known word costs no allocation.
    letters: Vec<u8>,
}

impl NumberedWords {
    fn number_of(&mut self, word: impl Word) -> i64 {
        self.letters.clear();
        word.spell(&mut self.letters);
        if let Some(number) = self.numbers.get(&self.letters) {
            return *number;
        }
        let number = self.words.len() as i64;
        self.words.push(self.letters.clone());
        self.numbers.insert(self.letters.clone(), number);
        number
    }
}
