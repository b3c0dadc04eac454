// SPDX-License-Identifier: MIT OR Apache-2.0

// The figures between two samples: IOPS, bytes per second, await, in flight, busy time; NaN where not known.

package iolens

import (
	"math"
	"time"
)

// NaN is the value of every unknown figure.
var NaN = math.NaN()

// ClassRate is the reads, writes, discards or flushes over an interval. NaN: unknown, or a mean over no I/O.
type ClassRate struct {
	IOs           float64 // completed in the interval
	PerSecond     float64 // IOPS
	BytesPerS     float64
	MergesPerS    float64
	MergedPercent float64
	AwaitMs       float64 // mean from start to completion
	RequestBytes  float64 // mean size
}

// Method is how busy time was calculated.
type Method string

// The methods; docs/util.md describes them.
const (
	MethodEvents    Method = "events"             // the union of all I/Os, exact
	MethodTicks     Method = "io-ticks"           // the kernel's io_ticks, right on average on this kernel
	MethodCorrected Method = "io-ticks-corrected" // the same less what short I/Os add to it on this kernel
	MethodRaised    Method = "io-ticks-raised"    // this kernel misses long I/Os: at least what the time in flight implies
	MethodBiased    Method = "io-ticks-biased"    // the kernel's bias is unknown or cannot be corrected
)

// Busy is the share of time with at least one I/O in flight.
type Busy struct {
	Percent      float64       // best estimate, 0 to 100; NaN: not known, for instance in less than a jiffy
	TicksPercent float64       // from the kernel's counter; may exceed 100
	SigmaPercent float64       // one standard deviation of sampling, in percentage points, if it is known
	Method       Method        // where Percent comes from
	Span         time.Duration // the time that it covers
}

// Rate is the activity of a disk between two samples.
type Rate struct {
	// Span is the true length of the interval.
	Span time.Duration
	// Reset: the disk was removed and came back in between. All values of the interval are unknown.
	Reset bool
	// NotAccounted: the kernel does not count the disk's I/O. Its values are unknown; it is not idle.
	NotAccounted bool
	// Lossy: events were lost in the interval, so values are lower bounds. Only set if values come from events.
	Lossy bool

	Read, Write, Discard, Flush ClassRate

	AwaitMs      float64 // reads, writes and discards together
	RequestBytes float64 // the same
	InFlightMean float64 // mean number in flight (aqu-sz)
	InFlight     uint64  // in flight at the end
	Busy         Busy
}

// Known reports whether the interval has any known value.
func (r *Rate) Known() bool { return !r.Reset && !r.NotAccounted && r.Span > 0 }

// Between is the rate between two samples of one disk, with busy time as this machine's kernel counts it.
func Between(a, b *Sample) Rate { return hostEstimator().Between(a, b) }

// count is a difference of counters that may be unknown.
type count struct {
	v  uint64
	ok bool
}

func known(v uint64) count { return count{v, true} }

// grown is the difference of a counter that only increases.
func grown(before, after uint64) count {
	return count{after - before, after >= before}
}

// backwardMs: a step back of a millisecond counter by less than this (17 minutes) is a race in the kernel, not a wrap.
const backwardMs = 1 << 20

// grownMs is the difference of two millisecond counters, which the kernel prints modulo 2^32.
func grownMs(before, after uint64) count {
	if before > math.MaxUint32 || after > math.MaxUint32 {
		return grown(before, after)
	}
	d := uint64(uint32(after) - uint32(before))
	return count{d, d <= math.MaxUint32-backwardMs}
}

// plus adds two counts; the sum is unknown if one of them is.
func (c count) plus(o count) count {
	if !c.ok || !o.ok {
		return count{}
	}
	sum := c.v + o.v
	if sum < c.v {
		sum = math.MaxUint64
	}
	return known(sum)
}

func (c count) float() float64 {
	if !c.ok {
		return NaN
	}
	return float64(c.v)
}

// mean divides a total by a number of I/Os; NaN over none.
func mean(total, n count) float64 {
	if !total.ok || !n.ok || n.v == 0 {
		return NaN
	}
	return float64(total.v) / float64(n.v)
}

type classDelta struct{ ios, merges, sectors, ticksMs count }

