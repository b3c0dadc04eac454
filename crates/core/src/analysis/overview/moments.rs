//! What deserves a closer look.

use super::{Level, Moment, OverviewData, Window};
use crate::analysis::findings::Finding;
use crate::model::DevId;

/// Findings longer than this are about the whole, not about a moment.
const MAX_NS: i64 = 10_000_000_000;

/// Moments for [`super::OverviewPlan::details`], the most important first: the findings in their order, but of each kind
/// in turn; then, in every scope, the slots with the slowest read, the slowest write and the most bytes.
pub fn moments(base: &OverviewData, findings: &[Finding]) -> Vec<Moment> {
    let mut out: Vec<Moment> = Vec::new();
    let short: Vec<&Finding> = findings
        .iter()
        .filter(|f| f.to_ns - f.from_ns <= MAX_NS)
        .collect();
    for round in 0..short.len() {
        for (i, f) in short.iter().enumerate() {
            // The first of every kind comes before the second of any.
            if short[..i].iter().filter(|o| o.kind() == f.kind()).count() == round {
                out.push(Moment {
                    window: Window::new(f.from_ns, f.to_ns),
                    dev: f.dev,
                });
            }
        }
    }
    let extremes: Vec<Moment> = base
        .plan
        .stretches
        .iter()
        .flat_map(|s| extremes(base, s.scope, s.step_ns))
        .collect();
    // Early enough that many findings of one kind cannot push all other pictures out.
    let at = out.len().min(4);
    out.splice(at..at, extremes);
    out
}

fn extremes(base: &OverviewData, scope: usize, step_ns: i64) -> Vec<Moment> {
    let Some(level) = base
        .levels
        .iter()
        .find(|l| l.scope == scope && l.step_ns == step_ns)
    else {
        return Vec::new();
    };
    let dev = match base.plan.scopes[scope].devices[..] {
        [only] => Some(only),
        _ => None,
    };
    let slowest = |class: usize| {
        highest(level, dev, |c| {
            c.latency[class]?.quantiles.map(|q| q.max_ns as u64)
        })
    };
    let busiest = highest(level, dev, |c| Some(c.sectors.iter().sum()));
    [slowest(0), slowest(1), busiest]
        .into_iter()
        .flatten()
        .collect()
}

/// The slot in which `value` is highest, if it is above 0 anywhere.
fn highest(
    level: &Level,
    dev: Option<DevId>,
    value: impl Fn(&super::SlotCounts) -> Option<u64>,
) -> Option<Moment> {
    let (slot, _) = level
        .counts
        .iter()
        .enumerate()
        .filter_map(|(i, c)| Some((i, value(c)?)))
        .filter(|(_, v)| *v > 0)
        .max_by_key(
            // Of equals the first.
            |(i, v)| (*v, std::cmp::Reverse(*i)),
        )?;
    let from_ns = level.from_ns + slot as i64 * level.step_ns;
    Some(Moment {
        window: Window::new(from_ns, from_ns + level.step_ns),
        dev,
    })
}
