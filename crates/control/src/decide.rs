//! The throttle's controller (A21): from the disks' load to the share of time that background work may run. Pure: no
//! clock, no I/O, no randomness; the caller passes the time.
//!
//! Integral control on the share of time ("duty") that the background may run: `d ← clip(d + K(u* − u))`. With a disk
//! gain `k = du/dd` and one sample of delay this is stable for `Kk < 1`; `K` is half of that for the largest `k` there
//! is (1: at full duty the background alone fills the disk), and grows while a smaller gain is observed. The duty
//! itself is the integrator and is clipped, so nothing winds up while the disk idles.

use iolens_core::model::SECOND_NS;

/// Target for `K·k`: half of the stability limit with one sample of delay.
const LOOP_GAIN: f64 = 0.5;

/// Bounds of the estimated gain; below the lower one `K` would react to noise.
const GAIN_RANGE: (f64, f64) = (0.3, 1.0);

/// Errors within this many percentage points are noise of the sensor and are not acted upon at full gain.
const DEAD_BAND_PP: f64 = 1.0;

/// A mode is left only when utilisation is this far past the mark that led into it.
const HYSTERESIS_PP: f64 = 5.0;

/// Below this utilisation the foreground counts only in proportion: at 0 it counts as absent.
pub const MIN_FOREGROUND_PERCENT: f64 = 5.0;

/// Weight of the newest sample in the mean by which modes are chosen: a single noisy sample is no change of mode.
const MODE_WEIGHT: f64 = 0.4;

/// Factor by which the latency guard reduces a duty that was too large, and by which it lets it grow at each
/// decision. With their ratio it tries the limit again about once in 160 decisions, so fewer than one window in a
/// hundred is too slow.
const GUARD_BACK_OFF: f64 = 0.85;
const GUARD_CREEP: f64 = 1.001;

/// The guard acts at this share of the limit, because it learns of a slow window only after its end.
const GUARD_MARGIN: f64 = 0.8;

/// Growth per decision while the foreground needs less than half of its limit.
const GUARD_RECOVERY: f64 = 1.03;

/// Growth per decision while there is hardly any foreground I/O.
const GUARD_RELEASE: f64 = 1.25;

/// Fastest rise and fall of the duty in one decision.
const MAX_UP: f64 = 0.25;
const MAX_DOWN: f64 = 0.5;

/// With fewer I/Os, a p99 is the maximum of a few values, and the guard does not act on it.
const GUARD_MIN_IOS: u64 = 30;

/// Watermarks in percent, and the controller's limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Below this utilisation no process needs to yield, in percent.
    pub low_percent: f64,
    /// Above it the background yields, in percent.
    pub high_percent: f64,
    /// At and above this utilisation it yields immediately, in percent.
    pub max_percent: f64,
    /// The background's minimum share of the time, 0 to 1, so that it always makes progress.
    pub floor: f64,
    /// Foreground latency (99th percentile) that is not to be exceeded, in nanoseconds.
    pub latency_slo_ns: Option<i64>,
    /// Time without a reading, in nanoseconds, after which the background is throttled to the floor.
    pub sensor_loss_ns: i64,
}

/// The limits contradict each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BadLimits(&'static str);

impl std::fmt::Display for BadLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadLimits {}

impl Limits {
    /// 60, 80 and 95 %: room for the foreground's bursts, and hysteresis wide enough for noisy sensors.
    pub const DEFAULT: Limits = Limits {
        low_percent: 60.0,
        high_percent: 80.0,
        max_percent: 95.0,
        floor: 0.02,
        latency_slo_ns: None,
        sensor_loss_ns: 3 * SECOND_NS,
    };

    /// The disk-utilisation water marks of the AIStore object store (`disk_util_low_wm` 20, `_high_wm` 80, `_max_wm` 95).
    pub const AISTORE: Limits = Limits {
        low_percent: 20.0,
        ..Limits::DEFAULT
    };

    /// For work that should stay unnoticed: at most a third of the disk once other work is present.
    pub const GENTLE: Limits = Limits {
        low_percent: 20.0,
        high_percent: 40.0,
        max_percent: 80.0,
        ..Limits::DEFAULT
    };

