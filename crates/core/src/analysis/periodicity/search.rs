//! Searches onsets for the clock with the most evidence (A15).

use crate::analysis::periodicity::chains::{Chains, gain};
use crate::analysis::periodicity::differences::Differences;
use crate::analysis::periodicity::fit::fit;
use crate::analysis::periodicity::{ALPHA, Clock, MIN_ONSETS, grid};

/// Maximum number of onsets searched together. Of longer lists at most [`MAX_PIECES`] such pieces are searched.
const PIECE: usize = 1024;
const MAX_PIECES: usize = 4;

/// Minimum length of a chain, as a share of the searched time; shorter ones are not schedules.
const MIN_SPAN: f64 = 0.15;

/// Minimum length of a chain, in periods.
const MIN_PERIODS: f64 = 2.5;

/// Half widths of the window in which a beat is expected, as shares of the period. The first is used only for few onsets.
const JITTERS: [f64; 5] = [0.005, 0.02, 0.05, 0.12, 0.25];
const FEW_ONSETS: usize = 256;

/// Minimum evidence per period. Submissions whose intervals are merely not exponential (after a pause, one at a time)
/// give long chains with little evidence per period.
const BEAT: f64 = 0.5;

/// Share of the counted starts and periods that are independent: neighbours share most of their chains. Calibrated on
/// Poisson streams, bursts at random, and on-off streams (`make calibrate`).
const TRIALS: f64 = 0.1;

/// The neighbourhood of a period is searched only if the period has this share of the needed evidence.
const PROMISING: f64 = 0.4;

/// A search for the clock with the most evidence.
pub(in crate::analysis) struct Search {
    pub shortest_ns: i64,
    pub resolution_ns: i64,
    pub window: (i64, i64),
}

/// The clock with the most evidence so far, with (cycle, time in ns) of each beat.
struct Best {
    evidence: f64,
    period: f64,
    beats: Vec<(f64, f64)>,
}

/// A chain or grid before its beats are listed; `length` is the time from its first to its last beat, in nanoseconds.
struct Offer {
    evidence: f64,
    period: f64,
    length: f64,
}

impl Offer {
    fn with(self, beats: Vec<(f64, f64)>) -> Best {
        Best {
            evidence: self.evidence,
            period: self.period,
            beats,
        }
    }
}

/// Onsets that are searched together, and the range of periods to search.
struct Piece<'a> {
    onsets: &'a [i64],
    span: f64,
    shortest: f64,
    longest: f64,
}

impl Piece<'_> {
    fn mean_gap(&self) -> f64 {
        self.span / (self.onsets.len() - 1) as f64
    }

    fn jitters(&self) -> impl Iterator<Item = f64> {
        let few = self.onsets.len() <= FEW_ONSETS;
        JITTERS.into_iter().filter(move |j| *j > JITTERS[0] || few)
    }

    /// Range of periods for grids: clocks with few missing beats and not too many other onsets.
    fn grids(&self) -> (f64, f64) {
        (
            self.shortest.max(0.5 * self.mean_gap()),
            self.longest.min(4.0 * self.mean_gap()),
        )
    }

    /// All periods count as tried, whether searched closely or not; half widths overlap.
    fn trials(&self) -> f64 {
        let n = self.onsets.len();
        let chains: f64 = self
            .jitters()
            .map(|j| TRIALS * n as f64 * (self.longest / self.shortest).ln() / j)
            .sum();
        chains + grid::trials(n, self.mean_gap(), self.grids().0)
    }
}

