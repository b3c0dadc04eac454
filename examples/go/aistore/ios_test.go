// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package aistore

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"iolens.example/iolens"
)

// load reads a file past the page cache, in blocks, and sleeps in between, until it is stopped.
type load struct {
	bytes atomic.Int64
	stop  chan struct{}
	done  sync.WaitGroup
}

const (
	blockBytes = 64 << 10
	fileBytes  = 16 << 20
)

// onADisk is a directory that is on a disk, or skips the test.
func onADisk(t *testing.T) string {
	for _, dir := range []string{t.TempDir(), "."} {
		set := iolens.NewSet(iolens.Options{})
		err := set.AddPath(dir)
		set.Close()
		if err == nil {
			return dir
		}
	}
	t.Skip("SKIP: neither the temporary nor this directory is on a disk")
	return ""
}

func start(t *testing.T, dir string) *load {
	path := filepath.Join(dir, ".iolens-load")
	t.Cleanup(func() { os.Remove(path) })
	if err := os.WriteFile(path, make([]byte, fileBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		t.Skipf("SKIP: no direct I/O here: %v", err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	l := &load{stop: make(chan struct{})}
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		defer file.Close()
		// Direct I/O needs aligned memory.
		memory := make([]byte, 2*blockBytes)
		skip := blockBytes - int(uintptr(unsafe.Pointer(&memory[0]))%blockBytes)
		block := memory[skip : skip+blockBytes]
		for at := int64(0); ; at = (at + blockBytes) % fileBytes {
			select {
			case <-l.stop:
				return
			default:
			}
			n, err := file.ReadAt(block, at)
			if err != nil {
				return
			}
			l.bytes.Add(int64(n))
			time.Sleep(2 * time.Millisecond)
		}
	}()
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.done.Wait()
}

// refreshAfter is how long AIStore waits until it reads the counters again, with its defaults: 2 s at a utilisation of up
// to 20 %, 100 ms from 80 % on, in steps of a tenth in between.
func refreshAfter(utilPercent int) time.Duration {
	const low, high = 20, 80
	const short, long = 100 * time.Millisecond, 2 * time.Second
	ratio := min(max((utilPercent-low)*100/(high-low), 0), 100)
	ratio = (ratio + 5) / 10 * 10
	return short + (long-short)*time.Duration(100-ratio)/100
}

// byWholeSeconds divides by the elapsed time rounded to seconds; within half a second the rate stays as it was.
func byWholeSeconds(bytes int64, elapsed time.Duration, before int64) int64 {
	seconds := int64((elapsed + time.Second/2) / time.Second)
	if seconds == 0 {
		return before
	}
	return (bytes + seconds/2) / seconds
}

func TestDividingByWholeSecondsIsWrongOnARealLoad(t *testing.T) {
	dir := onADisk(t)
	set := iolens.NewSet(iolens.Options{})
	defer set.Close()
	if err := set.AddPath(dir); err != nil {
		t.Fatal(err)
	}
	view := set.Now()
	group, _ := view.Group(dir)
	name := group.Disks[0]
	view.Release()
	disk, err := iolens.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	load := start(t, dir)

	for _, c := range []struct {
		utilPercent  int
		errorPercent float64 // of the divided rate; NaN: it is never updated
	}{{40, 43}, {60, -33}, {65, math.NaN()}, {80, math.NaN()}} {
		asked := refreshAfter(c.utilPercent)
		// A busy machine may wake this test so late that the interval rounds to other seconds: then it is taken again.
		var a, b iolens.Sample
		var own, elapsed int64
		for try := 0; ; try++ {
			before := load.bytes.Load()
			if err := disk.Read(&a); err != nil {
				t.Fatal(err)
			}
			time.Sleep(asked)
			if err := disk.Read(&b); err != nil {
				t.Fatal(err)
			}
			own, elapsed = load.bytes.Load()-before, b.At-a.At
			if rounds(elapsed) == rounds(int64(asked)) {
				break
			}
			if try == 20 {
				t.Skipf("SKIP: this machine cannot wait for %v", asked)
			}
		}
		rate := iolens.Between(&a, &b)
		moved := int64(b.Read.Sectors-a.Read.Sectors) * 512
		const old = 123
		divided := byWholeSeconds(moved, time.Duration(elapsed), old)
		wrong := 100 * (float64(divided)/rate.Read.BytesPerS - 1)
		t.Logf("utilisation %d %%: refreshed after %.3f s: true %.2f MB/s, by whole seconds %.2f MB/s (%+.0f %%)", c.utilPercent,
			float64(elapsed)/1e9, rate.Read.BytesPerS/1e6, float64(divided)/1e6, wrong)

		// The true rate is what the load itself counts, which has at most one block begun and not counted, and others' I/O.
		trueBytes := rate.Read.BytesPerS * float64(elapsed) / 1e9
		if math.Abs(trueBytes-float64(moved)) > 1 || moved < own-2*blockBytes || own < blockBytes {
			t.Errorf("the load read %d bytes, the true rate says %.0f", own, trueBytes)
		}
		if math.IsNaN(c.errorPercent) {
			if divided != old {
				t.Errorf("at %d %% the divided rate should stay at its old value, it is %d", c.utilPercent, divided)
			}
			continue
		}
		// The sleep is a little longer than asked, never shorter.
		if exact := 100 * (float64(elapsed)/1e9/float64(rounds(elapsed)) - 1); math.Abs(wrong-exact) > 0.1 || exact < c.errorPercent-0.5 {
			t.Errorf("the divided rate is wrong by %.1f %%, by arithmetic %.1f %%, at least %.0f %%", wrong, exact, c.errorPercent)
		}
	}
}

// rounds is nanoseconds in whole seconds, rounded.
func rounds(ns int64) int64 { return (ns + 500_000_000) / 1_000_000_000 }

func TestTheAdapterShowsTheLoad(t *testing.T) {
	dir := onADisk(t)
	ios := New[string, any, any](iolens.Options{Idle: 50 * time.Millisecond, Busy: 50 * time.Millisecond})
	defer ios.Close()
	disks, err := ios.AddMpath(dir, "/dev/any", "", nil, nil)
	if err != nil || len(disks) == 0 {
		t.Fatal(disks, err)
	}
	if _, err := ios.AddMpath(dir, "/dev/any", "", nil, nil); err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Fatal(err)
	}
	load := start(t, dir)
	stats := AllDiskStats{}
	deadline := time.Now().Add(time.Minute)
	seen := false
	for !seen {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes were read, and no disk shows it: %+v", load.bytes.Load(), stats)
		}
		time.Sleep(10 * time.Millisecond)
		ios.DiskStats(stats)
		for name := range disks {
			s := stats[name]
			seen = seen || s.RBps > 0 && s.Ravg > 0 && s.Util >= 0 && s.Util <= 100
		}
	}
	if u := ios.GetMpathUtil(dir); u < 0 || u > 100 {
		t.Fatal(u)
	}
	if u := ios.GetAllMpathUtils().Get(dir); u < 0 || u > 100 {
		t.Fatal(u)
	}
	if r := ios.RescanDisks(dir, "/dev/any", append(disks.names(), "sdzz")); r.Fatal != nil || len(r.Lost) != 1 || len(r.Attached) != 0 || len(r.FsDisks) != len(disks) {
		t.Fatalf("%+v", r)
	}
	ios.RemoveMpath(dir, false)
	if u := ios.GetMpathUtil(dir); u != Worst {
		t.Fatal(u)
	}
	if u := ios.GetAllMpathUtils().Get(dir); u != Worst {
		t.Fatal(u)
	}
}

