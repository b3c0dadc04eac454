//! Whole frames: what they look like at some sizes, and what holds at all of them.

use std::sync::Arc;

use iolens_core::analysis::Window;
use iolens_core::analysis::counters::pressure::HostPressure;
use iolens_core::model::{
    Comm, DevId, Device, Inode, Io, LossReason, Lost, Named, Op, RecordingMeta, Source,
};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use ratatui::style::{Color, Modifier};

use super::*;
use crate::live::screen::SERVE;
use crate::live::screen::analyst::{IoSource, Job, Material, Outcome, TABLES};
use crate::live::screen::palette::Depth;
use crate::live::screen::state::{Action, ShownTable};
use crate::present::stories::{NO_STORY, StoryText};
use crate::present::times::Clock;

const US: i64 = 1_000;
const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;
fn disk() -> DevId {
    DevId::new(259, 0)
}

fn second_disk() -> DevId {
    DevId::new(8, 0)
}

fn above() -> DevId {
    DevId::new(7, 0)
}

const FILE: Inode = Inode {
    fs_dev: 1,
    ino: 12,
    generation: None,
};

/// All that a frame needs, with a screen of its own.
struct Stage {
    history: History,
    findings: Findings,
    facts: SourceFacts,
    view: ScreenView,
    cache: HeatCache,
    palette: Palette,
}

impl Stage {
    fn new(history: History, palette: Palette) -> Stage {
        let mut view = ScreenView::default();
        view.above.push(above());
        Stage {
            history,
            findings: Findings::default(),
            facts: SourceFacts {
                host: "db1".to_owned(),
                self_percent: Some(0.4),
                ..SourceFacts::default()
            },
            view,
            cache: HeatCache::default(),
            palette,
        }
    }

    /// Draws a frame of this size.
    fn draw(&mut self, width: u16, height: u16) -> Buffer {
        let scene = Scene {
            history: &self.history,
            findings: &self.findings,
            facts: &self.facts,
            palette: self.palette,
        };
        let view = &mut self.view;
        let cache = &mut self.cache;
        let backend = TestBackend::new(width, height);
        let mut terminal = Terminal::new(backend).expect("a test's terminal cannot fail");
        let drawn = terminal
            .draw(|f| frame(&scene, view, cache, f.area(), f.buffer_mut()))
            .expect("a test's terminal cannot fail");
        drawn.buffer.clone()
    }

    fn material(&self, window: Window) -> Material {
        Material {
            source: IoSource::Memory(self.history.chunks(i64::MIN, i64::MAX)),
            lost: self.history.lost.iter().copied().collect(),
            window,
            warm_up_ns: 0,
            is_cancelled: Arc::default(),
        }
    }

    fn work(&mut self) {
        let end_ns = self.view.shown_end_ns(self.history.complete_to_ns);
        let columns = i64::from(self.view.geometry.heat.width.max(1));
        let window = Window::new(end_ns - columns * self.view.step_ns(), end_ns);
        let window = self.history.window_in_memory(window);
        let tables = Job::Tables {
            material: self.material(window),
            selection: self.view.selection(),
            by: self.view.by,
            devices: self.history.devices.clone(),
            names: Arc::clone(self.history.names.all()),
        };
        if let Outcome::Tables(tables) = tables.run() {
            self.findings.tables = Some(tables);
        }
        let Some(cell) = &self.view.cell else {
            return;
        };
        let cell = Job::Cell {
            material: self.material(Window::new(cell.from_ns, cell.to_ns)),
            selection: self.view.selection(),
            devices: self.history.devices.clone(),
            names: Arc::clone(self.history.names.all()),
            buckets: cell.buckets.clone(),
        };
        if let Outcome::Cell(cell) = cell.run() {
            self.findings.cell = Some(cell);
        }
    }

    fn find_stories(&mut self) {
        let window = Window::new(0, self.history.complete_to_ns);
        let job = Job::Stories {
            material: self.material(window),
            above: self.view.above.iter().copied().collect(),
            host: HostPressure::default(),
        };
        let Outcome::Stories(found) = job.run() else {
            return;
        };
        let mut meta = RecordingMeta::new(Source::Ebpf, self.history.start_unix_ns);
        meta.devices.clone_from(&self.history.devices);
        self.findings.take_stories(&found, &meta, &self.history);
    }

