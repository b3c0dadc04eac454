//! The output to the terminal. A thread writes to it, so that a slow terminal delays neither keys nor I/Os: frames
//! are skipped while one is being written. Only changed characters are written, and the terminal itself scrolls the
//! heat map, whose columns move to the left.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ratatui::backend::{Backend as _, ClearType, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::cursor::{Hide, MoveTo, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::{Rect, Size};
use rustix::termios::{QueueSelector, tcflush};

/// A frame is written in pieces of this many bytes. A frame that is not wanted any more is abandoned between two
/// pieces.
const PIECE: usize = 1024;
/// Time for the current piece to be written when leaving.
const LEAVE_WAIT: Duration = Duration::from_secs(2);

/// A part of the last frame that has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedPart {
    /// The area, which ends at the right edge of the terminal.
    pub area: Rect,
    /// The number of columns by which it moved to the left.
    pub columns: u16,
}

/// The terminal, with the characters that it shows.
pub struct ScreenTerminal<W: Write = FrameWriter> {
    backend: CrosstermBackend<W>,
    shown: Buffer,
}

impl<W: Write> ScreenTerminal<W> {
    /// An empty terminal without a cursor.
    fn new(out: W) -> ScreenTerminal<W> {
        ScreenTerminal {
            backend: CrosstermBackend::new(out),
            shown: Buffer::empty(Rect::ZERO),
        }
    }

