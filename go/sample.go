// SPDX-License-Identifier: MIT OR Apache-2.0

// One reading of a disk's counters, as the kernel prints them in a stat file of sysfs.

package iolens

import "time"

// ClassCounters are the counters of reads, writes or discards since the disk appeared.
type ClassCounters struct {
	IOs     uint64 // completed
	Merges  uint64 // merged into others
	Sectors uint64 // of 512 bytes
	TicksMs uint64 // milliseconds from start to completion, summed over I/Os
}

// FlushCounters are the counters of flushes.
type FlushCounters struct {
	IOs     uint64
	TicksMs uint64
}

// Sample is one reading of a disk's counters. Fields that the kernel does not print are 0.
type Sample struct {
	// At is the time of the reading in nanoseconds of the monotonic clock since the program's start.
	At int64

	Read, Write, Discard ClassCounters
	Flush                FlushCounters
	// InFlight is the number of I/Os in flight at the time of the reading.
	InFlight uint64
	// IOTicksMs is the kernel's estimate of busy milliseconds.
	IOTicksMs uint64
	// TimeInQueueMs is milliseconds in flight, summed over I/Os.
	TimeInQueueMs uint64
	// Fields is how many numbers the kernel printed: 11, 15 with discards (4.18), 17 with flushes (5.5).
	Fields int

	// NotAccounted: the kernel does not count this disk's I/O (queue/iostats is 0). It is not idle.
	NotAccounted bool
	// generation changes when the disk was opened again, which happens when it was removed and came back.
	generation uint32
}

var clockStart = time.Now()

// monotonicNs is the time since the program's start; unaffected by changes of the wall clock.
func monotonicNs() int64 { return int64(time.Since(clockStart)) }

// parse reads the text of a stat file of sysfs. A number of fields that no kernel prints yields zeros.
func (s *Sample) parse(text []byte) {
	var f [17]uint64
	n, i := 0, 0
	for n < len(f) {
		for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t') {
			i++
		}
		start, v := i, uint64(0)
		for i < len(text) && text[i]-'0' <= 9 {
			v = v*10 + uint64(text[i]-'0')
			i++
		}
		if i == start {
			break
		}
		f[n] = v
		n++
	}
	s.Read, s.Write, s.Discard, s.Flush = ClassCounters{}, ClassCounters{}, ClassCounters{}, FlushCounters{}
	s.InFlight, s.IOTicksMs, s.TimeInQueueMs = 0, 0, 0
	s.Fields = n
	switch {
	case n >= 11:
		s.Read = ClassCounters{f[0], f[1], f[2], f[3]}
		s.Write = ClassCounters{f[4], f[5], f[6], f[7]}
		s.InFlight, s.IOTicksMs, s.TimeInQueueMs = f[8], f[9], f[10]
		if n >= 15 {
			s.Discard = ClassCounters{f[11], f[12], f[13], f[14]}
		}
		if n >= 17 {
			s.Flush = FlushCounters{f[15], f[16]}
		}
	case n == 4:
		s.Read = ClassCounters{IOs: f[0], Sectors: f[1]}
		s.Write = ClassCounters{IOs: f[2], Sectors: f[3]}
	}
}

func (s *Sample) hasDiscard() bool { return s.Fields >= 15 }
func (s *Sample) hasFlush() bool   { return s.Fields >= 17 }

// add adds the counters of another path to the same disk.
func (s *Sample) add(o *Sample) {
	add := func(a, b *ClassCounters) {
		a.IOs += b.IOs
		a.Merges += b.Merges
		a.Sectors += b.Sectors
		a.TicksMs += b.TicksMs
	}
	add(&s.Read, &o.Read)
	add(&s.Write, &o.Write)
	add(&s.Discard, &o.Discard)
	s.Flush.IOs += o.Flush.IOs
	s.Flush.TicksMs += o.Flush.TicksMs
	s.InFlight += o.InFlight
	s.IOTicksMs += o.IOTicksMs
	s.TimeInQueueMs += o.TimeInQueueMs
	// A sum has all classes; those that no path counts are 0.
	s.Fields = 17
}

// operations counts reads, writes, discards and flushes since the disk appeared.
func (s *Sample) operations() uint64 {
	return s.Read.IOs + s.Write.IOs + s.Discard.IOs + s.Flush.IOs
}