    fn press(&mut self, code: KeyCode) -> Action {
        self.view.event(&Event::Key(KeyEvent::from(code)))
    }
}

fn palette(depth: Depth) -> Palette {
    Palette {
        depth,
        is_light: false,
        has_blocks: true,
    }
}

fn read(done_ns: i64, dev: DevId, ns: i64, who: &str, pid: i32) -> Io {
    let mut io = Io::new(done_ns, dev, Op::READ, 8192, Some(done_ns / 7 * 16), ns);
    io.queue_ns = Some(ns / 10);
    io.device_ns = ns - ns / 10;
    io.comm = Some(Comm::new(who.as_bytes()));
    io.tgid = Some(pid);
    io
}

/// Thirty seconds: a database reads, a backup writes much at once every five seconds, another disk has little to do.
fn usual_history() -> History {
    let mut history = History::new(1_700_000_000 * S, 100_000);
    history.clock = Clock::Wall(TimeZone::UTC);
    let mut stacked = Device::named("loop0", above());
    stacked.slaves = vec!["nvme0n1".to_owned()];
    history.devices = vec![
        Device::named("nvme0n1", disk()),
        Device::named("sda", second_disk()),
        stacked,
    ];
    history
        .names
        .insert(0, Named::File(FILE), "/srv/db/orders.ibd".to_owned());
    let mut ios = Vec::new();
    for n in 0..3000 {
        let at_ns = n * 10 * MS;
        // In the bursts the reads wait for the writes.
        let is_burst = at_ns % (5 * S) < 300 * MS;
        let spread = (n * 7919) % 101;
        let ns = if is_burst {
            (12_000 + 90 * spread) * US
        } else {
            (70 + spread) * US
        };
        let mut io = read(at_ns + ns, disk(), ns, "shop", 77);
        io.fs_dev = Some(FILE.fs_dev);
        io.ino = Some(FILE.ino);
        ios.push(io);
        if is_burst {
            for write in 0..6 {
                let ns = (8000 + 1500 * write + 20 * spread) * US;
                let mut io = read(at_ns + ns + write, disk(), ns, "backup", 812);
                io.op = Op::WRITE;
                io.bytes = 512 << 10;
                ios.push(io);
            }
        }
        if n % 40 == 0 {
            ios.push(read(at_ns + 5 * MS, second_disk(), 4 * MS, "logger", 9));
            ios.push(read(at_ns + 6 * MS, above(), 2 * MS, "guest", 10));
        }
    }
    ios.push(read(26_250 * MS, disk(), 250 * MS, "shop", 77));
    ios.sort_by_key(|io| io.done_ns);
    history.push(ios);
    history.lose(&[Lost {
        from_ns: 25_100 * MS,
        to_ns: 25_900 * MS,
        dev: Some(disk()),
        class: None,
        reason: LossReason::Unaccounted,
        ios: Some(5),
        bytes: None,
        merges: None,
    }]);
    history.advance(30 * S);
    history
}

/// The same, with only the newest I/Os in memory: those of some five seconds.
fn history_of_newest_ios() -> History {
    let usual = usual_history();
    let mut history = History::new(usual.start_unix_ns, 500);
    history.clock = usual.clock.clone();
    history.devices.clone_from(&usual.devices);
    for chunk in usual.chunks(i64::MIN, i64::MAX) {
        for ios in chunk.chunks(100) {
            history.push(ios.to_vec());
        }
    }
    history.advance(30 * S);
    history
}

