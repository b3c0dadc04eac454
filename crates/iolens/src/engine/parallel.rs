//! Reads several parts of recordings in parallel.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::caller::Caller;
use super::error::{QueryError, Result};

/// How many threads can run at once.
fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Minimum number of I/Os that justify a thread. A piece starts inside a row group, whose times are decoded again.
const MIN_IOS_OF_PIECE: f64 = 200_000.0;

/// Splits `range`, with about `ios` completed I/Os, into one piece per CPU, or fewer if there are few I/Os. A piece
/// consists of whole steps of `step_ns`, counted from the start of `range`.
pub fn pieces(range: &Range<i64>, ios: f64, step_ns: i64) -> Vec<Range<i64>> {
    let worth = (ios / MIN_IOS_OF_PIECE) as usize;
    let count = worth.clamp(1, cpus()) as i64;
    let length_ns = range.end.saturating_sub(range.start);
    let steps_of_piece = length_ns.div_euclid(step_ns.max(1)) / count + 1;
    let piece_ns = steps_of_piece.saturating_mul(step_ns.max(1));
    let mut pieces = Vec::new();
    let mut from_ns = range.start;
    while pieces.is_empty() || from_ns < range.end {
        let to_ns = from_ns.saturating_add(piece_ns).min(range.end);
        pieces.push(from_ns..to_ns);
        from_ns = to_ns;
    }
    pieces
}

/// Runs `work` on each of `parts`, on as many threads as there are CPUs, including this one. Each thread has its own
/// state, created by `start`. Returns the states, in no particular order. All threads stop at the deadline of
/// `caller`.
///
/// # Errors
/// An error of `work`: that of the thread that is joined first, if several fail. After an error no other part is
/// started.
pub fn shared<P: Sync, S: Send>(
    parts: &[P],
    caller: &Caller,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize, &P) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let run = || {
        let mut state = start();
        while !failed.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(i) else { break };
            let checked = caller.check().map_err(QueryError::from);
            checked
                .and_then(|()| work(&mut state, i, part))
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(state)
    };
    thread::scope(|scope| {
        let mut others = Vec::new();
        for _ in 1..cpus().min(parts.len()) {
            let builder = thread::Builder::new().name("read".to_owned());
            // If a thread cannot be started, the others take its parts.
            others.extend(builder.spawn_scoped(scope, run));
        }
        let mut states = vec![run()];
        for other in others {
            let state = other.join();
            states.push(state.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        states.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::note::Note;
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn every_part_is_done_once_and_all_remarks_are_kept() {
        let parts: Vec<u64> = (0..100).collect();
        let (caller, notes) = Caller::keeping_notes();
        let work = |sum: &mut u64, i: usize, part: &u64| {
            assert_eq!(i as u64, *part);
            caller.note(Note::Limit(format!("part {part}")));
            *sum += part;
            Ok(())
        };
        let sums = shared(&parts, &caller, || 0, work).expect("done");
        assert_eq!(sums.iter().sum::<u64>(), 4950);
        let notes = notes.lock().expect("no panic");
        let is_last = |note: &Note| matches!(note, Note::Limit(text) if text == "part 99");
        assert!(notes.len() == 100 && notes.iter().any(is_last), "{notes:?}");
        assert_eq!(
            shared(&[], &caller, || 7, |_, _, _: &u64| Ok(())).expect("nothing to do"),
            [7]
        );
    }

    #[test]
    fn pieces_are_whole_steps_that_follow_each_other() {
        let range = 7..1_000_000_003;
        let [few, many] = [10_000.0, 1e9].map(|ios| pieces(&range, ios, 1_000_000));
        assert_eq!(few, std::slice::from_ref(&range));
        assert_eq!(many.len(), cpus());
        let mut from_ns = range.start;
        for piece in &many {
            assert_eq!((piece.start, (piece.start - 7) % 1_000_000), (from_ns, 0));
            from_ns = piece.end;
        }
        assert_eq!(from_ns, range.end);
        let whole = pieces(&range, 1e9, i64::MAX);
        assert_eq!(whole, std::slice::from_ref(&range));
        assert_eq!(pieces(&(5..5), 0.0, 10).first(), Some(&(5..5)));
    }

    #[test]
    fn an_error_ends_it_on_all_threads_and_so_does_the_deadline() {
        let failing = |n: &mut usize, i: usize, _: &()| {
            *n += 1;
            if i == 3 {
                Err(QueryError::SumsOfStep(3))
            } else {
                Ok(())
            }
        };
        let caller = Caller::without_notes();
        let error = shared(&[(); 1000], &caller, || 0, failing).expect_err("fails");
        assert!(matches!(error, QueryError::SumsOfStep(3)), "{error}");
        let past = Instant::now()
            .checked_sub(Duration::from_millis(1))
            .expect("a time");
        let late = Caller::without_notes().until(past);
        let nothing = |(): &mut (), _: usize, (): &()| Ok(());
        let error = shared(&[(); 8], &late, || (), nothing).expect_err("too slow");
        assert!(matches!(error, QueryError::TooSlow(_)), "{error}");
    }
}
