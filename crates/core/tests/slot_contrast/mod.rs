//! Starvation in a published table of intervals with counts and mean latencies only. Test support only.

/// Treated against other intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotContrast {
    /// Requests in treated slots.
    pub treated: u64,
    /// Their mean latency, weighted by requests.
    pub treated_mean: f64,
    /// Requests in the other slots.
    pub control: u64,
    /// Mean latency of the control intervals.
    pub control_mean: f64,
    /// Ratio of means.
    pub ratio: f64,
    /// Circular shifts of the burst with at least this ratio, and all shifts; the identity is one of them.
    pub circular: (u64, u64),
    /// Choices of as many non-empty slots with at least this ratio, and all choices; `None` if they are too many.
    pub choices: Option<(u64, u64)>,
}

/// Contrast of slots given as (requests, latency sum) by `burst`; `None` unless both sides hold requests.
pub fn slot_contrast(slots: &[(u64, f64)], burst: &[bool]) -> Option<SlotContrast> {
    let total = slots.iter().fold((0, 0.0), |t, s| (t.0 + s.0, t.1 + s.1));
    let ratio = |(n, sum): (u64, f64)| {
        let others = total.0 - n;
        (n > 0 && others > 0).then(|| (sum / n as f64) / ((total.1 - sum) / others as f64))
    };
    let shifted = |by: usize| {
        slots
            .iter()
            .enumerate()
            .filter(|(i, _)| burst[(i + by) % burst.len()])
            .fold((0, 0.0), |t, (_, s)| (t.0 + s.0, t.1 + s.1))
    };
    let treated = shifted(0);
    let observed = ratio(treated)?;
    // Equal up to rounding is equal.
    let as_large = |r: f64| r >= observed * (1.0 - 1e-12);
    let circular = (0..slots.len())
        .filter_map(|by| ratio(shifted(by)))
        .filter(|r| as_large(*r))
        .count() as u64;
    let filled: Vec<(u64, f64)> = slots.iter().copied().filter(|s| s.0 > 0).collect();
    let chosen = slots
        .iter()
        .zip(burst)
        .filter(|(s, b)| s.0 > 0 && **b)
        .count();
    let mut tally = (0, 0);
    if binomial(filled.len() as u64, chosen as u64) <= 1_000_000 {
        choose(&filled, chosen, (0, 0.0), &mut |sum| {
            tally.1 += 1;
            tally.0 += u64::from(ratio(sum).is_some_and(as_large));
        });
    }
    Some(SlotContrast {
        treated: treated.0,
        treated_mean: treated.1 / treated.0 as f64,
        control: total.0 - treated.0,
        control_mean: (total.1 - treated.1) / (total.0 - treated.0) as f64,
        ratio: observed,
        circular: (circular, slots.len() as u64),
        choices: (tally.1 > 0).then_some(tally),
    })
}

fn binomial(n: u64, k: u64) -> u64 {
    (0..k.min(n)).fold(1u64, |b, i| b.saturating_mul(n - i) / (i + 1))
}

fn choose(slots: &[(u64, f64)], k: usize, sum: (u64, f64), visit: &mut impl FnMut((u64, f64))) {
    if k == 0 {
        visit(sum);
        return;
    }
    for i in 0..=slots.len().saturating_sub(k) {
        if let Some(s) = slots.get(i) {
            choose(&slots[i + 1..], k - 1, (sum.0 + s.0, sum.1 + s.1), visit);
        }
    }
}
