//! Draws recent stories.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Findings, Scene, put, row, rows};
use crate::live::screen::words;
use crate::present::escape::terminal;
use crate::present::layout::{cut, cut_end, wrapped};
use crate::present::stories::{NO_STORY, StoryText};

/// Stories that ended longer ago than this are dropped.
const KEPT_NS: i64 = 600_000_000_000;
/// Maximum number of stories kept.
const MAX_STORIES: usize = 100;
/// Shown if the machine was short of CPU time.
const SHORT_OF_CPU: &str = "CPU time is short: it explains long waits, not the device";

/// The stories of the last minutes, each once.
#[derive(Debug, Default)]
pub struct StoryLog {
    by_id: BTreeMap<String, StoryText>,
}

impl StoryLog {
    /// Adds the stories of a look. They replace older versions with the same id.
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

    /// Whether there are no stories.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The newest first.
    fn ordered(&self) -> Vec<&StoryText> {
        let mut all: Vec<_> = self.by_id.values().collect();
        // All active stories count as equally new, so they are ordered by harm.
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

/// Draws as many stories as fit.
pub(super) fn stories(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    if area.height == 1 {
        single_line(scene, area, buffer);
        return;
    }
    let heading = row(area, 0);
    let style = scene.palette.heading();
    put(buffer, heading, area.x, " what happened", style);
    let body = rows(area, 1, area.height - 1);
    if scene.findings.stories.is_empty() {
        no_story(scene, body, buffer);
    } else {
        logged(scene, body, buffer);
    }
}

/// Draws the newest story, or what could not be proven, in one line.
fn single_line(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let findings = scene.findings;
    let text = if let Some(story) = findings.stories.ordered().first() {
        let time = words::clock(scene.history, story.to_ns, 0);
        format!(" {time}  {}", terminal(&story.text))
    } else if let Some(not_proven) = &findings.not_proven {
        format!(" {}", terminal(not_proven))
    } else {
        return;
    };
    let text = cut_end(&text, usize::from(area.width));
    put(buffer, area, area.x, &text, scene.palette.faint());
}

/// Draws the text shown if there is no story.
fn no_story(scene: &Scene, body: Rect, buffer: &mut Buffer) {
    let width = usize::from(body.width.saturating_sub(2)).max(10);
    let mut lines = Vec::new();
    for text in without_story(scene.findings) {
        lines.extend(wrapped(&text, width));
    }
    shorten(&mut lines, width, usize::from(body.height));
    let style = scene.palette.faint();
    for (i, text) in lines.iter().enumerate() {
        let at = row(body, i as u16);
        put(buffer, at, body.x + 1, &cut(text, width), style);
    }
}

/// The text shown if there is no story, escaped for the terminal.
fn without_story(findings: &Findings) -> Vec<Cow<'_, str>> {
    let mut texts = Vec::new();
    if findings.is_short_of_cpu {
        texts.push(Cow::Borrowed(SHORT_OF_CPU));
    }
    // In this case it is not known that no program lost much time.
    if let Some(not_proven) = &findings.not_proven {
        texts.push(terminal(not_proven));
    }
    if texts.is_empty() {
        texts.push(Cow::Borrowed(NO_STORY));
    }
    texts
}

/// Draws the newest stories, as many as fit.
fn logged(scene: &Scene, body: Rect, buffer: &mut Buffer) {
    let width = usize::from(body.width.saturating_sub(12)).max(10);
    let height = usize::from(body.height);
    let mut line = 0;
    for story in scene.findings.stories.ordered() {
        let mut lines = wrapped(&terminal(&story.text), width);
        if line > 0 && line + lines.len() > height {
            break;
        }
        // The first story is cut to fit.
        shorten(&mut lines, width, height);
        let time = words::clock(scene.history, story.to_ns, 0);
        let at = row(body, line as u16);
        put(buffer, at, body.x + 1, &time, scene.palette.faint());
        for text in lines {
            let at = row(body, line as u16);
            put(buffer, at, body.x + 11, &cut(&text, width), Style::new());
            line += 1;
        }
    }
}

/// Cuts to `height` lines. If there were more, the last one ends with an ellipsis.
fn shorten(lines: &mut Vec<String>, width: usize, height: usize) {
    if lines.len() <= height {
        return;
    }
    lines.truncate(height);
    if let Some(last) = lines.last_mut() {
        last.push_str(" …");
        *last = cut_end(last, width);
    }
}
