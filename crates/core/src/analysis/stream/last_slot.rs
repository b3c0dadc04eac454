//! Finds the slot of equal width that contains an instant.

/// Numbers slots of equal width since an origin, and caches the last one found. Consecutive events usually fall into
/// the same slot, and a division costs more than most of the work per I/O.
#[derive(Debug, Clone, Copy)]
pub(in crate::analysis) struct LastSlot {
    from_ns: i64,
    to_ns: i64,
    index: i64,
}

impl LastSlot {
    /// No cached slot. Also used when origin or width change.
    pub fn new() -> LastSlot {
        LastSlot {
            from_ns: 0,
            to_ns: 0,
            index: 0,
        }
    }

    /// The slot that contains `ns`.
    pub fn around(ns: i64, origin_ns: i64, width_ns: i64) -> LastSlot {
        let mut slot = LastSlot::new();
        slot.find(ns, origin_ns, width_ns);
        slot
    }

    /// Whether the slot contains `ns`.
    #[inline]
    pub fn holds(&self, ns: i64) -> bool {
        self.from_ns <= ns && ns < self.to_ns
    }

    /// `floor((ns - origin_ns) / width_ns)`. Origin and width must be the same as in previous calls.
    #[inline]
    pub fn index(&mut self, ns: i64, origin_ns: i64, width_ns: i64) -> i64 {
        if !self.holds(ns) {
            self.find(ns, origin_ns, width_ns);
        }
        self.index
    }

    fn find(&mut self, ns: i64, origin_ns: i64, width_ns: i64) {
        self.index = ns.saturating_sub(origin_ns).div_euclid(width_ns);
        self.from_ns = self
            .index
            .saturating_mul(width_ns)
            .saturating_add(origin_ns);
        self.to_ns = self.from_ns.saturating_add(width_ns);
    }

    /// Number of the cached slot.
    pub fn number(&self) -> i64 {
        self.index
    }

    /// End of the cached slot.
    pub fn end_ns(&self) -> i64 {
        self.to_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_division(instants in prop::collection::vec(-1000i64..1000, 1..50), origin in -50i64..50, width in 1i64..70) {
            let mut last = LastSlot::new();
            for ns in instants {
                let index = last.index(ns, origin, width);
                prop_assert_eq!(index, (ns - origin).div_euclid(width));
                prop_assert_eq!(last.end_ns(), origin + (index + 1) * width);
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut last = LastSlot::new();
        for ns in [i64::MAX, i64::MIN, i64::MAX - 1, 0] {
            assert_eq!(last.index(ns, 0, 1000), ns.div_euclid(1000));
        }
    }
}
