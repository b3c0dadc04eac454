// SPDX-License-Identifier: MIT OR Apache-2.0

// Busy time (%util) from the kernel's io_ticks: how each kernel version counts, and how its bias is corrected.

package iolens

import (
	"math"
	"strconv"
	"sync"
	"time"
)

// regime is how a kernel counts io_ticks.
type regime int

const (
	regimeUnknown      regime = iota
	regimeRoundStats          // up to 4.16: at each start and end, if anything was in flight
	regimeAllocated           // 4.17 to 4.19: allocated requests count too
	regimeTouched             // 5.0 to 5.6: each jiffy that an end touches
	regimeStartTouches        // 5.7 to 6.9: each jiffy that a start touches, and what was in flight
	regimeSampled             // from 6.10: what was in flight when a jiffy turned
)

// Estimator calculates busy time from the counters of a kernel.
type Estimator struct {
	regime regime
	hz     uint32
}

// NewEstimator returns the estimator of a kernel release (uname -r) with hz jiffies per second (CONFIG_HZ; 0:
// unknown).
func NewEstimator(release string, hz uint32) *Estimator {
	return &Estimator{regime: regimeOf(release), hz: hz}
}

func regimeOf(release string) regime {
	numbers, start := [2]int{}, 0
	for i := range numbers {
		end := start
		for end < len(release) && release[end] >= '0' && release[end] <= '9' {
			end++
		}
		n, err := strconv.ParseUint(release[start:end], 10, 32)
		if err != nil {
			return regimeUnknown
		}
		numbers[i], start = int(n), end+1
		if start > len(release) {
			start = len(release)
		}
	}
	major, minor := numbers[0], numbers[1]
	switch {
	case major <= 3 || major == 4 && minor <= 16:
		return regimeRoundStats
	case major == 4:
		return regimeAllocated
	case major == 5 && minor <= 6:
		return regimeTouched
	case major == 5 || major == 6 && minor <= 9:
		return regimeStartTouches
	}
	return regimeSampled
}

var hostEstimator = sync.OnceValue(func() *Estimator { return estimatorOf("/") })

// jiffy is the kernel's tick; 10 ms if it is unknown.
func (e *Estimator) jiffy() time.Duration {
	if e.hz == 0 {
		return 10 * time.Millisecond
	}
	return time.Second / time.Duration(e.hz)
}

// busy calculates the busy share of an interval. It is unknown for less than a jiffy.
func (e *Estimator) busy(span time.Duration, ticksMs, inQueueMs, ios count) Busy {
	unknown := Busy{Percent: NaN, TicksPercent: NaN, SigmaPercent: NaN, Method: MethodTicks, Span: span}
	hz := e.hz
	if hz == 0 {
		hz = 100
	}
	jiffyS, spanS := 1/float64(hz), float64(span)/1e9
	if !ticksMs.ok || spanS < jiffyS {
		return unknown
	}
	out := unknown
	ticks := float64(ticksMs.v) / spanS / 10
	out.TicksPercent = ticks
	load, loadKnown := loadOf(inQueueMs, ios, spanS)
	percent := ticks
	switch e.regime {
	case regimeSampled, regimeRoundStats:
	case regimeTouched, regimeStartTouches:
		if loadKnown && e.hz != 0 {
			percent, out.Method = load.correct(ticks, jiffyS)
		} else {
			out.Method = MethodBiased
		}
	default:
		out.Method = MethodBiased
	}
	if e.regime == regimeSampled && loadKnown && e.hz != 0 {
		out.SigmaPercent = sigma(ios.v, load.meanS()*1e9, jiffyS*1e9, float64(span))
	}
	out.Percent = min(max(percent, 0), 100)
	return out
}

// sigma is the standard deviation of busy time from sampling n I/Os of a mean length once per jiffy, in percentage
// points.
func sigma(n uint64, meanNs, jiffyNs, spanNs float64) float64 {
	p := min(meanNs/jiffyNs, 1)
	return 100 * jiffyNs * math.Sqrt(float64(n)*p*(1-p)) / spanNs
}

// load is calculated from the counters that are kept in nanoseconds and have no bias.
type load struct {
	perS     float64 // I/Os completed per second
	inFlight float64 // mean number in flight
}

func loadOf(inQueueMs, ios count, spanS float64) (load, bool) {
	if !inQueueMs.ok || !ios.ok {
		return load{}, false
	}
	return load{perS: float64(ios.v) / spanS, inFlight: float64(inQueueMs.v) / 1e3 / spanS}, true
}

func (l load) meanS() float64 {
	if l.perS > 0 {
		return l.inFlight / l.perS
	}
	return 0
}

// correct removes the bias of touched jiffies: it solves U' = 1-(1-U)exp(-rate J) for U, limited to what the time in
// flight allows. These kernels miss I/Os longer than a jiffy; then L/(1+L) is a better lower bound.
func (l load) correct(ticksPercent, jiffyS float64) (float64, Method) {
	least := 100 * l.inFlight / (1 + l.inFlight)
	if l.meanS() > jiffyS {
		return max(min(ticksPercent, 100), least), MethodRaised
	}
	touched := min(ticksPercent/100, 1)
	// The conversions force rounding of each product on processors that would fuse it with the difference.
	untouched := float64((1 - touched) * math.Exp(float64(l.perS*jiffyS)))
	solved := 100 * (1 - untouched)
	most := 100 * min(l.inFlight, 1)
	return min(max(solved, least), most), MethodCorrected
}

// combined is the busy time of several disks together.
type combined struct{ mean, max, any float64 }

// combine returns NaN unless all disks are known: an unknown disk may be the busiest.
func combine(busyPercent []float64) combined {
	if len(busyPercent) == 0 {
		return combined{NaN, NaN, NaN}
	}
	sum, most, idle := 0.0, 0.0, 1.0
	for _, u := range busyPercent {
		sum += u
		most = max(most, u)
		share := u / 100
		idle = float64(idle * (1 - share))
	}
	out := combined{mean: sum / float64(len(busyPercent)), max: most, any: most}
	if len(busyPercent) > 1 {
		out.any = max(100*(1-idle), most)
	}
	return out
}