// tree is a machine of one disk under /mpath.
func tree(t *testing.T) string {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(path, text string) {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/1/mountinfo", "20 1 8:0 / / rw - ext4 /dev/sda rw\n")
	put("sys/devices/sda/dev", "8:0\n")
	put("sys/devices/sda/stat", "1 0 8 1 0 0 0 0 0 1 1\n")
	put("mpath/file", "")
	for _, link := range []string{"sys/block/sda", "sys/class/block/sda", "sys/dev/block/8:0"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(root, "sys/devices/sda"), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestALostDiskIsTheWorstCopyAndNotTheBest(t *testing.T) {
	root := tree(t)
	ios := New[string, any, any](iolens.Options{Root: root, Idle: time.Millisecond, Busy: time.Millisecond})
	defer ios.Close()
	if _, err := ios.AddMpath("/mpath", "/dev/sda", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for ios.GetMpathUtil("/mpath") != 0 {
		if time.Now().After(deadline) {
			t.Fatal("an idle disk is not idle")
		}
		time.Sleep(10 * time.Millisecond)
	}
	os.RemoveAll(filepath.Join(root, "sys/devices/sda"))
	for ios.GetMpathUtil("/mpath") != Worst {
		if time.Now().After(deadline) {
			t.Fatal("the lost disk looks idle")
		}
		time.Sleep(10 * time.Millisecond)
	}
	stats := AllDiskStats{"sda": {}}
	ios.DiskStats(stats)
	if len(stats) != 0 {
		t.Fatal(fmt.Sprint("a lost disk has no figures: ", stats))
	}
}