/// Sixteen seconds: a scan keeps two reads in flight and never stops, and each read of the shop waits for one of them.
fn history_amid_a_scan() -> History {
    let mut history = History::new(1_700_000_000 * S, 100_000);
    history.clock = Clock::Wall(TimeZone::UTC);
    history.devices = vec![Device::named("nvme0n1", disk())];
    let mut ios = Vec::new();
    let mut done_ns = 0;
    for n in 0..3000 {
        done_ns += 5 * MS;
        let mut scan = Io::new(done_ns, disk(), Op::READ, 1 << 20, Some(0), 10 * MS);
        scan.sector = Some(2048 * n);
        scan.comm = Some(Comm::new(b"scan"));
        scan.tgid = Some(50);
        ios.push(scan);
        if n % 5 == 0 {
            done_ns += MS;
            let mut shop = Io::new(done_ns, disk(), Op::READ, 4096, Some(0), 6 * MS);
            shop.comm = Some(Comm::new(b"shop"));
            shop.tgid = Some(60);
            ios.push(shop);
        }
    }
    history.push(ios);
    history.advance(16 * S);
    history
}

const LETTERS: &str = ".abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// A letter for each style, in the order in which they appear.
fn letter(known: &mut Vec<String>, cell: &Cell) -> char {
    let style = format!(
        "{} on {}{}{}",
        cell.fg,
        cell.bg,
        if cell.modifier.contains(Modifier::BOLD) {
            ", bold"
        } else {
            ""
        },
        if cell.modifier.contains(Modifier::REVERSED) {
            ", reversed"
        } else {
            ""
        },
    );
    let at = known.iter().position(|k| *k == style);
    let at = at.unwrap_or_else(|| {
        known.push(style);
        known.len() - 1
    });
    LETTERS.chars().nth(at).unwrap_or('*')
}