func (b *ClassCounters) to(a *ClassCounters) classDelta {
	return classDelta{
		ios:     grown(b.IOs, a.IOs),
		merges:  grown(b.Merges, a.Merges),
		sectors: grown(b.Sectors, a.Sectors),
		ticksMs: grownMs(b.TicksMs, a.TicksMs),
	}
}

// perSecond divides by the length of an interval; NaN if it is zero.
func perSecond(c count, span time.Duration) float64 {
	if !c.ok || span <= 0 {
		return NaN
	}
	return float64(c.v) / (float64(span) / 1e9)
}

func (d *classDelta) rate(span time.Duration) ClassRate {
	return ClassRate{
		IOs:           d.ios.float(),
		PerSecond:     perSecond(d.ios, span),
		BytesPerS:     perSecond(d.sectors, span) * 512,
		MergesPerS:    perSecond(d.merges, span),
		MergedPercent: mean(d.merges, d.merges.plus(d.ios)) * 100,
		AwaitMs:       mean(d.ticksMs, d.ios),
		RequestBytes:  mean(d.sectors, d.ios) * 512,
	}
}

var unknownClass = ClassRate{NaN, NaN, NaN, NaN, NaN, NaN, NaN}

// unknownRate is an interval of which only the length is known.
func unknownRate(span time.Duration) Rate {
	return Rate{
		Span: span,
		Read: unknownClass, Write: unknownClass, Discard: unknownClass, Flush: unknownClass,
		AwaitMs: NaN, RequestBytes: NaN, InFlightMean: NaN,
		Busy: Busy{Percent: NaN, TicksPercent: NaN, SigmaPercent: NaN, Method: MethodTicks, Span: span},
	}
}

// restarted reports whether the disk was removed and came back: fewer I/Os than before, and fewer sectors in each class
// that had any.
func restarted(b, a *Sample) bool {
	fell := func(b, a *ClassCounters) bool { return b.Sectors == 0 || a.Sectors < b.Sectors }
	return a.operations() < b.operations() &&
		fell(&b.Read, &a.Read) && fell(&b.Write, &a.Write) && fell(&b.Discard, &a.Discard)
}

// Between is the rate between two samples of one disk, with the busy time of the estimator's kernel.
func (e *Estimator) Between(a, b *Sample) Rate {
	span := time.Duration(b.At - a.At)
	out := unknownRate(span)
	out.InFlight = b.InFlight
	switch {
	case a.NotAccounted || b.NotAccounted:
		out.NotAccounted = true
		return out
	case a.generation != b.generation || restarted(a, b):
		out.Reset = true
		return out
	}
	read, write := a.Read.to(&b.Read), a.Write.to(&b.Write)
	out.Read, out.Write = read.rate(span), write.rate(span)
	ios, sectors, ticksMs := read.ios.plus(write.ios), read.sectors.plus(write.sectors), read.ticksMs.plus(write.ticksMs)
	// An old kernel without discards did none; the estimator counts the known classes.
	completed := allKnown(read.ios, write.ios)
	if a.hasDiscard() && b.hasDiscard() {
		discard := a.Discard.to(&b.Discard)
		out.Discard = discard.rate(span)
		completed = allKnown(completed, discard.ios)
		if discard != (classDelta{}) {
			ios, sectors, ticksMs = ios.plus(discard.ios), sectors.plus(discard.sectors), ticksMs.plus(discard.ticksMs)
		}
	}
	if a.hasFlush() && b.hasFlush() {
		flush := classDelta{ios: grown(a.Flush.IOs, b.Flush.IOs), ticksMs: grownMs(a.Flush.TicksMs, b.Flush.TicksMs)}
		out.Flush = flush.rate(span)
	}
	inQueueMs := grownMs(a.TimeInQueueMs, b.TimeInQueueMs)
	out.AwaitMs, out.RequestBytes = mean(ticksMs, ios), mean(sectors, ios)*512
	out.InFlightMean = perSecond(inQueueMs, span) / 1000
	out.Busy = e.busy(span, grownMs(a.IOTicksMs, b.IOTicksMs), inQueueMs, completed)
	return out
}

// allKnown adds the known counts.
func allKnown(a, b count) count {
	switch {
	case !a.ok:
		return b
	case !b.ok:
		return a
	}
	return a.plus(b)
}
