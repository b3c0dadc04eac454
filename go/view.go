// SPDX-License-Identifier: MIT OR Apache-2.0

// The values of one refresh: the reading of each disk, and the busiest disk, mean and sums of each path.

package iolens

import (
	"sync/atomic"
	"time"
)

// GroupBy selects how the disks of a path are combined into one value.
type GroupBy int

const (
	// Max is the busiest disk: a RAID is as fast as its slowest leg.
	Max GroupBy = iota
	// Mean is the mean over the disks, which can hide one busy disk.
	Mean
)

func (g GroupBy) String() string {
	if g == Mean {
		return "mean"
	}
	return "max"
}

// Source is the origin of a reading.
type Source string

// The sources.
const (
	FromCounters Source = "counters" // the kernel's counters
	FromEvents   Source = "events"   // every I/O, from a running `iolens serve`: exact, about a second late
)

// Reading is one disk over one interval. It is valid as long as its view.
type Reading struct {
	Info   *Info
	Rate   Rate
	Source Source
	Own    Own // with Options.Own
	// Err: the values are unknown, and all of them are NaN.
	Err error
	// endNs is the end of the interval on the monotonic clock.
	endNs int64
}

// Group is the disks under one path over one interval.
type Group struct {
	Path string
	// Percent is the busy time selected by Options.Group; By is that selection.
	Percent float64
	By      GroupBy

	MaxPercent  float64 // the busiest disk
	MeanPercent float64 // mean over the disks
	AnyPercent  float64 // share of time with an I/O on any of them, if the disks are independent

	// Read and Write are sums over the disks, their means weighted by I/Os.
	Read, Write ClassRate
	InFlight    uint64
	// Disks are the names. Do not change them.
	Disks []string
	// Err: a disk is unknown, or the path has none; then Percent and sums are NaN.
	Err error
}

// View is all readings of one refresh. It does not change until [View.Release].
type View struct {
	refs   atomic.Int32
	lay    *layout
	at     int64
	disks  []Reading
	groups []Group
	errors []error
	busy   []float64
}

// writing marks a view that a refresh is filling.
const writing = -1

// pin prevents the view from being overwritten; false if it is being written.
func (v *View) pin() bool {
	for {
		n := v.refs.Load()
		if n == writing {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release returns the view, so that a later refresh can reuse its memory. It is optional: without it the view stays
// as it is, and a refresh allocates another one. Do not use the view, its readings or groups afterwards.
func (v *View) Release() {
	for {
		n := v.refs.Load()
		if n <= 0 {
			panic("iolens: a view was released twice")
		}
		if v.refs.CompareAndSwap(n, n-1) {
			return
		}
	}
}

// Age is the time since the refresh. Readings from events end about a second earlier: [Reading.Age].
func (v *View) Age() time.Duration { return time.Duration(monotonicNs() - v.at) }

// Age is the time since the end of the interval.
func (r *Reading) Age() time.Duration { return time.Duration(monotonicNs() - r.endNs) }

// Disks returns all disks, by name.
func (v *View) Disks() []Reading { return v.disks }

// Groups returns all paths, in the order in which they were added.
func (v *View) Groups() []Group { return v.groups }

// Errors returns all errors: disks that are lost or unknown, paths without a disk, a service that does not answer.
func (v *View) Errors() []error { return v.errors }

// Disk returns the reading of a disk, with its error.
func (v *View) Disk(name string) (*Reading, error) {
	i, ok := v.lay.diskIndex[name]
	if !ok || i >= len(v.disks) {
		return nil, &DiskError{name, ErrUnknown}
	}
	return &v.disks[i], v.disks[i].Err
}

// Group returns a path's disks together, with the error of one that is unknown.
func (v *View) Group(path string) (*Group, error) {
	i, ok := v.lay.groupIndex[path]
	if !ok || i >= len(v.groups) {
		return nil, &DiskError{path, ErrUnknown}
	}
	return &v.groups[i], v.groups[i].Err
}

// fillGroups calculates the groups from the readings.
func (v *View) fillGroups(by GroupBy) {
	for i, def := range v.lay.groups {
		g := &v.groups[i]
		*g = Group{Path: def.path, By: by, Disks: def.names, Err: def.err}
		v.busy = v.busy[:0]
		for _, at := range def.members {
			r := &v.disks[at]
			if r.Err != nil && g.Err == nil {
				g.Err = r.Err
			}
			v.busy = append(v.busy, r.Rate.Busy.Percent)
			g.InFlight += r.Rate.InFlight
		}
		if g.Err != nil {
			g.Percent, g.MaxPercent, g.MeanPercent, g.AnyPercent = NaN, NaN, NaN, NaN
			g.Read, g.Write, g.InFlight = unknownClass, unknownClass, 0
		} else {
			c := combine(v.busy)
			g.MaxPercent, g.MeanPercent, g.AnyPercent = c.max, c.mean, c.any
			g.Percent = c.max
			if by == Mean {
				g.Percent = c.mean
			}
			g.Read = v.sum(def.members, func(r *Rate) *ClassRate { return &r.Read })
			g.Write = v.sum(def.members, func(r *Rate) *ClassRate { return &r.Write })
		}
	}
}

// sum adds a class over disks; means are weighted by I/Os.
func (v *View) sum(members []int, class func(*Rate) *ClassRate) ClassRate {
	var out ClassRate
	bytes, ms := 0.0, 0.0
	merged, isMerged := 0.0, false
	for _, at := range members {
		c := class(&v.disks[at].Rate)
		out.IOs += c.IOs
		out.PerSecond += c.PerSecond
		out.BytesPerS += c.BytesPerS
		out.MergesPerS += c.MergesPerS
		if c.IOs > 0 {
			bytes += c.RequestBytes * c.IOs
			ms += c.AwaitMs * c.IOs
		}
		if c.MergesPerS > 0 || c.PerSecond > 0 {
			merged, isMerged = merged+c.MergesPerS, true
		}
	}
	out.AwaitMs, out.RequestBytes, out.MergedPercent = NaN, NaN, NaN
	if out.IOs > 0 {
		out.AwaitMs, out.RequestBytes = ms/out.IOs, bytes/out.IOs
	}
	if isMerged {
		out.MergedPercent = 100 * merged / (merged + out.PerSecond)
	}
	return out
}