impl Search {
    /// The pieces of `list` that are searched, if they are long enough to contain a clock.
    fn pieces<'a>(&self, list: &'a [i64]) -> Vec<Piece<'a>> {
        let every = list.len().div_ceil(PIECE).div_ceil(MAX_PIECES).max(1);
        let mut pieces = Vec::new();
        for onsets in list.chunks(PIECE).step_by(every) {
            if onsets.len() < MIN_ONSETS {
                continue;
            }
            let piece = self.piece(onsets);
            if piece.shortest < piece.longest {
                pieces.push(piece);
            }
        }
        pieces
    }

    fn piece<'a>(&self, onsets: &'a [i64]) -> Piece<'a> {
        let span = (onsets[onsets.len() - 1] - onsets[0]) as f64;
        let mean_gap = span / (onsets.len() - 1) as f64;
        Piece {
            onsets,
            span,
            shortest: (0.25 * mean_gap).max(self.shortest_ns as f64),
            longest: (10.0 * mean_gap).min(span / 3.0),
        }
    }

    /// The clock with the most evidence among the onsets in any of `lists`, each sorted.
    pub fn best(&self, lists: &[Vec<i64>]) -> Option<Clock> {
        let pieces: Vec<Piece> = lists.iter().flat_map(|l| self.pieces(l)).collect();
        let trials: f64 = pieces.iter().map(Piece::trials).sum();
        let mut found: Option<Best> = None;
        for piece in &pieces {
            let times: Vec<f64> = piece.onsets.iter().map(|t| *t as f64).collect();
            self.best_of(piece, &times, (trials / ALPHA).ln(), &mut found);
        }
        self.clock(&found?, trials)
    }

    /// Replaces `found` if `piece` has a clock with more evidence.
    fn best_of(&self, piece: &Piece, times: &[f64], needed: f64, found: &mut Option<Best>) {
        let differences = Differences::collect(piece.onsets, piece.shortest, piece.longest);
        let mut chains = Chains::find(times);
        for jitter in piece.jitters() {
            let candidates = differences.candidates(jitter, &|period| {
                self.beats_needed(piece, period, self.half_width(jitter, period), needed)
            });
            for middle in candidates {
                let around = [0.0, -0.4, 0.4].map(|off| middle * (1.0 + off * jitter));
                for period in around {
                    chains.follow(period, self.half_width(jitter, period));
                    let (evidence, end) = chains.best();
                    let offer = Offer {
                        evidence,
                        period,
                        length: chains.span(end),
                    };
                    if self.is_better(&offer, piece, found.as_ref()) {
                        *found = Some(offer.with(chains.chain(end)));
                    }
                    // For a clock the first of the three periods has most of the evidence already, unless its window
                    // is no wider than a step between periods.
                    if evidence < PROMISING * needed && jitter > JITTERS[0] {
                        break;
                    }
                }
            }
        }
        // Beats that come too early or too late for any chain may still be on a grid.
        for period in differences.lines(piece.grids(), times.len(), piece.mean_gap()) {
            let grid = grid::best(times, period);
            let length = match &grid.beats[..] {
                [] => 0.0,
                [first, ..] => grid.beats[grid.beats.len() - 1].1 - first.1,
            };
            let offer = Offer {
                evidence: grid.evidence,
                period: grid.period,
                length,
            };
            if self.is_better(&offer, piece, found.as_ref()) {
                *found = Some(offer.with(grid.beats));
            }
        }
    }

    /// Whether `offer` is long enough for a schedule and has more evidence than the best so far.
    fn is_better(&self, offer: &Offer, piece: &Piece, found: Option<&Best>) -> bool {
        offer.length >= self.least_span(piece, offer.period)
            && offer.evidence >= BEAT * offer.length / offer.period
            && offer.evidence > found.map_or(0.0, |best| best.evidence)
    }

    /// Half width of the window in which a beat is expected, in nanoseconds: at least what times are rounded to.
    fn half_width(&self, jitter: f64, period: f64) -> f64 {
        (jitter * period).max(0.6 * self.resolution_ns as f64)
    }

    fn least_span(&self, piece: &Piece, period: f64) -> f64 {
        (MIN_PERIODS * period).max(MIN_SPAN * piece.span)
    }

    /// Number of beats that a chain with this period and half width needs for evidence `needed`; `None` if none can have it.
    fn beats_needed(&self, piece: &Piece, period: f64, half: f64, needed: f64) -> Option<f64> {
        let gain = gain(half, piece.onsets.len() as f64 / piece.span);
        let shortest_step = period - half;
        let most = piece.span / shortest_step + 1.0;
        let can_be = gain * period >= BEAT * shortest_step && gain * most >= needed;
        can_be.then(|| (needed / gain).max(self.least_span(piece, period) / period))
    }

    fn clock(&self, best: &Best, trials: f64) -> Option<Clock> {
        let beats: Vec<f64> = best.beats.iter().map(|b| b.1).collect();
        let first = *beats.first()?;
        let last = *beats.last()?;
        let fit = fit(&beats, best.period, self.resolution_ns as f64);
        Some(Clock {
            period_s: fit.period_ns / 1e9,
            period_ci_s: fit.interval_ns.map(|(low, high)| (low / 1e9, high / 1e9)),
            p_value: (trials * (-best.evidence).exp()).clamp(1e-12, 1.0),
            cycles: fit.cycles,
            onsets_in_step: beats.len(),
            jitter: fit.jitter,
            first_beat_s: self.seconds(first),
            last_beat_s: self.seconds(last),
            beats_s: beats.into_iter().map(|ns| self.seconds(ns)).collect(),
        })
    }

    /// Seconds from the start of the window to `ns`.
    fn seconds(&self, ns: f64) -> f64 {
        (ns - self.window.0 as f64) / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;
    use crate::analysis::periodicity::chains::LOOKED_AT;

    const S: i64 = 1_000_000_000;

    /// (the surest clock's period if it is none of chance, looks at each onset).
    fn search(onsets: Vec<i64>) -> (Option<f64>, f64) {
        let n = onsets.len() as f64;
        LOOKED_AT.with(|n| n.set(0));
        let search = Search {
            shortest_ns: 20_000_000,
            resolution_ns: 0,
            window: (0, 60 * S),
        };
        let clock = search.best(&[onsets]).filter(|c| c.p_value <= ALPHA);
        (
            clock.map(|c| c.period_s),
            LOOKED_AT.with(std::cell::Cell::get) as f64 / n,
        )
    }

    #[test]
    fn a_stream_without_a_clock_is_not_looked_at_closely() {
        let mut random = Shuffler::new(3);
        let mut chance: Vec<i64> = (0..1000)
            .map(|_| random.below(60 * S as u64) as i64)
            .collect();
        chance.sort_unstable();
        // As a list of onsets after a silence is: none sooner.
        let mut apart = chance.clone();
        apart.dedup_by(|b, a| *b - *a < 30_000_000);
        for onsets in [chance, apart] {
            let (found, looks) = search(onsets);
            // Five half widths of at most five candidates with two neighbours each would be 75.
            assert!(found.is_none() && looks <= 8.0, "{found:?}: {looks} looks");
        }
        let jittered = (0..120)
            .map(|i| i * S / 2 + random.below(50_000_000) as i64)
            .collect();
        let (found, _) = search(jittered);
        assert!(found.is_some_and(|p| (p - 0.5).abs() < 0.005), "{found:?}");
    }

    #[test]
    fn beats_a_fifth_of_the_period_early_or_late_keep_to_their_grid() {
        let found = |seed: u64, others: usize| {
            let mut random = Shuffler::new(seed);
            let mut onsets: Vec<i64> = (0..30)
                .map(|i| (2 * i + 1) * S + random.below(800_000_000) as i64)
                .collect();
            onsets.extend((0..others).map(|_| random.below(60 * S as u64) as i64));
            onsets.sort_unstable();
            search(onsets).0.is_some_and(|p| (p - 2.0).abs() < 0.04)
        };
        let [alone, among] =
            [0, 10].map(|others| (0..50).filter(|seed| found(*seed, others)).count());
        assert!(alone >= 49 && among >= 40, "{alone} and {among} of 50");
    }
}
