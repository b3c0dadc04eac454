//! What happened, as it is recognised.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Scene, put, row, rows};
use crate::live::screen::words;
use crate::present::escape::terminal;
use crate::present::layout::{cut, cut_end, wrapped};
use crate::present::stories::{NO_STORY, StoryText};

/// Stories that ended longer ago than this are forgotten.
const KEPT_NS: i64 = 600_000_000_000;
/// Stories that are remembered.
const MAX_STORIES: usize = 100;

/// All stories of the last minutes, each once.
#[derive(Debug, Default)]
pub struct StoryLog {
    by_id: BTreeMap<String, StoryText>,
}

impl StoryLog {
    /// Takes what a look has found; what was known by the same id is newer now.
    pub fn take(&mut self, found: Vec<StoryText>) {
        for story in found {
            self.by_id.insert(story.id.clone(), story);
        }
        let newest_ns = self.by_id.values().map(|s| s.to_ns).max().unwrap_or(0);
        self.by_id.retain(|_, s| s.to_ns > newest_ns - KEPT_NS);
        while self.by_id.len() > MAX_STORIES {
            self.by_id.pop_first();
        }
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The newest first.
    fn ordered(&self) -> Vec<&StoryText> {
        let mut all: Vec<_> = self.by_id.values().collect();
        // What goes on counts as equally new: then the most harm comes first.
        all.sort_by_key(|s| {
            let minutes = s.to_ns / 60_000_000_000;
            (
                std::cmp::Reverse(minutes),
                std::cmp::Reverse(s.harm_ns),
                &s.id,
            )
        });
        all
    }
}

/// Draws as many as fit.
pub(super) fn stories(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let palette = scene.palette;
    let log = &scene.findings.stories;
    if area.height == 1 {
        if let Some(story) = log.ordered().first() {
            let text = format!(
                " {}  {}",
                words::clock(scene.history, story.to_ns, 0),
                terminal(&story.text)
            );
            let text = cut_end(&text, usize::from(area.width));
            put(buffer, area, area.x, &text, palette.faint());
        }
        return;
    }
    let heading = row(area, 0);
    put(buffer, heading, area.x, " what happened", palette.heading());
    let body = rows(area, 1, area.height - 1);
    if log.is_empty() {
        let text = if scene.findings.is_short_of_cpu {
            "CPU time is short: it explains long waits, not the device"
        } else {
            NO_STORY
        };
        let width = usize::from(area.width.saturating_sub(2)).max(10);
        for (i, text) in wrapped(text, width).iter().enumerate() {
            put(
                buffer,
                row(body, i as u16),
                area.x + 1,
                text,
                palette.faint(),
            );
        }
        return;
    }
    let width = usize::from(area.width.saturating_sub(12)).max(10);
    let height = usize::from(body.height);
    let mut line = 0;
    for story in log.ordered() {
        let mut lines = wrapped(&terminal(&story.text), width);
        if line > 0 && line + lines.len() > height {
            break;
        }
        // Of the first story as much is shown as fits.
        if lines.len() > height {
            lines.truncate(height);
            if let Some(last) = lines.last_mut() {
                last.push_str(" …");
                *last = cut_end(last, width);
            }
        }
        let time = words::clock(scene.history, story.to_ns, 0);
        put(
            buffer,
            row(body, line as u16),
            area.x + 1,
            &time,
            palette.faint(),
        );
        for text in lines {
            let at = row(body, line as u16);
            put(buffer, at, area.x + 11, &cut(&text, width), Style::new());
            line += 1;
        }
    }
}