    /// Its size in characters.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn size(&self) -> io::Result<Size> {
        self.backend.size()
    }

    /// Draws a frame: `render` fills an empty buffer of this size, and returns what has moved.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn draw(
        &mut self,
        size: Size,
        render: impl FnOnce(&mut Buffer) -> Option<MovedPart>,
    ) -> io::Result<()> {
        let area = Rect::new(0, 0, size.width, size.height);
        if area != self.shown.area {
            self.backend.clear_region(ClearType::All)?;
            self.shown = Buffer::empty(area);
        }
        let mut next = Buffer::empty(area);
        if let Some(moved) = render(&mut next) {
            self.shift(moved)?;
        }
        self.backend.draw(self.shown.diff_iter(&next))?;
        self.shown = next;
        io::Write::flush(&mut self.backend)
    }

    /// Makes the terminal move a part, by deleting characters at the left of each line.
    fn shift(&mut self, moved: MovedPart) -> io::Result<()> {
        let MovedPart { area, columns } = moved;
        if area.right() != self.shown.area.right() || columns == 0 || columns >= area.width {
            return Ok(());
        }
        for y in area.top()..area.bottom() {
            queue!(
                self.backend,
                MoveTo(area.x, y),
                Print(format_args!("\x1b[{columns}P"))
            )?;
            for x in area.left()..area.right() {
                self.shown[(x, y)] = match x + columns {
                    from if from < area.right() => self.shown[(from, y)].clone(),
                    _ => Cell::EMPTY,
                };
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Frames {
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    is_writing: bool,
    /// The frame being written must end after the current piece.
    is_discarded: bool,
    failure: Option<io::Error>,
    is_closed: bool,
}

/// The queue of bytes between the drawing and the writing thread.
#[derive(Debug, Default)]
pub struct FrameQueue {
    frames: Mutex<Frames>,
    changed: Condvar,
}

impl FrameQueue {
    /// Starts the thread that writes to `out`.
    fn start(out: impl Write + Send + 'static) -> io::Result<Arc<FrameQueue>> {
        let queue: Arc<FrameQueue> = Arc::default();
        let its_queue = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("iolens-output".to_owned())
            .spawn(move || its_queue.write_all(out))?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writing thread: writes until the queue is closed.
    fn write_all(&self, mut out: impl Write) {
        loop {
            let bytes = {
                let mut frames = self.lock();
                while frames.pending.is_empty() && !frames.is_closed {
                    frames = self
                        .changed
                        .wait(frames)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                if frames.pending.is_empty() {
                    return;
                }
                frames.is_writing = true;
                frames.is_discarded = false;
                std::mem::take(&mut frames.pending)
            };
            let mut written = Ok(());
            for piece in bytes.chunks(PIECE) {
                written = out.write_all(piece);
                if written.is_err() || self.lock().is_discarded {
                    break;
                }
            }
            let written = written.and_then(|()| out.flush());
            let mut frames = self.lock();
            frames.is_writing = false;
            if let Err(e) = written {
                frames.failure.get_or_insert(e);
            }
            self.changed.notify_all();
        }
    }

    /// Whether everything drawn has been written.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn is_idle(&self) -> io::Result<bool> {
        let mut frames = self.lock();
        match frames.failure.take() {
            Some(e) => Err(e),
            None => Ok(!frames.is_writing && frames.pending.is_empty()),
        }
    }

    /// Drops what is not written yet. Returns whether writing has stopped within `wait`.
    fn discard(&self, wait: Duration) -> bool {
        let mut frames = self.lock();
        frames.pending.clear();
        frames.is_discarded = true;
        let waited = self
            .changed
            .wait_timeout_while(frames, wait, |frames| frames.is_writing);
        let (frames, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !frames.is_writing
    }
}

/// Collects a frame and passes it to the writing thread.
#[derive(Debug)]
pub struct FrameWriter {
    buffer: Vec<u8>,
    queue: Arc<FrameQueue>,
}

impl Write for FrameWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queue.lock().pending.append(&mut self.buffer);
        self.queue.changed.notify_all();
        Ok(())
    }
}

/// The standard output as a screen.
#[derive(Debug, Clone)]
pub struct ScreenOutput(Arc<FrameQueue>);

impl ScreenOutput {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// The thread or the descriptor cannot be created.
    pub fn start() -> Result<ScreenOutput> {
        let out = io::stdout().as_fd().try_clone_to_owned();
        let out = File::from(out.context("stdout")?);
        let queue = FrameQueue::start(out).context("a thread could not be started")?;
        Ok(ScreenOutput(queue))
    }

    /// Sets up the terminal.
    ///
    /// # Errors
    /// The terminal is not usable.
    pub fn enter(&self) -> Result<ScreenTerminal> {
        let entered = self.try_enter();
        if entered.is_err() {
            self.leave();
        }
        entered.context("this terminal cannot be used: try --plain")
    }

    fn try_enter(&self) -> io::Result<ScreenTerminal> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, Hide)?;
        Ok(ScreenTerminal::new(FrameWriter {
            buffer: Vec::new(),
            queue: Arc::clone(&self.0),
        }))
    }

    /// Restores the terminal. Errors are ignored, because a terminal that cannot be written to is gone.
    pub fn leave(&self) {
        let mut is_free = self.0.discard(LEAVE_WAIT);
        if !is_free {
            // The terminal accepts nothing: drop what is buffered in the kernel.
            tcflush(io::stdout(), QueueSelector::OFlush).ok();
            is_free = self.0.discard(LEAVE_WAIT);
        }
        // A stopped terminal accepts no output, but its modes can be restored.
        if is_free {
            execute!(io::stdout(), DisableMouseCapture, Show).ok();
        }
        disable_raw_mode().ok();
        if is_free {
            execute!(io::stdout(), LeaveAlternateScreen).ok();
        }
    }

    /// Whether the last frame has been written.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn is_idle(&self) -> io::Result<bool> {
        self.0.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use ratatui::style::{Color, Style};

    use super::*;

    /// A terminal of 40x6 characters that knows what is written to it: symbols, and the colour of each.
    struct Emulated {
        cells: Vec<Vec<(String, Vec<u16>)>>,
        at: (usize, usize),
        pen: [Vec<u16>; 2],
    }

    impl Emulated {
        fn new() -> Emulated {
            Emulated {
                cells: vec![vec![(" ".to_owned(), Vec::new()); 40]; 6],
                at: (0, 0),
                pen: [Vec::new(), Vec::new()],
            }
        }

        fn take(&mut self, text: &str) {
            let mut characters = text.chars();
            while let Some(c) = characters.next() {
                if c != '\x1b' {
                    let pen = self.pen.concat();
                    self.cells[self.at.0][self.at.1] = (c.to_string(), pen);
                    self.at.1 += 1;
                    continue;
                }
                assert_eq!(characters.next(), Some('['));
                let mut numbers = String::new();
                let end = characters.by_ref().find(|c| {
                    numbers.push(*c);
                    c.is_ascii_alphabetic()
                });
                numbers.pop();
                let numbers: Vec<u16> =
                    numbers.split(';').map(|n| n.parse().unwrap_or(0)).collect();
                match end {
                    Some('H') => {
                        self.at = (usize::from(numbers[0]) - 1, usize::from(numbers[1]) - 1)
                    }
                    Some('P') => {
                        let line = &mut self.cells[self.at.0];
                        for _ in 0..numbers[0] {
                            line.remove(self.at.1);
                            line.push((" ".to_owned(), Vec::new()));
                        }
                    }
                    Some('m') => self.paint(&numbers),
                    Some('J') => {}
                    other => panic!("{other:?}"),
                }
            }
        }

        fn paint(&mut self, numbers: &[u16]) {
            let mut rest = numbers;
            while let Some((first, after)) = rest.split_first() {
                rest = after;
                match first {
                    0 => self.pen = [Vec::new(), Vec::new()],
                    38 | 48 => {
                        let length = if rest[0] == 2 { 4 } else { 2 };
                        self.pen[usize::from(*first == 48)] = numbers_of(*first, &rest[..length]);
                        rest = &rest[length..];
                    }
                    39 => self.pen[0].clear(),
                    49 => self.pen[1].clear(),
                    59 => {}
                    other => panic!("{other}"),
                }
            }
        }
    }

    /// What was written to the terminal since it was looked at.
    #[derive(Clone, Default)]
    struct Written(Rc<RefCell<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn numbers_of(first: u16, rest: &[u16]) -> Vec<u16> {
        [&[first], rest].concat()
    }

    fn numbers(cell: &Cell) -> Vec<u16> {
        let of = |first, colour| match colour {
            Color::Rgb(r, g, b) => numbers_of(first, &[2, r.into(), g.into(), b.into()]),
            _ => Vec::new(),
        };
        [of(38, cell.fg), of(48, cell.bg)].concat()
    }

    /// A picture whose columns are numbered from `first` on, below a line and right of a label that stay.
    fn picture(buffer: &mut Buffer, first: u16) {
        buffer.set_string(0, 0, format!("title {first}"), Style::new());
        for y in 1..6 {
            buffer.set_string(0, y, "label |", Style::new());
            for x in 7..40 {
                let number = first + x - 7;
                if (number * 7 + y * 3).is_multiple_of(5) {
                    continue;
                }
                let cell = &mut buffer[(x, y)];
                cell.set_symbol(["▀", "▄", "█"][usize::from(number * y) % 3]);
                cell.set_fg(Color::Rgb((number % 7) as u8, y as u8, 9));
                if number.is_multiple_of(3) {
                    cell.set_bg(Color::Rgb(1, (number % 5) as u8, 3));
                }
            }
        }
    }

    #[test]
    fn a_picture_that_moves_is_moved_by_the_terminal_and_is_the_same() {
        let size = Size::new(40, 6);
        let out = Written::default();
        let mut terminal = ScreenTerminal::new(out.clone());
        let mut emulated = Emulated::new();
        let mut first = 0;
        let mut lengths = Vec::new();
        for columns in [0, 2, 3, 2, 0, 32, 33, 40, 1] {
            first += columns;
            let area = Rect::new(7, 1, 33, 5);
            let mut expected = Buffer::empty(Rect::new(0, 0, 40, 6));
            picture(&mut expected, first);
            let render = |buffer: &mut Buffer| {
                picture(buffer, first);
                Some(MovedPart { area, columns })
            };
            terminal.draw(size, render).expect("memory takes all");
            let written = out.0.take();
            lengths.push(written.len());
            emulated.take(&String::from_utf8(written).expect("UTF-8"));
            for (y, line) in emulated.cells.iter().enumerate() {
                for (x, (symbol, colours)) in line.iter().enumerate() {
                    let cell = &expected[(x as u16, y as u16)];
                    assert_eq!(symbol, cell.symbol(), "{x}, {y} at {first}");
                    assert_eq!(*colours, numbers(cell), "{x}, {y} at {first}");
                }
            }
        }
        assert!(5 * lengths[1] < lengths[0], "{lengths:?}");
    }

    /// A terminal that says what it is given, and takes it when it is allowed to.
    struct Slow {
        given: Sender<Vec<u8>>,
        allowed: Receiver<io::Result<()>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.given.send(bytes.to_vec()).ok();
            self.allowed.recv().unwrap_or(Ok(()))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (FrameWriter, Receiver<Vec<u8>>, Sender<io::Result<()>>) {
        let (given, seen) = channel();
        let (allow, allowed) = channel();
        let queue = FrameQueue::start(Slow { given, allowed }).expect("a thread");
        let buffer = Vec::new();
        (FrameWriter { buffer, queue }, seen, allow)
    }

    #[test]
    fn drawing_does_not_wait_and_leaving_drops_the_rest_of_a_frame() {
        let (mut writer, seen, allow) = slow();
        writer.write_all(&[7; 3 * PIECE]).expect("collected");
        writer.flush().expect("handed over");
        assert_eq!(seen.recv().expect("the first piece").len(), PIECE);
        let queue = &writer.queue;
        assert!(!queue.is_idle().expect("no failure"));
        assert!(!queue.discard(Duration::ZERO), "a piece is being written");
        allow.send(Ok(())).expect("it waits");
        assert!(queue.discard(LEAVE_WAIT));
        assert!(queue.is_idle().expect("no failure"));
        assert!(seen.try_recv().is_err(), "the rest is dropped");
    }

    #[test]
    fn a_terminal_that_is_gone_is_reported_once() {
        let (mut writer, seen, allow) = slow();
        writer.write_all(b"frame").expect("collected");
        writer.flush().expect("handed over");
        seen.recv().expect("the frame");
        allow
            .send(Err(io::Error::from_raw_os_error(5)))
            .expect("it waits");
        assert!(writer.queue.discard(LEAVE_WAIT));
        assert_eq!(
            writer.queue.is_idle().expect_err("EIO").raw_os_error(),
            Some(5)
        );
        assert!(writer.queue.is_idle().expect("nothing more"));
    }
}
