//! The colours that the terminal supports.

use ratatui::style::{Color, Modifier, Style};

/// How many colours there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// 24-bit colours.
    True,
    /// The 256 colours of xterm.
    Ansi256,
    /// The 8 colours of ECMA-48 and their bright variants.
    Ansi16,
    /// No colours: shades and attributes only.
    Mono,
}

/// Colours and characters for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    /// How many colours there are.
    pub depth: Depth,
    /// Whether the background is light.
    pub is_light: bool,
    /// Whether the terminal's character set has blocks and shades.
    pub has_blocks: bool,
}

/// The ramp on a dark background: each step is lighter, and the first is clearly visible on black.
const RAMP: [(u8, u8, u8); 8] = [
    (74, 58, 133),
    (110, 64, 160),
    (155, 66, 160),
    (198, 73, 140),
    (232, 92, 106),
    (249, 132, 73),
    (252, 182, 62),
    (250, 240, 140),
];
const RAMP_256: [u8; 8] = [61, 97, 133, 169, 204, 209, 215, 228];
/// The ramp on a light background: each step is darker.
const RAMP_LIGHT: [(u8, u8, u8); 8] = [
    (214, 202, 240),
    (190, 170, 230),
    (168, 136, 218),
    (146, 102, 204),
    (124, 70, 186),
    (100, 42, 160),
    (74, 20, 126),
    (44, 4, 84),
];
const RAMP_LIGHT_256: [u8; 8] = [189, 183, 147, 141, 98, 92, 55, 17];
const RAMP_16: [Color; 5] = [
    Color::Blue,
    Color::Magenta,
    Color::Red,
    Color::Yellow,
    Color::White,
];
const RAMP_LIGHT_16: [Color; 5] = [
    Color::Cyan,
    Color::Blue,
    Color::Magenta,
    Color::Red,
    Color::Black,
];
const SHADES: [&str; 4] = ["░", "▒", "▓", "█"];
const ASCII_SHADES: [&str; 4] = [".", ":", "o", "#"];
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_BARS: [&str; 8] = [".", ".", ":", ":", "+", "+", "#", "#"];

