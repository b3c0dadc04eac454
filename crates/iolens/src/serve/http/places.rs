//! Limits of concurrent requests. Each kind has its own limit, so that expensive requests never block health checks.
//!
//! A request holds its place until its response is read. If all places of a kind are taken, the connection of a
//! client that does not read is closed.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::problem::Problem;

/// A client that has not read for this long may be disconnected to make room.
const STALLED: Duration = Duration::from_secs(1);

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// `/healthz`: always served.
    Health,
    /// `/metrics`.
    Metrics,
    /// Event streams, which last as long as the client wants.
    Live,
    /// Served from memory.
    Light,
    /// Copies a stretch, which takes longer than other requests.
    Copy,
    /// Reads the store.
    Heavy,
}

impl RequestKind {
    /// Limits of this kind: in total, and for one client.
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

/// The other end of a connection. Requests of one client are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// A TCP client.
    Address(IpAddr),
    /// The user id of a process that uses the Unix socket.
    User(u32),
    /// The kernel does not report it.
    Unknown,
}

/// State of a connection, shared by the tasks that serve it.
#[derive(Debug)]
pub struct Traffic {
    /// The client.
    pub client: Client,
    /// Number of requests in progress or with unread responses.
    busy: AtomicUsize,
    /// Since when the client has not read the bytes that are waiting.
    stalled_since: Mutex<Option<Instant>>,
    task: OnceLock<AbortHandle>,
}

impl Traffic {
    /// A new connection.
    pub fn new(client: Client) -> Arc<Traffic> {
        Arc::new(Traffic {
            client,
            busy: AtomicUsize::new(0),
            stalled_since: Mutex::default(),
            task: OnceLock::new(),
        })
    }

    /// Sets the task that serves it.
    pub fn served_by(&self, task: AbortHandle) {
        // There is one task per connection, so this is set once.
        drop(self.task.set(task));
    }

    /// Whether no request is in progress.
    pub fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.task.get().is_some_and(AbortHandle::is_finished)
    }

    /// Closes it.
    pub fn close(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Records whether the client reads the bytes that are waiting.
    pub fn reads(&self, reads: bool) {
        let mut since = self.stalled();
        if reads {
            *since = None;
        } else if since.is_none() {
            *since = Some(Instant::now());
        }
    }

    /// How long the client has not read.
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

/// A request of a connection, from its arrival until its response is read.
#[derive(Debug)]
pub struct Busy(Arc<Traffic>);

impl Busy {
    /// Starts a request.
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

/// The places in use.
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

/// The place of a request, freed when dropped.
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
    /// Takes a place. If none is free, the connection whose client has not read for longest is closed.
    ///
    /// # Errors
    /// All places are taken by clients that read.
    pub fn enter(
        self: &Arc<Places>,
        kind: RequestKind,
        traffic: &Arc<Traffic>,
    ) -> Result<Place, Problem> {
        let (max, max_of_client) = kind.places();
        let mut taken = self.taken();
        // A client at its own limit can only free one of its own places.
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

    /// Number of places of a kind in use.
    #[cfg(test)]
    pub fn count(&self, kind: RequestKind) -> usize {
        self.taken().count(|e| e.kind == kind)
    }

    /// Closes the connection whose client has not read for longest, if any client is stalled.
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

    /// Whether fewer than `max` places matching `of` are taken, or one of them could be freed.
    fn has_room(&mut self, max: usize, of: impl Fn(&Entry) -> bool) -> bool {
        self.count(&of) < max || self.make_room(of)
    }

    /// Frees the matching place whose client has not read for longest. Returns whether there was one.
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
