//! Places of requests: each kind has its own, so that those that read much never keep out those that say whether it records.
//!
//! A request holds its place until its answer is read. Where all places of a kind are taken, a client that does not read makes room.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::problem::Problem;

/// A client that has not read for so long makes room for another one.
const STALLED: Duration = Duration::from_secs(1);

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// `/healthz`: always answered.
    Health,
    /// `/metrics`.
    Metrics,
    /// Watches what happens, for as long as it likes.
    Live,
    /// Needs no more than memory.
    Light,
    /// Has a stretch copied, which takes longer than an answer.
    Copy,
    /// Reads the store.
    Heavy,
}

impl RequestKind {
    /// Places of this kind, and how many of them one client may have.
    fn places(self) -> (usize, usize) {
        match self {
            RequestKind::Health => (usize::MAX, usize::MAX),
            RequestKind::Metrics => (8, 4),
            RequestKind::Live => (32, 16),
            RequestKind::Light | RequestKind::Copy => (32, 32),
            RequestKind::Heavy => (64, 32),
        }
    }
}

/// On the other end of a connection: requests of one client count together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Of a TCP connection.
    Address(IpAddr),
    /// Of a socket in the file system, whose process it is.
    User(u32),
    /// The kernel does not say.
    Unknown,
}

/// What is known of a connection, shared by those who serve it.
#[derive(Debug)]
pub struct Traffic {
    /// Whose it is.
    pub client: Client,
    /// Requests that are being answered, or whose answer is not yet read.
    busy: AtomicUsize,
    /// Since when the client does not read what there is for it.
    stalled_since: Mutex<Option<Instant>>,
    task: OnceLock<AbortHandle>,
}

impl Traffic {
    /// Of a new connection.
    pub fn new(client: Client) -> Arc<Traffic> {
        Arc::new(Traffic {
            client,
            busy: AtomicUsize::new(0),
            stalled_since: Mutex::default(),
            task: OnceLock::new(),
        })
    }

    /// Is served by `task`.
    pub fn served_by(&self, task: AbortHandle) {
        // There is one task for each connection.
        drop(self.task.set(task));
    }

    /// Whether no request is being answered.
    pub fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    /// Whether it is over.
    pub fn is_closed(&self) -> bool {
        self.task.get().is_some_and(AbortHandle::is_finished)
    }

    /// Ends it.
    pub fn close(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Whether the client reads what there is for it.
    pub fn reads(&self, reads: bool) {
        let mut since = self.stalled();
        if reads {
            *since = None;
        } else if since.is_none() {
            *since = Some(Instant::now());
        }
    }

    /// For how long the client has not read.
    pub fn stalled_for(&self) -> Duration {
        let since = *self.stalled();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn stalled(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stalled_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of a connection, from its arrival until its answer is read.
#[derive(Debug)]
pub struct Busy(Arc<Traffic>);

impl Busy {
    /// Begins.
    pub fn new(traffic: &Arc<Traffic>) -> Busy {
        traffic.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(traffic))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The places that are taken.
#[derive(Debug, Default)]
pub struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    places: Vec<Entry>,
    last_id: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    kind: RequestKind,
    traffic: Arc<Traffic>,
}

/// A place of a request, free again when dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().places.retain(|e| e.id != self.id);
    }
}

impl Places {
    /// Takes a place. Where there is none, the connection whose client has not read for longest is closed and makes room.
    ///
    /// # Errors
    /// All are taken, by clients that read.
    pub fn enter(
        self: &Arc<Places>,
        kind: RequestKind,
        traffic: &Arc<Traffic>,
    ) -> Result<Place, Problem> {
        let (max, max_of_client) = kind.places();
        let mut taken = self.taken();
        // A client that has its share makes room itself, and takes nothing from others.
        let client = traffic.client;
        let client_has_room = taken.has_room(max_of_client, |e| {
            e.kind == kind && e.traffic.client == client
        });
        if !client_has_room {
            return Err(Problem::busy("too many requests of this client at once"));
        }
        if !taken.has_room(max, |e| e.kind == kind) {
            return Err(Problem::busy("too many requests at once"));
        }
        taken.last_id += 1;
        let id = taken.last_id;
        taken.places.push(Entry {
            id,
            kind,
            traffic: Arc::clone(traffic),
        });
        Ok(Place {
            places: Arc::clone(self),
            id,
        })
    }

    /// How many of a kind are taken.
    #[cfg(test)]
    pub fn count(&self, kind: RequestKind) -> usize {
        self.taken().count(|e| e.kind == kind)
    }

    /// Closes the connection whose client has not read for longest, if there is one that does not read.
    pub fn close_most_stalled(&self) {
        self.taken().make_room(|_| true);
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn count(&self, of: impl Fn(&Entry) -> bool) -> usize {
        self.places.iter().filter(|e| of(e)).count()
    }

    /// Whether less than `max` of those of which `of` holds are taken, or one of them could be freed.
    fn has_room(&mut self, max: usize, of: impl Fn(&Entry) -> bool) -> bool {
        self.count(&of) < max || self.make_room(of)
    }

    /// Takes the place of the client, among those of which `of` holds, that has not read for longest. Whether there was one.
    fn make_room(&mut self, of: impl Fn(&Entry) -> bool) -> bool {
        let candidates = (0..self.places.len()).filter(|i| of(&self.places[*i]));
        let most = candidates.max_by_key(|i| self.places[*i].traffic.stalled_for());
        let Some(most) = most else { return false };
        if self.places[most].traffic.stalled_for() < STALLED {
            return false;
        }
        self.places.swap_remove(most).traffic.close();
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn traffic(last_byte: u8) -> Arc<Traffic> {
        Traffic::new(Client::Address([10, 0, 0, last_byte].into()))
    }

    #[test]
    fn each_kind_has_places_of_its_own_and_a_client_only_some_of_them() {
        let places = Arc::new(Places::default());
        let one = traffic(1);
        let heavy = |of: &Arc<Traffic>| places.enter(RequestKind::Heavy, of);
        let held: Vec<Place> = (0..32).map(|_| heavy(&one).unwrap()).collect();
        assert!(heavy(&one).unwrap_err().detail().contains("this client"));
        let more: Vec<Place> = (0..32).map(|_| heavy(&traffic(2)).unwrap()).collect();
        assert!(heavy(&traffic(3)).is_err());
        for kind in [
            RequestKind::Health,
            RequestKind::Metrics,
            RequestKind::Live,
            RequestKind::Light,
            RequestKind::Copy,
        ] {
            assert!(places.enter(kind, &one).is_ok(), "{kind:?}");
        }
        drop((held, more));
        assert!(heavy(&one).is_ok());
    }

    #[test]
    fn who_does_not_read_makes_room_and_who_reads_stays() {
        let places = Arc::new(Places::default());
        let reads = traffic(1);
        let stalls = traffic(1);
        let watching: Vec<Place> = (0..16)
            .map(|i| {
                let of = if i == 7 { &stalls } else { &reads };
                places.enter(RequestKind::Live, of).unwrap()
            })
            .collect();
        assert!(places.enter(RequestKind::Live, &reads).is_err());
        let since = Instant::now().checked_sub(2 * STALLED).unwrap();
        *stalls.stalled() = Some(since);
        let newcomer = places.enter(RequestKind::Live, &reads).unwrap();
        assert!(places.enter(RequestKind::Live, &reads).is_err());
        // The place of the one that was closed is another one's now.
        drop(watching);
        assert_eq!(places.taken().places.len(), 1);
        drop(newcomer);
        assert!(places.taken().places.is_empty());
    }
}