    /// Checks that the limits are in order.
    ///
    /// # Errors
    /// The rule that they violate.
    pub fn check(&self) -> Result<(), BadLimits> {
        let marks = [
            0.0,
            self.low_percent,
            self.high_percent,
            self.max_percent,
            100.0,
        ];
        if marks.iter().any(|m| !m.is_finite()) || !marks.windows(2).all(|w| w[0] <= w[1]) {
            return Err(BadLimits(
                "the limits must be in order: 0 <= low < high < max <= 100",
            ));
        }
        if self.low_percent >= self.high_percent || self.high_percent >= self.max_percent {
            return Err(BadLimits("the limits must differ: low < high < max"));
        }
        if self.high_percent - self.low_percent < 2.0 * HYSTERESIS_PP {
            return Err(BadLimits(
                "low and high must be at least 10 apart: a narrower band oscillates",
            ));
        }
        if !(self.floor > 0.0 && self.floor <= 1.0) {
            return Err(BadLimits(
                "the floor must be above 0 and at most 1: the background must make progress",
            ));
        }
        Ok(())
    }

    /// The target utilisation while other work uses the disks: the middle of low and high, in percent.
    pub fn target_percent(&self) -> f64 {
        (self.low_percent + self.high_percent) / 2.0
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

/// The measurements of the interval that ends now. `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Observed {
    /// Time in nanoseconds, of any clock that does not step.
    pub at_ns: i64,
    /// Share of time with any I/O on the disks, in percent, of all processes.
    pub busy_percent: Option<f64>,
    /// Busy time without the background's I/O, in percent, if the two can be distinguished.
    pub foreground_percent: Option<f64>,
    /// 99th percentile of the foreground's latency in nanoseconds, and of how many I/Os.
    pub foreground_p99_ns: Option<(i64, u64)>,
}

/// The state of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No process needs to yield.
    Off,
    /// Utilisation is between the low and the high watermark.
    Hold,
    /// Above the high mark, or the foreground's latency is above its limit.
    Throttle,
    /// Utilisation is above the maximum.
    Emergency,
    /// There is no reading.
    Blind,
}

impl Mode {
    /// Lower-case name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Hold => "hold",
            Mode::Throttle => "throttle",
            Mode::Emergency => "emergency",
            Mode::Blind => "blind",
        }
    }
}

/// How much of the time the background may run until the next decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duty {
    /// Share of time, from the floor to 1.
    pub share: f64,
    /// Mode chosen by the smoothed utilisation.
    pub mode: Mode,
}

/// The controller's state. One per background job.
#[derive(Debug, Clone)]
pub struct Controller {
    limits: Limits,
    duty: f64,
    /// Upper bound of the duty set by the latency guard; rises slowly.
    ceiling: f64,
    /// The observed gain `du/dd`, both as shares.
    gain: f64,
    last: Option<(f64, f64)>,
    /// Utilisation that can delay other work, smoothed, in percent; `None`: not known yet.
    smooth: Option<f64>,
    mode: Mode,
    seen_ns: Option<i64>,
}

impl Controller {
    /// Starts with the background running freely.
    ///
    /// # Errors
    /// The limits contradict themselves.
    pub fn new(limits: Limits) -> Result<Controller, BadLimits> {
        limits.check()?;
        Ok(Controller {
            limits,
            duty: 1.0,
            ceiling: 1.0,
            gain: 1.0,
            last: None,
            smooth: Some(0.0),
            mode: Mode::Off,
            seen_ns: None,
        })
    }

    /// Starts with this share of the time (0 to 1, at least the floor): until the first decision other load is
    /// unknown.
    #[must_use]
    pub fn starting_at(mut self, share: f64) -> Controller {
        self.duty = share.clamp(self.limits.floor, 1.0);
        // The first reading of an unknown load is the only basis for choosing a mode.
        if self.duty < 1.0 {
            self.mode = Mode::Hold;
            self.smooth = None;
        } else {
            self.mode = Mode::Off;
            self.smooth = Some(0.0);
        }
        self
    }

    /// The marks in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The decision in force.
    pub fn duty(&self) -> Duty {
        Duty {
            share: self.duty,
            mode: self.mode,
        }
    }