impl Palette {
    /// Detects the palette from environment variables, which `variable` reads.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Palette {
        let term = variable("TERM").unwrap_or_default();
        let colour_term = variable("COLORTERM").unwrap_or_default();
        let depth = if variable("NO_COLOR").is_some_and(|v| !v.is_empty()) {
            Depth::Mono
        } else if colour_term.contains("truecolor")
            || colour_term.contains("24bit")
            || term.ends_with("-direct")
        {
            Depth::True
        } else if term.contains("256color") {
            Depth::Ansi256
        } else if term.starts_with("vt") || term.ends_with("-m") || term.ends_with("-mono") {
            Depth::Mono
        } else {
            Depth::Ansi16
        };
        // COLORFGBG is `foreground;background`, as numbers of the 16 colours; 7 and 15 are white.
        let background = variable("COLORFGBG").unwrap_or_default();
        let background = background.rsplit(';').next().unwrap_or("");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(variable)
            .find(|v| !v.is_empty());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Palette {
            depth,
            is_light: matches!(background, "7" | "15"),
            has_blocks: locale.contains("utf"),
        }
    }

    /// Whether one character can show two rows of the heat map: half blocks need a colour for each half.
    pub fn has_halves(self) -> bool {
        self.depth != Depth::Mono && self.has_blocks
    }

    /// The colour of a share (0 to 1) of the largest count. A share above 0 never has the colour of the background.
    pub fn heat(self, share: f64) -> Color {
        let steps = if self.depth == Depth::Ansi16 {
            RAMP_16.len()
        } else {
            RAMP.len()
        };
        let step = ((share * steps as f64) as usize).min(steps - 1);
        match (self.depth, self.is_light) {
            (Depth::True, is_light) => {
                let (r, g, b) = if is_light {
                    RAMP_LIGHT[step]
                } else {
                    RAMP[step]
                };
                Color::Rgb(r, g, b)
            }
            (Depth::Ansi256, false) => Color::Indexed(RAMP_256[step]),
            (Depth::Ansi256, true) => Color::Indexed(RAMP_LIGHT_256[step]),
            (Depth::Ansi16, false) => RAMP_16[step],
            (Depth::Ansi16, true) => RAMP_LIGHT_16[step],
            (Depth::Mono, _) => Color::Reset,
        }
    }

    /// The shade character of a share, for terminals without colours.
    pub fn shade(self, share: f64) -> &'static str {
        let step = ((share * 4.0) as usize).min(3);
        if self.has_blocks {
            SHADES[step]
        } else {
            ASCII_SHADES[step]
        }
    }

    /// The bar character of a share (0 to 1). A share above 0 is visible.
    pub fn bar(self, share: f64) -> &'static str {
        let step = ((share * 8.0).ceil() as usize).clamp(1, 8) - 1;
        if self.has_blocks {
            BARS[step]
        } else {
            ASCII_BARS[step]
        }
    }

    /// One of two texts, depending on whether the terminal's character set has blocks.
    pub fn text<'a>(self, with_blocks: &'a str, plain: &'a str) -> &'a str {
        if self.has_blocks { with_blocks } else { plain }
    }

    /// Style of titles.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style of less important text.
    pub fn faint(self) -> Style {
        match self.depth {
            Depth::Mono => Style::new(),
            Depth::Ansi16 if self.is_light => Style::new(),
            Depth::Ansi16 => Style::new().fg(Color::Gray),
            _ if self.is_light => Style::new().fg(Color::Indexed(243)),
            _ => Style::new().fg(Color::Indexed(247)),
        }
    }

    /// Style of warnings.
    pub fn warning(self) -> Style {
        let bold = self.heading();
        match self.depth {
            Depth::Mono => bold,
            _ if self.is_light => bold.fg(Color::Red),
            _ => bold.fg(Color::Yellow),
        }
    }

    /// Style of reads and writes.
    pub fn class(self, is_write: bool) -> Style {
        match (self.depth, is_write) {
            (Depth::Mono, _) => Style::new(),
            (_, false) => Style::new().fg(if self.is_light {
                Color::Blue
            } else {
                Color::Cyan
            }),
            (_, true) => Style::new().fg(if self.is_light {
                Color::Red
            } else {
                Color::LightYellow
            }),
        }
    }

    /// Style of the selection.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn palette(variables: &[(&str, &str)]) -> Palette {
        Palette::from_environment(|name| {
            let found = variables.iter().find(|v| v.0 == name);
            found.map(|v| v.1.to_owned())
        })
    }

    #[test]
    fn the_environment_decides_how_many_colours_there_are() {
        let depth = |variables: &[(&str, &str)]| palette(variables).depth;
        assert_eq!(depth(&[("TERM", "xterm-256color")]), Depth::Ansi256);
        assert_eq!(
            depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
            Depth::True
        );
        assert_eq!(depth(&[("TERM", "linux")]), Depth::Ansi16);
        assert_eq!(depth(&[("TERM", "vt100")]), Depth::Mono);
        assert_eq!(
            depth(&[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]),
            Depth::Mono
        );
    }

    #[test]
    fn a_light_background_and_an_old_character_set_are_known() {
        let light = palette(&[("COLORFGBG", "0;15"), ("LANG", "de_DE.UTF-8")]);
        assert!(light.is_light && light.has_blocks);
        let dark = palette(&[("COLORFGBG", "15;0"), ("LANG", "C")]);
        assert!(!dark.is_light && !dark.has_blocks);
        assert_eq!((dark.shade(0.0), dark.bar(1.0)), (".", "#"));
    }

    #[test]
    fn a_single_io_is_never_drawn_in_the_background() {
        for depth in [Depth::True, Depth::Ansi256, Depth::Ansi16] {
            for is_light in [false, true] {
                let palette = Palette {
                    depth,
                    is_light,
                    has_blocks: true,
                };
                let least = palette.heat(0.0);
                assert!(!matches!(least, Color::Reset | Color::Black), "{depth:?}");
                assert_ne!(least, palette.heat(1.0));
            }
        }
    }
}
