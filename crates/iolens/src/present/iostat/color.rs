//! Colours of the reports: `S_COLORS` and `S_COLORS_SGR`.

/// Ends a colour.
pub const RESET: &[u8] = b"\x1b[0m";

/// The escape sequence before each kind of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Colors {
    /// Values that show as zero.
    pub zero: Vec<u8>,
    /// Other values.
    pub nonzero: Vec<u8>,
    /// Percentages that deserve a look.
    pub warning: Vec<u8>,
    /// Percentages that deserve alarm.
    pub extreme: Vec<u8>,
    /// Names.
    pub item: Vec<u8>,
}

impl Default for Colors {
    fn default() -> Colors {
        Colors {
            zero: sgr(b"34;22"),
            nonzero: sgr(b"34;1"),
            warning: sgr(b"35;1"),
            extreme: sgr(b"31;1"),
            item: sgr(b"32;22"),
        }
    }
}

impl Colors {
    /// The colours that the environment asks for, if it asks for any: `S_COLORS` is `always`, or it is not `never` and
    /// the output is a terminal. `S_COLORS_SGR` holds `K=codes` items between colons; bad ones are ignored.
    pub fn from_environment(
        s_colors: Option<&[u8]>,
        s_colors_sgr: Option<&[u8]>,
        terminal: bool,
    ) -> Option<Colors> {
        match s_colors {
            Some(b"never") => return None,
            Some(b"always") => {}
            _ if !terminal => return None,
            _ => {}
        }
        let mut colors = Colors::default();
        for item in s_colors_sgr.unwrap_or_default().split(|b| *b == b':') {
            let [key, b'=', codes @ ..] = item else {
                continue;
            };
            if !(3..=18).contains(&item.len())
                || !codes.iter().all(|b| b.is_ascii_digit() || *b == b';')
            {
                continue;
            }
            match key {
                b'M' | b'W' => colors.warning = sgr(codes),
                b'X' | b'H' => colors.extreme = sgr(codes),
                b'Z' => colors.zero = sgr(codes),
                b'N' => colors.nonzero = sgr(codes),
                b'I' => colors.item = sgr(codes),
                _ => {}
            }
        }
        Some(colors)
    }
}

fn sgr(codes: &[u8]) -> Vec<u8> {
    [b"\x1b[", codes, b"m"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_they_are_on() {
        let on = |colors: Option<&str>, tty| {
            Colors::from_environment(colors.map(str::as_bytes), None, tty).is_some()
        };
        assert!(
            on(None, true)
                && on(Some("auto"), true)
                && on(Some("always"), false)
                && on(Some("x"), true)
        );
        assert!(
            !on(None, false)
                && !on(Some("never"), true)
                && !on(Some("auto"), false)
                && !on(Some(""), false)
        );
    }

    #[test]
    fn items_of_the_list() {
        let c = |s: &str| {
            Colors::from_environment(Some(b"always"), Some(s.as_bytes()), false).expect("on")
        };
        assert_eq!(c("H=31;1:I=1;2;3").item, b"\x1b[1;2;3m");
        assert_eq!(c("W=7:M=8").warning, b"\x1b[8m", "later ones win");
        for bad in [
            "I=",
            "I",
            "I=3x",
            "I-3",
            "Q=3",
            "I=1234567890;123456789",
            "::",
            "C=3",
            "+=3",
        ] {
            assert_eq!(c(bad), Colors::default(), "{bad}");
        }
    }
}