    /// Decides the duty until the next call. Call it at regular intervals, about once a second.
    pub fn decide(&mut self, seen: &Observed) -> Duty {
        let Some(busy) = seen.busy_percent.filter(|b| b.is_finite()) else {
            return self.blind(seen.at_ns);
        };
        self.seen_ns = Some(seen.at_ns);
        let busy = busy.clamp(0.0, 100.0);
        self.learn_gain(busy / 100.0);
        // Without other load, the whole disk may be used.
        let alone = seen
            .foreground_percent
            .map_or(0.0, |f| (1.0 - f / MIN_FOREGROUND_PERCENT).clamp(0.0, 1.0));
        self.mode = self.next_mode(busy * (1.0 - alone));
        let before = self.duty;
        let step = self.step(busy, alone);
        self.duty = (self.duty + step).clamp(self.limits.floor, 1.0);
        if self.mode == Mode::Emergency {
            self.duty = self.duty.min(before / 2.0).max(self.limits.floor);
        }
        self.guard_latency(seen.foreground_p99_ns, before);
        self.duty = self.duty.min(self.ceiling).max(self.limits.floor);
        self.duty()
    }

    /// Without a reading, the last decision is kept; after a while the safest one is used.
    fn blind(&mut self, at_ns: i64) -> Duty {
        let since = *self.seen_ns.get_or_insert(at_ns);
        if at_ns - since >= self.limits.sensor_loss_ns {
            self.mode = Mode::Blind;
            self.duty = self.limits.floor;
        }
        self.last = None;
        self.duty()
    }

    /// Updates the gain `du/dd`, if the duty has changed enough to measure it.
    fn learn_gain(&mut self, busy: f64) {
        if let Some((last_busy, last_duty)) = self.last {
            let moved = self.duty - last_duty;
            if moved.abs() >= 0.05 {
                let seen = ((busy - last_busy) / moved).clamp(GAIN_RANGE.0, GAIN_RANGE.1);
                self.gain += 0.3 * (seen - self.gain);
            }
        }
        self.last = Some((busy, self.duty));
    }

    fn next_mode(&mut self, busy: f64) -> Mode {
        let before = self.smooth.unwrap_or(busy);
        let smooth = before + MODE_WEIGHT * (busy - before);
        self.smooth = Some(smooth);
        let l = &self.limits;
        // Leaving a mode has a lower threshold than entering it, so that noise does not cause switching.
        let throttles = matches!(self.mode, Mode::Throttle | Mode::Emergency);
        let high_percent = if throttles {
            l.high_percent - HYSTERESIS_PP
        } else {
            l.high_percent
        };
        if busy >= l.max_percent
            || (self.mode == Mode::Emergency && busy >= l.max_percent - HYSTERESIS_PP)
        {
            Mode::Emergency
        } else if smooth >= high_percent {
            Mode::Throttle
        } else if self.duty >= 1.0
            && (smooth < l.low_percent - HYSTERESIS_PP
                || (self.mode == Mode::Off && smooth < l.high_percent))
        {
            Mode::Off
        } else {
            Mode::Hold
        }
    }

    /// The integral law with a rate limit: faster down than up. Without other work the duty rises, whatever the
    /// utilisation. Near the threshold of other work the two are blended, so that the duty does not jump.
    fn step(&self, busy: f64, alone: f64) -> f64 {
        let error = self.limits.target_percent() - busy;
        let factor = if error.abs() <= DEAD_BAND_PP {
            0.25
        } else {
            1.0
        };
        let law = (factor * LOOP_GAIN / self.gain * error / 100.0).clamp(-MAX_DOWN, MAX_UP);
        alone * MAX_UP + (1.0 - alone) * law
    }

