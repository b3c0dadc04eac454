//! How reports look: options and environment.

use crate::cli::iostat::{Options, Unit};
use crate::present::iostat::color::Colors;
use crate::present::iostat::{SizeUnit, Style};
use iolens_observe::counters::Locale;
use std::os::unix::ffi::OsStrExt;

/// The style that options and environment ask for.
pub fn style(o: &Options, locale: &Locale) -> Style {
    let unit = match o.unit {
        Some(Unit::Kilo) => SizeUnit::Kilo,
        Some(Unit::Mega) => SizeUnit::Mega,
        Some(Unit::Giga) => SizeUnit::Giga,
        None if std::env::var_os("POSIXLY_CORRECT").is_some() => SizeUnit::Blocks,
        None => SizeUnit::Kilo,
    };
    let colors = std::env::var_os("S_COLORS");
    let sgr = std::env::var_os("S_COLORS_SGR");
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    Style {
        extended: o.extended,
        short: o.short,
        pretty: o.pretty,
        human: o.human,
        compact: o.compact,
        decimals: o.decimals,
        unit,
        decimal_point: locale.decimal_point(),
        exact: o.exact,
        percentiles: o.percentiles,
        colors: Colors::from_environment(
            colors.as_ref().map(|c| c.as_bytes()),
            sgr.as_ref().map(|c| c.as_bytes()),
            terminal,
        ),
    }
}
