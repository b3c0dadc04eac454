//! Several recordings read at once.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Error, Result};

use super::{patience, privacy};
use crate::streams::heard;

/// Does `work` with each of `parts`, on as many threads as there are CPUs, this one among them. Each thread has a state of its
/// own from `start`; they come back, in no order. The deadline of [`patience`] holds on all threads, and what they say on
/// standard error is said on this one.
///
/// # Errors
/// The first that `work` had on the thread that is asked first; after an error no other part is begun.
pub fn shared<P: Sync, S: Send>(
    parts: &[P],
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize, &P) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || {
        let mut state = start();
        while !failed.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(i) else { break };
            patience::check()
                .map_err(Error::from)
                .and_then(|()| work(&mut state, i, part))
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(state)
    };
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let deadline = patience::deadline();
    let left_out = privacy::left_out();
    let within_limits = || match deadline {
        Some(deadline) => patience::until(deadline, run),
        None => run(),
    };
    let on_another = || heard(|| privacy::hiding(left_out.clone(), within_limits));
    thread::scope(|scope| {
        let others: Vec<_> = (1..cpus.min(parts.len()))
            .map(|_| {
                thread::Builder::new()
                    .name("read".to_owned())
                    .spawn_scoped(scope, on_another)
            })
            .collect();
        let mut states = vec![run()];
        for other in others {
            // Where a thread cannot be had the others do its parts.
            let Ok(other) = other else { continue };
            let (state, said) = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            said.iter().for_each(|line| eprintln!("iolens: {line}"));
            states.push(state);
        }
        states.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::time::{Duration, Instant};

    #[test]
    fn every_part_is_done_once_and_all_that_is_said_is_heard() {
        let parts: Vec<u64> = (0..100).collect();
        let work = |sum: &mut u64, i: usize, part: &u64| {
            assert_eq!(i as u64, *part);
            eprintln!("iolens: part {part}");
            *sum += part;
            Ok(())
        };
        let (sums, said) = heard(|| shared(&parts, || 0, work).expect("done"));
        assert_eq!(sums.iter().sum::<u64>(), 4950);
        assert_eq!(said.len(), 100);
        assert!(said.contains(&"part 99".to_owned()), "{said:?}");
        assert_eq!(
            shared(&[], || 7, |_, _, _: &u64| Ok(())).expect("nothing to do"),
            [7]
        );
    }

    #[test]
    fn an_error_ends_it_on_all_threads_and_so_does_the_deadline() {
        let failing = |n: &mut usize, i: usize, _: &()| {
            *n += 1;
            if i == 3 { bail!("part 3") } else { Ok(()) }
        };
        let error = shared(&[(); 1000], || 0, failing).expect_err("fails");
        assert_eq!(error.to_string(), "part 3");
        let past = Instant::now()
            .checked_sub(Duration::from_millis(1))
            .expect("a time");
        let error = patience::until(past, || shared(&[(); 8], || (), |(), _, ()| Ok(())))
            .expect_err("too slow");
        assert!(error.is::<patience::TooSlow>(), "{error}");
    }
}
