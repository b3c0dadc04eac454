// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package iolens

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// benchDisks are ten disks of this machine, those with most I/O first; a machine with fewer names some again.
func benchDisks(b *testing.B) []string {
	all := names("/sys/block")
	var out []string
	for _, name := range all {
		if isFile("/sys/block/" + name + "/stat") {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		b.Skip("SKIP: no disk in /sys/block")
	}
	for i := 0; len(out) < 10; i++ {
		out = append(out, out[i])
	}
	return out[:10]
}

// rounds is how many runs are timed together, so that reading the clock does not count.
const rounds = 20

// timed runs f b.N times and reports the best and the median run: on a machine that does other work, the mean (ns/op) is
// mostly that work.
func timed(b *testing.B, f func()) {
	b.ReportAllocs()
	ns := make([]float64, 0, b.N/rounds+1)
	b.ResetTimer()
	for done := 0; done < b.N; done += rounds {
		start := time.Now()
		for range rounds {
			f()
		}
		ns = append(ns, float64(time.Since(start))/rounds)
	}
	b.StopTimer()
	slices.Sort(ns)
	b.ReportMetric(ns[0], "best-ns")
	b.ReportMetric(ns[len(ns)/2], "median-ns")
}

// BenchmarkRefresh10Disks reads ten disks and makes all rates of each.
func BenchmarkRefresh10Disks(b *testing.B) {
	disks := make([]*Disk, 10)
	samples := make([][2]Sample, 10)
	for i, name := range benchDisks(b) {
		d, err := Open(name)
		must(b, err)
		defer d.Close()
		must(b, d.Read(&samples[i][0]))
		disks[i] = d
	}
	var r Rate
	n := 0
	timed(b, func() {
		for i, d := range disks {
			now := &samples[i][(n+1)%2]
			if d.Read(now) != nil {
				b.Fatal("lost")
			}
			r = Between(&samples[i][n%2], now)
		}
		n++
	})
	_ = r
}

// BenchmarkSetRefresh is a whole refresh of a set of all of the machine's disks (at most ten), with the view.
func BenchmarkSetRefresh(b *testing.B) {
	s := NewSet(Options{})
	defer s.Close()
	for _, name := range benchDisks(b) {
		must(b, s.Add(name))
	}
	s.Refresh().Release()
	s.Refresh().Release()
	timed(b, func() { s.Refresh().Release() })
	v := s.Now()
	b.ReportMetric(float64(len(v.Disks())), "disks")
	v.Release()
}

// BenchmarkPercent is what a worker pays before each piece of work.
func BenchmarkPercent(b *testing.B) {
	s := NewSet(Options{})
	defer s.Close()
	if err := s.AddPath("."); err != nil {
		b.Skip("SKIP: ", err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		_, _ = s.Percent(".")
	}
}

// BenchmarkNow is a view that is fresh.
func BenchmarkNow(b *testing.B) {
	s := NewSet(Options{})
	defer s.Close()
	must(b, s.Add(benchDisks(b)[0]))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s.Now().Release()
	}
}

// BenchmarkOpenScanAndParse10Disks reads ten disks the way object stores such as AIStore do: each file is opened, scanned
// and split, numbers go into maps by name, and rates are whole numbers.
func BenchmarkOpenScanAndParse10Disks(b *testing.B) {
	files := map[string]string{}
	for i, name := range benchDisks(b) {
		files[name+"-"+strconv.Itoa(i)] = filepath.Join("/sys/class/block", name, "stat")
	}
	var before tables
	timed(b, func() { before = openScanAndParse(files, before) })
}

// tables are counters and rates by the name of the disk.
type tables struct{ busyMs, readBytes, writeBytes, reads, writes, util, readRate, writeRate, readSize, writeSize map[string]int64 }

func newTables() tables {
	m := func() map[string]int64 { return map[string]int64{} }
	return tables{m(), m(), m(), m(), m(), m(), m(), m(), m(), m()}
}

func openScanAndParse(files map[string]string, before tables) tables {
	now := newTables()
	for disk, path := range files {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		scanner := bufio.NewScanner(file)
		scanner.Scan()
		fields := strings.Fields(scanner.Text())
		file.Close()
		if len(fields) < 11 {
			continue
		}
		var v [11]int64
		for i := range v {
			v[i], _ = strconv.ParseInt(fields[i], 10, 64)
		}
		now.reads[disk], now.readBytes[disk] = v[0], v[2]*512
		now.writes[disk], now.writeBytes[disk] = v[4], v[6]*512
		now.busyMs[disk] = v[9]
		now.util[disk] = (now.busyMs[disk] - before.busyMs[disk]) / 10
		now.readRate[disk] = now.readBytes[disk] - before.readBytes[disk]
		now.writeRate[disk] = now.writeBytes[disk] - before.writeBytes[disk]
		now.readSize[disk] = now.readRate[disk] / max(now.reads[disk]-before.reads[disk], 1)
		now.writeSize[disk] = now.writeRate[disk] / max(now.writes[disk]-before.writes[disk], 1)
	}
	return now
}
