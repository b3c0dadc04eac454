//! `--source`: where I/Os or counters come from.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use iolens_recorder::SourceChoice;

/// The parser of `--source`.
pub fn source_choice() -> impl TypedValueParser<Value = SourceChoice> {
    PossibleValuesParser::new([
        PossibleValue::new("auto").help("eBPF where it is allowed, else counters"),
        PossibleValue::new("ebpf").help("eBPF or fail"),
        PossibleValue::new("counters").help("Counters only"),
    ])
    .map(|word| match word.as_str() {
        "ebpf" => SourceChoice::Ebpf,
        "counters" => SourceChoice::Counters,
        _ => SourceChoice::Auto,
    })
}
