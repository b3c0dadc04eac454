//! A thread that answers one request after another, and survives a panic in an answer.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Prefix of the names of these threads.
const PREFIX: &str = "iolens-w-";

/// The message of the last panic in such a thread.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Whether a panic is in one of these threads, which survive it. Stores its message. Called by the panic hook.
pub fn takes_panic(info: &PanicHookInfo) -> bool {
    let thread = std::thread::current();
    let is_own = thread.name().is_some_and(|name| name.starts_with(PREFIX));
    if is_own {
        let mut last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(info.to_string().replace('\n', " "));
    }
    is_own
}

/// A response.
pub struct WorkerAnswer<A> {
    /// The answer, or the message of the panic.
    pub result: Result<A, String>,
    /// The time it took.
    pub took: Duration,
}

/// A worker thread.
pub struct Worker<Q, A> {
    questions: SyncSender<Q>,
    answers: Receiver<WorkerAnswer<A>>,
    is_busy: bool,
}

impl<Q: Send + 'static, A: Send + 'static> Worker<Q, A> {
    /// Starts the thread. `name` has at most six letters.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: &str,
        answer: impl FnMut(Q) -> A + Send + 'static,
    ) -> std::io::Result<Worker<Q, A>> {
        let (questions, asked) = sync_channel::<Q>(1);
        let (sender, answers) = sync_channel(1);
        std::thread::Builder::new()
            .name(format!("{PREFIX}{name}"))
            .spawn(move || answer_all(asked, answer, sender))?;
        Ok(Worker {
            questions,
            answers,
            is_busy: false,
        })
    }

    /// Whether it is idle.
    pub fn is_idle(&self) -> bool {
        !self.is_busy
    }

    /// Sends a request, if it is idle.
    pub fn ask(&mut self, question: Q) {
        if !self.is_busy && self.questions.try_send(question).is_ok() {
            self.is_busy = true;
        }
    }

    /// The answer, if there is one.
    pub fn answer(&mut self) -> Option<WorkerAnswer<A>> {
        let answer = self.answers.try_recv().ok()?;
        self.is_busy = false;
        Some(answer)
    }
}

/// The body of the thread. It ends when the [`Worker`] is dropped.
fn answer_all<Q, A>(
    asked: Receiver<Q>,
    mut answer: impl FnMut(Q) -> A,
    answers: SyncSender<WorkerAnswer<A>>,
) {
    for question in asked {
        let begin = Instant::now();
        // State left behind by a panic is not used: the next request starts anew.
        let result = catch_unwind(AssertUnwindSafe(|| answer(question)));
        let result = result.map_err(|_| {
            let mut last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
            last.take().unwrap_or_else(|| "it panicked".to_owned())
        });
        let took = begin.elapsed();
        if answers.send(WorkerAnswer { result, took }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer_and_the_next_question_gets_its_own() {
        let mut worker = Worker::start("test", |n: i32| {
            assert!(n != 1, "one is too few");
            n * 2
        })
        .expect("a thread");
        let mut ask = |n: i32| {
            worker.ask(n);
            assert!(!worker.is_idle());
            loop {
                if let Some(answer) = worker.answer() {
                    return answer.result;
                }
                std::thread::yield_now();
            }
        };
        assert!(ask(1).is_err());
        assert_eq!(ask(2), Ok(4));
    }
}