    /// Reduces the duty while the foreground is too slow, and remembers which duty was too large.
    fn guard_latency(&mut self, p99: Option<(i64, u64)>, before: f64) {
        let Some(slo) = self
            .limits
            .latency_slo_ns
            .map(|ns| (ns as f64 * GUARD_MARGIN) as i64)
        else {
            return;
        };
        let judged = p99.filter(|(_, n)| *n >= GUARD_MIN_IOS).map(|(ns, _)| ns);
        if judged.is_none_or(|ns| ns <= slo) {
            let growth = match judged {
                None => GUARD_RELEASE,
                Some(ns) if ns < slo / 2 => GUARD_RECOVERY,
                Some(_) => GUARD_CREEP,
            };
            self.ceiling = (self.ceiling * growth).min(1.0);
            return;
        }
        self.ceiling = (before * GUARD_BACK_OFF).max(self.limits.floor);
        self.duty = self.duty.min(before / 2.0).max(self.limits.floor);
        if self.mode != Mode::Emergency {
            self.mode = Mode::Throttle;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn seen(at_s: i64, busy: f64) -> Observed {
        Observed {
            at_ns: at_s * SECOND_NS,
            busy_percent: Some(busy),
            ..Observed::default()
        }
    }

    #[test]
    fn duty_stays_on_an_idle_disk_and_drops_fast_on_a_full_one() {
        let mut c = Controller::new(Limits::DEFAULT).unwrap();
        for t in 0..10 {
            assert_eq!(
                c.decide(&seen(t, 10.0)),
                Duty {
                    share: 1.0,
                    mode: Mode::Off
                }
            );
        }
        let mut n = 0;
        while c.decide(&seen(10 + n, 100.0)).share > Limits::DEFAULT.floor {
            n += 1;
        }
        assert!(n <= 6, "{n} decisions to the floor");
        assert_eq!(c.duty().mode, Mode::Emergency);
    }

    #[test]
    fn the_first_mode_is_what_the_load_says() {
        for (busy, mode) in [
            (10.0, Mode::Hold),
            (30.0, Mode::Hold),
            (76.0, Mode::Throttle),
            (97.0, Mode::Emergency),
        ] {
            let c = Controller::new(Limits::GENTLE).unwrap();
            assert_eq!(c.starting_at(0.1).decide(&seen(0, busy)).mode, mode);
        }
    }

    #[test]
    fn sixty_seconds_of_idling_leave_no_trace() {
        let mut fresh = Controller::new(Limits::DEFAULT).unwrap();
        let mut idled = Controller::new(Limits::DEFAULT).unwrap();
        (0..60).for_each(|t| assert_eq!(idled.decide(&seen(t, 0.0)).share, 1.0));
        for t in 60..80 {
            assert_eq!(fresh.decide(&seen(t, 90.0)), idled.decide(&seen(t, 90.0)));
        }
    }

    #[test]
    fn a_silent_sensor_holds_for_three_seconds_and_then_throttles() {
        let mut c = Controller::new(Limits::DEFAULT).unwrap();
        c.decide(&seen(0, 10.0));
        let silent = |t: f64| Observed {
            at_ns: (t * 1e9) as i64,
            ..Observed::default()
        };
        assert_eq!(c.decide(&silent(1.0)).share, 1.0);
        assert_eq!(c.decide(&silent(2.9)).share, 1.0);
        assert_eq!(
            c.decide(&silent(3.0)),
            Duty {
                share: Limits::DEFAULT.floor,
                mode: Mode::Blind
            }
        );
        assert_eq!(
            c.decide(&Observed {
                busy_percent: Some(f64::NAN),
                ..silent(4.0)
            })
            .mode,
            Mode::Blind
        );
        assert!(
            c.decide(&seen(5, 10.0)).share > Limits::DEFAULT.floor,
            "it recovers"
        );
    }

    #[test]
    fn a_controller_without_any_sample_throttles() {
        let mut c = Controller::new(Limits::DEFAULT).unwrap();
        c.decide(&Observed::default());
        assert_eq!(
            c.decide(&Observed {
                at_ns: 4 * SECOND_NS,
                ..Observed::default()
            })
            .mode,
            Mode::Blind
        );
    }

    #[test]
    fn without_other_load_the_command_runs_freely() {
        let mut c = Controller::new(Limits::DEFAULT).unwrap();
        for t in 0..20 {
            c.decide(&Observed {
                foreground_percent: Some(0.0),
                ..seen(t, 93.0)
            });
        }
        assert_eq!(c.duty().share, 1.0);
    }

    #[test]
    fn without_other_load_the_duty_recovers_from_the_floor() {
        let limits = Limits {
            latency_slo_ns: Some(1_000_000),
            ..Limits::DEFAULT
        };
        let mut c = Controller::new(limits).unwrap();
        for t in 0..20 {
            let slow = Some((9_000_000, 500));
            c.decide(&Observed {
                foreground_percent: Some(60.0),
                foreground_p99_ns: slow,
                ..seen(t, 100.0)
            });
        }
        assert_eq!(c.duty().share, limits.floor);
        // What it has written is still on its way to the disk, which is therefore full.
        (20..40).for_each(|t| {
            assert!(
                c.decide(&Observed {
                    foreground_percent: Some(0.0),
                    ..seen(t, 100.0)
                })
                .share
                    > 0.0
            )
        });
        assert_eq!(
            c.duty(),
            Duty {
                share: 1.0,
                mode: Mode::Off
            }
        );
    }

    #[test]
    fn marks_out_of_order_are_refused() {
        let with = |l, h, m| {
            Limits {
                low_percent: l,
                high_percent: h,
                max_percent: m,
                ..Limits::DEFAULT
            }
            .check()
        };
        assert!(with(60.0, 80.0, 95.0).is_ok() && with(20.0, 80.0, 95.0).is_ok());
        for (l, h, m) in [
            (80.0, 60.0, 95.0),
            (60.0, 80.0, 80.0),
            (60.0, 80.0, 101.0),
            (-1.0, 80.0, 95.0),
            (f64::NAN, 80.0, 95.0),
            (75.0, 80.0, 95.0),
        ] {
            assert!(with(l, h, m).is_err(), "{l} {h} {m}");
        }
        assert!(
            Limits {
                floor: 0.0,
                ..Limits::DEFAULT
            }
            .check()
            .is_err()
        );
        assert!(Limits::AISTORE.check().is_ok() && Limits::GENTLE.check().is_ok());
    }

    #[test]
    fn a_slow_foreground_halves_the_background_and_is_remembered() {
        let mut c = Controller::new(Limits {
            latency_slo_ns: Some(1_000_000),
            ..Limits::DEFAULT
        })
        .unwrap();
        let slow = |t, n| Observed {
            foreground_p99_ns: Some((2_000_000, n)),
            ..seen(t, 50.0)
        };
        assert_eq!(c.decide(&slow(0, 5)).share, 1.0, "too few to judge");
        assert_eq!(
            c.decide(&slow(1, 100)),
            Duty {
                share: 0.5,
                mode: Mode::Throttle
            }
        );
        assert_eq!(c.decide(&slow(2, 100)).share, 0.25);
        let close = |t| Observed {
            foreground_p99_ns: Some((700_000, 100)),
            ..seen(t, 50.0)
        };
        for t in 3..20 {
            assert!(
                c.decide(&close(t)).share <= 0.5,
                "what was too much is not tried again so soon"
            );
        }
        assert!(c.duty().share > 0.4, "{:?}", c.duty());
        let relaxed = |t| Observed {
            foreground_p99_ns: Some((100_000, 100)),
            ..seen(t, 50.0)
        };
        let shares: Vec<f64> = (20..60).map(|t| c.decide(&relaxed(t)).share).collect();
        assert!(shares.is_sorted(), "{shares:?}");
        assert_eq!(c.duty().share, 1.0, "a fast foreground gives it back");
    }

    proptest! {
        #[test]
        fn the_duty_stays_between_floor_and_one_whatever_is_seen(
            readings in prop::collection::vec((prop::option::of(-50.0f64..250.0), prop::option::of(0.0f64..100.0), 0i64..5_000_000, 0u64..100), 0..60),
            floor in 0.001f64..1.0,
        ) {
            let mut c = Controller::new(Limits { floor, latency_slo_ns: Some(1_000_000), ..Limits::DEFAULT }).unwrap();
            for (i, (busy, fg, p99, n)) in readings.into_iter().enumerate() {
                let d = c.decide(&Observed {
                    at_ns: i as i64 * SECOND_NS, busy_percent: busy, foreground_percent: fg, foreground_p99_ns: Some((p99, n)),
                });
                prop_assert!(d.share >= floor && d.share <= 1.0, "{d:?}");
            }
        }
    }
}