fn lines_of(buffer: &Buffer, of_cell: &mut impl FnMut(&Cell) -> String) -> String {
    let mut text = String::new();
    for line in buffer.content().chunks(usize::from(buffer.area.width)) {
        let line: String = line.iter().map(&mut *of_cell).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The characters of a frame, and below them its colours.
fn picture_of(buffer: &Buffer) -> String {
    let mut text = lines_of(buffer, &mut |cell| cell.symbol().to_owned());
    let mut known = Vec::new();
    text.push_str("\nstyles\n");
    text.push_str(&lines_of(buffer, &mut |cell| {
        letter(&mut known, cell).to_string()
    }));
    for (letter, style) in LETTERS.chars().zip(&known) {
        text.push_str(&format!("{letter} {style}\n"));
    }
    text
}

fn snapshot(depth: Depth, width: u16, height: u16) -> String {
    let mut stage = Stage::new(usual_history(), palette(depth));
    stage.draw(width, height);
    stage.work();
    stage.find_stories();
    let buffer = stage.draw(width, height);
    picture_of(&buffer)
}

#[test]
fn frames_look_as_they_did() {
    for (name, depth) in [
        ("truecolour", Depth::True),
        ("16-colours", Depth::Ansi16),
        ("mono", Depth::Mono),
    ] {
        for (width, height) in [(60, 16), (80, 24), (120, 40), (200, 50)] {
            let picture = snapshot(depth, width, height);
            insta::assert_snapshot!(format!("{width}x{height}-{name}"), picture);
        }
    }
}

fn text_of(buffer: &Buffer) -> String {
    lines_of(buffer, &mut |cell| cell.symbol().to_owned())
}

fn first_line(buffer: &Buffer) -> String {
    let text = text_of(buffer);
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_rate_in_the_first_line_is_of_the_chosen_device() {
    let mut stage = Stage::new(usual_history(), palette(Depth::Mono));
    let rates = [
        (None, " 102 IOPS "),
        (Some(disk()), " 100 IOPS "),
        (Some(second_disk()), " 2 IOPS "),
        (Some(above()), " 2 IOPS "),
    ];
    for (device, rate) in rates {
        stage.view.device = device;
        let line = first_line(&stage.draw(120, 40));
        assert!(line.contains(rate), "{line}");
    }
}

#[test]
fn a_service_that_ends_is_reported_at_every_width() {
    let socket = "/run/iolens/iolens.sock cannot be asked: Connection refused (os error 111)";
    for (of, state) in [(SERVE, "stopped"), (TABLES, "live ▸")] {
        let failed = format!("{of} failed");
        for width in [60, 80, 100, 120, 200] {
            let mut stage = Stage::new(usual_history(), palette(Depth::Mono));
            stage.facts.serve = Some("from serve".to_owned());
            stage.facts.failure = Some(ScreenFailure {
                of,
                text: socket.to_owned(),
            });
            let line = first_line(&stage.draw(width, 40));
            assert!(line.contains(&failed), "{line}");
            assert!(line.contains(" 102 IOPS "), "{line}");
            assert!(line.ends_with(state), "{line}");
            assert_eq!(width == 200, line.contains(socket), "{line}");
        }
    }
}

#[test]
fn tables_that_are_older_than_the_picture_are_dated() {
    for (width, height) in [(60, 16), (80, 24), (120, 40), (200, 50)] {
        for table in [ShownTable::Waits, ShownTable::Actors] {
            let mut stage = Stage::new(usual_history(), palette(Depth::Mono));
            stage.view.table = table;
            stage.draw(width, height);
            stage.work();
            for (end_s, is_dated) in [(30, false), (32, false), (33, true)] {
                stage.history.advance(end_s * S);
                let text = text_of(&stage.draw(width, height));
                assert_eq!(text.contains(" to 22:13:50"), is_dated, "{text}");
            }
            stage.work();
            let text = text_of(&stage.draw(width, height));
            assert!(!text.contains(" to 22:13:5"), "{text}");
        }
    }
}

#[test]
fn tables_over_more_than_is_in_memory_are_of_what_is() {
    for (width, height) in [(60, 16), (80, 24), (120, 40), (200, 50)] {
        let mut stage = Stage::new(history_of_newest_ios(), palette(Depth::Mono));
        stage.view.table = ShownTable::Actors;
        stage.draw(width, height);
        stage.work();
        let tables = stage.findings.tables.as_ref().expect("made");
        let first_ns = stage.history.ios_from_ns(30 * S);
        assert_eq!(Some(tables.window.from_ns), first_ns);
        assert!(tables.window.from_ns > 25 * S, "{:?}", tables.window);
        let text = text_of(&stage.draw(width, height));
        assert!(text.contains(" since 22:13:4"), "{text}");
        let row = text.lines().find(|line| line.starts_with(" shop[77]"));
        let rate = row.and_then(|row| row.split_whitespace().nth(1));
        let rate: f64 = rate.expect("a row").parse().expect("a rate");
        assert!((90.0..120.0).contains(&rate), "{text}");
        // What is older than the picture, too, says both.
        stage.history.advance(33 * S);
        let text = text_of(&stage.draw(width, height));
        assert!(text.contains("to 22:13:50"), "{text}");
        stage.view.table = ShownTable::Waits;
        let text = text_of(&stage.draw(width, height));
        assert!(text.contains("to 22:13:50"), "{text}");
    }
}

#[test]
fn a_shortage_of_cpu_time_is_said_where_there_is_no_story() {
    for (is_short, expected) in [(false, "no program lost much"), (true, "CPU time is short")] {
        let mut stage = Stage::new(usual_history(), palette(Depth::Mono));
        stage.findings.is_short_of_cpu = is_short;
        let buffer = stage.draw(120, 40);
        let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn amid_a_load_that_never_pauses_it_is_said_what_is_not_proven() {
    let mut stage = Stage::new(history_amid_a_scan(), palette(Depth::Mono));
    stage.find_stories();
    assert!(stage.findings.stories.is_empty());
    let summary = stage.findings.not_proven.clone();
    let summary = summary.expect("it always waited");
    let begin = "Not proven: reads of shop (60) took";
    assert!(summary.starts_with(begin), "{summary}");
    for (width, height) in [(60, 16), (80, 24), (100, 40), (120, 40)] {
        let buffer = stage.draw(width, height);
        let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
        assert!(text.contains(begin), "{text}");
        assert!(!text.contains(NO_STORY), "{text}");
    }
    // Below the table there is room for the whole text in whole lines.
    let buffer = stage.draw(100, 40);
    let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(&summary), "{text}");
    // A shortage of CPU time is said, too.
    stage.findings.is_short_of_cpu = true;
    let buffer = stage.draw(120, 40);
    let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
    assert!(text.contains("CPU time is short"), "{text}");
    assert!(text.contains(begin), "{text}");
    // Once there is a story, that is said.
    stage.history = usual_history();
    stage.find_stories();
    assert_eq!(stage.findings.not_proven, None);
}

#[test]
fn a_recording_without_single_ios_does_not_look_like_an_idle_disk() {
    let history = History::of_stretch(0, 0..10 * S, 0..10 * S, 100 * MS);
    let mut stage = Stage::new(history, palette(Depth::Mono));
    stage.view = ScreenView::of_recording(0..10 * S);
    stage.facts.recording = Some("log.iolens".to_owned());
    stage.facts.limits = vec!["a table of averages".to_owned()];
    let idle = ["0 IOPS", "no I/O in this time", "no I/O completed"];
    for is_without_ios in [false, true] {
        stage.facts.is_without_ios = is_without_ios;
        let buffer = stage.draw(120, 40);
        let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
        for words in idle {
            assert_eq!(text.contains(words), !is_without_ios, "{words}: {text}");
        }
        for words in [NO_IOS, "a table of averages"] {
            assert_eq!(text.contains(words), is_without_ios, "{words}: {text}");
        }
    }
}

#[test]
fn the_ios_of_a_cell_are_listed_whole() {
    for (width, height) in [(60, 16), (80, 24), (120, 40)] {
        let mut stage = Stage::new(usual_history(), palette(Depth::Mono));
        stage.draw(width, height);
        // The cell of the I/O of 250 ms is the topmost of its column.
        let scale = stage.view.geometry.scale.expect("a picture was drawn");
        stage.press(KeyCode::Left);
        stage.view.cursor = Some(super::super::state::MarkedCell {
            at_ns: 26_200 * MS,
            row: scale.row(250e6),
        });
        assert_eq!(stage.press(KeyCode::Enter), Action::Draw);
        stage.work();
        let buffer = stage.draw(width, height);
        let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
        insta::assert_snapshot!(format!("cell-{width}x{height}"), text);
    }
}

#[test]
fn all_keys_are_explained_in_whole_words() {
    for (width, height) in [(60, 16), (120, 40)] {
        let mut stage = Stage::new(usual_history(), palette(Depth::Mono));
        stage.press(KeyCode::Char('?'));
        let buffer = stage.draw(width, height);
        let text = lines_of(&buffer, &mut |cell| cell.symbol().to_owned());
        insta::assert_snapshot!(format!("help-{width}x{height}"), text);
        assert!(!text.contains('…'), "{text}");
    }
}

/// What holds of every frame.
fn assert_whole(stage: &Stage, buffer: &Buffer) {
    let area = buffer.area;
    let shown = || lines_of(buffer, &mut |cell| cell.symbol().to_owned());
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let symbol = buffer[(x, y)].symbol();
            assert!(
                !symbol.chars().any(char::is_control),
                "{symbol:?} at {x}, {y}"
            );
            let columns = visible(symbol);
            assert!((1..=2).contains(&columns), "{symbol:?} at {x}, {y}");
            // A wide character has its second column to itself.
            if columns == 2 {
                assert!(x + 1 < area.width, "{symbol:?} at {x}, {y}");
                assert_eq!(buffer[(x + 1, y)].symbol(), " ", "beside {symbol:?}");
            }
            x += columns as u16;
        }
    }
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        return;
    }
    let row_text = |y: u16| -> String {
        (0..area.width)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect()
    };
    let first = row_text(0);
    assert!(first.starts_with(" iolens"), "{first}");
    let state = stage.palette.text("▸", ">");
    let held = stage.palette.text("‖", "held");
    assert!(
        first.trim_end().ends_with(state) || first.trim_end().ends_with(held),
        "{first}"
    );
    let heat = stage.view.geometry.heat;
    if stage.view.help {
        return;
    }
    assert!(heat.height > 0 && heat.right() <= area.width, "{heat:?}");
    let title = row_text(heat.y - 1);
    assert!(title.ends_with("a column "), "{title}\n{}", shown());
    let edge = stage.palette.text("│", "|");
    let corner = stage.palette.text("└", "+");
    for y in heat.y..heat.bottom() {
        assert_eq!(buffer[(heat.x - 1, y)].symbol(), edge, "\n{}", shown());
    }
    let end_ns = stage.view.shown_end_ns(stage.history.complete_to_ns);
    let is_lossy = stage.history.is_lossy(stage.view.geometry.from_ns, end_ns);
    let axis = heat.bottom() + u16::from(is_lossy);
    assert_eq!(buffer[(heat.x - 1, axis)].symbol(), corner, "\n{}", shown());
}

/// Names that try to break the screen.
fn hostile_name() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\x1b[31m".to_owned()),
        Just("\r\n\t\x07".to_owned()),
        Just("\u{202e}evil\u{2066}".to_owned()),
        Just("磁盘读取".to_owned()),
        Just("שלום".to_owned()),
        Just("مرحبا".to_owned()),
        Just("e\u{301}\u{302}".to_owned()),
        Just("❤\u{fe0f}👨\u{200d}👩".to_owned()),
        Just("\u{9b}2J\u{90}".to_owned()),
        Just("a b".to_owned()),
        Just("\\".to_owned()),
        prop::collection::vec(prop::char::range('a', 'z'), 1..12).prop_map(String::from_iter),
        any::<char>().prop_map(String::from),
    ];
    let short = prop::collection::vec(piece.clone(), 0..4).prop_map(|p| p.concat());
    let long = prop::collection::vec(piece, 60..70).prop_map(|p| p.concat());
    prop_oneof![4 => short, 1 => long]
}

