//! What `iolens demo` says around its recording, and two tables side by side.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use iolens_core::analysis::latency::slowest::SlowestIo;
use iolens_core::analysis::timeline::Row;
use iolens_core::model::Class;

use super::layout::{count_of, number, size};
use super::record_text::shell_word;
use super::times::Times;

/// Before the load.
pub fn load_begins(duration: Duration, period: Duration, burst_bytes: u64) -> String {
    format!(
        "iolens: {} s of O_DIRECT random reads at 400 IOPS while a writer dirties and fsyncs {} every {:.1} s\n",
        duration.as_secs(),
        size(burst_bytes as f64),
        period.as_secs_f64()
    )
}

/// After it.
pub fn load_done(reads: u64, flushes: u64, written_bytes: u64) -> String {
    format!(
        "Load generated: {}; {}, {} in total.\n\n",
        count_of(reads, "read"),
        count_of(flushes, "fsync"),
        size(written_bytes as f64)
    )
}

/// The sentence above the tables: what the reader lost, and what its second says of that.
pub fn reads_stopped(
    slowest: &SlowestIo,
    worst: &Row,
    second: Option<&Row>,
    times: &Times,
) -> String {
    let stopped_ns = slowest.gap_ns.unwrap_or(slowest.total_ns);
    let written = written(worst);
    let mean_us = second.and_then(|row| row.mean_us(Class::Read));
    let of_second = mean_us.map_or_else(String::new, |us| {
        format!(
            " The row of that second, as in iostat, says {} ms on average.",
            number(Some(us / 1e3), 2)
        )
    });
    format!(
        "Reads stopped for {} ms: the slowest took {} ms instead of {} ms (median of {}). {written} of writes completed in the \
         10 ms in which it ended, at {}.{of_second}\n\n",
        milliseconds(stopped_ns, 1),
        milliseconds(slowest.total_ns, 1),
        milliseconds(slowest.median_ns, 2),
        count_of(slowest.ios, "read"),
        times.instant_to(slowest.done_ns, 2),
    )
}

/// The same where single reads are not known: what the worst slot shows and what the second around it says.
pub fn worst_moment(worst: &Row, second: &Row, times: &Times) -> String {
    // What completes in 10 ms may have been moved before: an amount, not a rate.
    format!(
        "Worst {:.0} ms (ending at {}): {} of writes completed, {}. Same second in iostat: {}/s written, {}.\n\n",
        worst.seconds() * 1e3,
        times.instant_to(worst.to_ns, 2),
        written(worst),
        read_latency(worst),
        written(second),
        read_latency(second)
    )
}

fn milliseconds(ns: i64, decimals: usize) -> String {
    number(Some(ns as f64 / 1e6), decimals)
}

/// The amount of all writes that completed in `row`.
fn written(row: &Row) -> String {
    size(row.flows[Class::Write as usize].bytes as f64)
}

fn read_latency(row: &Row) -> String {
    match row.mean_us(Class::Read) {
        Some(us) => format!("mean read latency {:.1} ms", us / 1e3),
        None => "no read completed".to_owned(),
    }
}

/// Two blocks of text next to each other, or one under the other if `columns` are too few.
pub fn side_by_side(left: (&str, &str), right: (&str, &str), columns: usize) -> String {
    let left_width = width_of(left.1).max(left.0.chars().count());
    let mut out = String::new();
    if left_width + 4 + width_of(right.1) > columns {
        for (title, block) in [left, right] {
            let _ = writeln!(out, "{title}\n{block}");
        }
        return out;
    }
    let left_lines = left.1.lines().collect::<Vec<_>>();
    let right_lines = right.1.lines().collect::<Vec<_>>();
    let _ = writeln!(out, "{:left_width$}    {}", left.0, right.0);
    for i in 0..left_lines.len().max(right_lines.len()) {
        // The shorter block is filled up with empty lines.
        let left_line = left_lines.get(i).copied().unwrap_or_default();
        let right_line = right_lines.get(i).copied().unwrap_or_default();
        let joined = format!("{left_line:left_width$}    {right_line}");
        let _ = writeln!(out, "{}", joined.trim_end());
    }
    out
}

/// Characters of the longest line.
fn width_of(block: &str) -> usize {
    let widths = block.lines().map(|line| line.chars().count());
    widths.max().unwrap_or(0)
}

/// The command that shows the worst moment more closely.
pub fn closer_look(path: &Path, worst: &Row, times: &Times) -> String {
    const AROUND_NS: i64 = 50_000_000;
    let from = times.argument((worst.from_ns - AROUND_NS).max(0));
    let to = times.argument(worst.to_ns + AROUND_NS);
    format!(
        "Millisecond by millisecond: iolens zoom {} --step 1ms --from {from} --to {to} -x\n",
        shell_word(path)
    )
}

/// What to try next.
pub fn try_next(path: &Path) -> String {
    let r = shell_word(path);
    let lines = [
        (format!("iolens report {r}"), "each device in numbers"),
        (
            format!("iolens zoom {r} --by process"),
            "who did it, second by second",
        ),
        (
            "iolens record -- COMMAND".to_owned(),
            "record your own command",
        ),
    ];
    let width = lines
        .iter()
        .map(|(command, _)| command.len())
        .max()
        .unwrap_or(0);
    lines
        .iter()
        .fold("\nTry next:\n".to_owned(), |mut out, (command, what)| {
            let _ = writeln!(out, "  {command:width$}    {what}");
            out
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::Window;
    use iolens_core::analysis::timeline::{Timeline, TimelinePlan};
    use iolens_core::model::{DevId, Io, Op};

    #[test]
    fn what_the_reader_lost_is_said_as_a_maximum_beside_the_median() {
        let slowest = SlowestIo {
            done_ns: 4_830_000_000,
            total_ns: 22_200_000,
            gap_ns: Some(24_500_000),
            median_ns: 90_000,
            ios: 5980,
        };
        let window = Window::new(4_830_000_000, 4_840_000_000);
        let plan = TimelinePlan::new(window, 10_000_000);
        let mut timeline = Timeline::new(plan).expect("a plan");
        let sda = DevId::new(8, 0);
        let write = Io::new(4_835_000_000, sda, Op::WRITE, 8_388_608, Some(0), 1000);
        let read = Io::new(4_836_000_000, sda, Op::READ, 4096, Some(0), 310_000);
        for io in [write, read] {
            timeline.push(&io).expect("in order");
        }
        timeline.finish(window.to_ns).expect("an end");
        let row = timeline.next_row().expect("a row");
        let text = reads_stopped(&slowest, &row, Some(&row), &Times::relative());
        assert_eq!(
            text,
            "Reads stopped for 24.5 ms: the slowest took 22.2 ms instead of 0.09 ms (median of 5,980 reads). 8.39 MB of writes \
             completed in the 10 ms in which it ended, at 4.83 s. The row of that second, as in iostat, says 0.31 ms on \
             average.\n\n"
        );
    }

    #[test]
    fn blocks_stand_side_by_side_where_there_is_room() {
        let left = ("seconds", "a b\n1 2\n");
        let right = ("worst", "c d\n3 4\n5 6\n");
        assert_eq!(
            side_by_side(left, right, 80),
            "seconds    worst\na b        c d\n1 2        3 4\n           5 6\n"
        );
        assert_eq!(
            side_by_side(left, right, 10),
            "seconds\na b\n1 2\n\nworst\nc d\n3 4\n5 6\n\n"
        );
    }
}
