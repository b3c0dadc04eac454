//! A series of bins of equal width over a time range. Memory grows with the bins in use, not with the range.

/// One slot of a [`Series`] with activity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Its number.
    pub at: usize,
    /// Bytes moved in it.
    pub bytes: u64,
    /// I/Os submitted in it.
    pub ios: u64,
    /// Lower bound of the highest throughput of any window that ends in the slot, in bytes per second.
    pub peak_bytes_per_s: f64,
    /// Bytes moved in all slots before it.
    before: u64,
}

impl Slot {
    /// A slot that is not part of a series yet.
    pub fn new(at: usize, bytes: u64, ios: u64, peak_bytes_per_s: f64) -> Slot {
        Slot {
            at,
            bytes,
            ios,
            peak_bytes_per_s,
            before: 0,
        }
    }
}

/// A series of slots of one class of one device. Only slots with activity are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Beginning of the first slot, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Width of a slot.
    pub dt_ns: i64,
    slots: usize,
    filled: Vec<Slot>,
}

impl Series {
    /// A series of `slots` slots. `filled` are the slots with activity, in order; their cumulative bytes are computed
    /// here.
    pub fn new(
        from_ns: i64,
        dt_ns: i64,
        slots: usize,
        filled: impl Iterator<Item = Slot>,
    ) -> Series {
        let mut before = 0;
        let mut used = Vec::new();
        for slot in filled.filter(|s| s.bytes > 0 || s.ios > 0) {
            used.push(Slot { before, ..slot });
            before += slot.bytes;
        }
        Series {
            from_ns,
            dt_ns,
            slots,
            filled: used,
        }
    }

    /// A series from the bytes and I/Os of each slot, as tables have them. A slot's peak rate then counts all of its
    /// bytes.
    pub fn dense(from_ns: i64, dt_ns: i64, bytes: &[u64], ios: &[u64]) -> Series {
        let all = bytes.iter().zip(ios).enumerate();
        let slots = all.map(|(at, (bytes, ios))| {
            let peak_bytes_per_s = *bytes as f64 * 1e9 / dt_ns as f64;
            Slot::new(at, *bytes, *ios, peak_bytes_per_s)
        });
        Series::new(from_ns, dt_ns, bytes.len(), slots)
    }

    /// Number of slots, with or without I/O.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slots with activity.
    pub fn filled(&self) -> &[Slot] {
        &self.filled
    }

    /// The slots with activity from `first` up to `end`.
    pub fn range(&self, first: usize, end: usize) -> &[Slot] {
        let [from, to] = [first, end].map(|at| self.filled.partition_point(|s| s.at < at));
        &self.filled[from..to.max(from)]
    }

    /// The slot from `first` up to `end` with the highest peak rate, the earliest of equals.
    pub fn highest(&self, first: usize, end: usize) -> Option<&Slot> {
        self.range(first, end)
            .iter()
            .rev()
            .max_by(|a, b| a.peak_bytes_per_s.total_cmp(&b.peak_bytes_per_s))
    }

    /// Bytes of each slot from `first` up to `end`.
    pub fn bytes_of(&self, first: usize, end: usize) -> Vec<u64> {
        let mut bytes = vec![0; end.saturating_sub(first)];
        self.range(first, end)
            .iter()
            .for_each(|s| bytes[s.at - first] = s.bytes);
        bytes
    }

    /// Total bytes of the slots from `first` up to `end`.
    pub fn sum(&self, first: usize, end: usize) -> u64 {
        match self.range(first, end) {
            [] => 0,
            [one] => one.bytes,
            [first, .., last] => last.before + last.bytes - first.before,
        }
    }

    /// Beginning of slot `i`.
    pub fn at_ns(&self, i: usize) -> i64 {
        self.from_ns + i as i64 * self.dt_ns
    }

    /// Converts bytes of one slot to bytes per second.
    pub fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.dt_ns as f64
    }
}