#[derive(Debug, Clone)]
struct RandomIo {
    at_ms: i64,
    us: i64,
    dev: usize,
    name: usize,
    is_write: bool,
    has_file: bool,
}

fn random_io() -> impl Strategy<Value = RandomIo> {
    let us = prop_oneof![1i64..100, 50i64..500, 1000i64..3_000_000];
    (
        0i64..60_000,
        us,
        0usize..3,
        0usize..6,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(at_ms, us, dev, name, is_write, has_file)| RandomIo {
            at_ms,
            us,
            dev,
            name,
            is_write,
            has_file,
        })
}

fn random_history(ios: &[RandomIo], names: &[String], losses: &[(i64, i64)]) -> History {
    let mut history = History::new(1_700_000_000 * S, 100_000);
    history.clock = Clock::Wall(TimeZone::UTC);
    let devices = [disk(), second_disk(), above()];
    for (dev, name) in devices.iter().zip(names) {
        history.devices.push(Device::named(name.clone(), *dev));
    }
    for (i, name) in names.iter().enumerate() {
        let inode = Inode {
            ino: i as i64,
            ..FILE
        };
        history.names.insert(0, Named::File(inode), name.clone());
        history
            .names
            .insert(0, Named::Cgroup(i as i64), name.clone());
    }
    let mut all = Vec::new();
    for random in ios {
        let name = &names[random.name];
        let done_ns = random.at_ms * MS + random.us * US;
        let mut io = read(
            done_ns,
            devices[random.dev],
            random.us * US,
            name,
            random.name as i32,
        );
        io.cgroup = Some(random.name as i64);
        if random.is_write {
            io.op = Op::WRITE;
        }
        if random.has_file {
            io.fs_dev = Some(FILE.fs_dev);
            io.ino = Some(random.name as i64);
        }
        all.push(io);
    }
    all.sort_by_key(|io| io.done_ns);
    history.push(all);
    for (at_ms, len_ms) in losses {
        history.lose(&[Lost {
            from_ns: at_ms * MS,
            to_ns: (at_ms + len_ms) * MS,
            dev: None,
            class: None,
            reason: LossReason::RingFull,
            ios: Some(3),
            bytes: None,
            merges: None,
        }]);
    }
    history.advance(63 * S);
    history
}

fn random_key() -> impl Strategy<Value = KeyCode> {
    let keys = [
        KeyCode::Char('d'),
        KeyCode::Char('p'),
        KeyCode::Char('c'),
        KeyCode::Char('f'),
        KeyCode::Char('g'),
        KeyCode::Char('w'),
        KeyCode::Char('r'),
        KeyCode::Char('t'),
        KeyCode::Char('+'),
        KeyCode::Char('-'),
        KeyCode::Char(' '),
        KeyCode::Char('/'),
        KeyCode::Char('?'),
        KeyCode::Char('磁'),
        KeyCode::Char('\u{202e}'),
        KeyCode::Tab,
        KeyCode::Enter,
        KeyCode::Backspace,
        KeyCode::Esc,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
    ];
    prop::sample::select(keys.to_vec())
}

fn random_palette() -> impl Strategy<Value = Palette> {
    let depth = prop::sample::select(vec![
        Depth::True,
        Depth::Ansi256,
        Depth::Ansi16,
        Depth::Mono,
    ]);
    (depth, any::<bool>(), any::<bool>()).prop_map(|(depth, is_light, has_blocks)| Palette {
        depth,
        is_light,
        has_blocks,
    })
}

/// Small sizes are those at which there is no room.
fn random_size() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        (20u16..=400, 5u16..=120),
        (55u16..=100, 14u16..=30),
        (60u16..=400, 16u16..=120),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_name_and_no_size_tears_a_frame(
        sizes in prop::collection::vec(random_size(), 1..3),
        ios in prop::collection::vec(random_io(), 0..120),
        names in prop::collection::vec(hostile_name(), 6),
        losses in prop::collection::vec((0i64..63_000, 0i64..2000), 0..3),
        keys in prop::collection::vec(random_key(), 0..10),
        palette in random_palette(),
    ) {
        let mut stage = Stage::new(random_history(&ios, &names, &losses), palette);
        stage.facts.host.clone_from(&names[0]);
        stage.facts.limits.push(names[1].clone());
        if ios.len() % 3 == 0 {
            stage.view.filter.clone_from(&names[2]);
        }
        if ios.len() % 2 == 0 {
            stage.findings.not_proven = Some(names.join(" "));
        } else {
            stage.findings.stories.take(vec![StoryText {
                id: "a".to_owned(),
                text: names.join(" "),
                to_ns: 50 * S,
                harm_ns: 1,
            }]);
        }
        for (width, height) in sizes {
            let buffer = stage.draw(width, height);
            assert_whole(&stage, &buffer);
            for key in &keys {
                stage.press(*key);
                let buffer = stage.draw(width, height);
                assert_whole(&stage, &buffer);
            }
            stage.work();
            let buffer = stage.draw(width, height);
            assert_whole(&stage, &buffer);
        }
    }

    #[test]
    fn a_slow_io_among_five_thousand_a_second_lights_its_cell(
        (width, height) in (MIN_WIDTH..=400, MIN_HEIGHT..=120),
        palette in random_palette(),
        at_ms in 8_000i64..9_900,
    ) {
        let mut history = History::new(1_700_000_000 * S, 100_000);
        history.clock = Clock::Wall(TimeZone::UTC);
        let mut ios = Vec::new();
        for n in 0..10_000 {
            let ns = (60 + n * 7919 % 97) * US;
            ios.push(read(8 * S + n * 200 * US + ns, disk(), ns, "shop", 77));
        }
        ios.push(read(at_ms * MS, disk(), 250 * MS, "shop", 77));
        ios.sort_by_key(|io| io.done_ns);
        history.push(ios);
        history.advance(10 * S);
        let mut stage = Stage::new(history, palette);
        let buffer = stage.draw(width, height);
        let geometry = &stage.view.geometry;
        let scale = geometry.scale.expect("a picture was drawn");
        let column = (at_ms * MS - geometry.from_ns) / stage.view.step_ns();
        let drawn_ns = ColumnLatencies::middle_ns(ColumnLatencies::bucket(250 * MS));
        let line = scale.row(drawn_ns) / geometry.rows_per_line;
        let x = geometry.heat.x + column as u16;
        let y = geometry.heat.bottom() - 1 - line as u16;
        let cell = &buffer[(x, y)];
        prop_assert_ne!(cell.symbol(), " ");
        if palette.depth != Depth::Mono {
            prop_assert_ne!(cell.fg, Color::Reset);
        }
        // No other cell of its height is lit.
        let lit = (geometry.heat.x..geometry.heat.right())
            .filter(|x| buffer[(*x, y)].symbol() != " ");
        prop_assert_eq!(lit.count(), 1);
    }
}
