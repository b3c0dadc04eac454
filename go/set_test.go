// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package iolens

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// testMachine is a machine of two disks, sda under /data and md0 over both under /raid, whose counters a test sets.
type testMachine struct {
	t    testing.TB
	root string
}

func newMachine(t testing.TB) *testMachine {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &testMachine{t, root}
	m.put("/proc/sys/kernel/osrelease", "6.12.0\n")
	m.put("/boot/config-6.12.0", "CONFIG_HZ=250\n")
	m.put("/proc/partitions", "two disks\n")
	m.mounts("20 1 8:0 / / rw - ext4 /dev/sda rw\n21 20 8:0 / /data rw - ext4 /dev/sda rw\n22 20 9:0 / /raid rw - ext4 /dev/md0 rw\n")
	m.disk("sda", "8:0")
	m.disk("sdb", "8:16")
	m.disk("md0", "9:0")
	for _, leg := range []string{"sda", "sdb"} {
		m.link("/sys/devices/block/md0/slaves/"+leg, "/sys/devices/block/"+leg)
	}
	m.put("/data/file", "")
	m.put("/raid/file", "")
	return m
}

func (m *testMachine) put(path, text string) {
	at := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *testMachine) link(path, target string) {
	at := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(m.root, target), at); err != nil {
		m.t.Fatal(err)
	}
}

func (m *testMachine) mounts(table string) { m.put("/proc/1/mountinfo", table) }

func (m *testMachine) disk(name, dev string) {
	dir := "/sys/devices/block/" + name
	m.put(dir+"/dev", dev+"\n")
	m.put(dir+"/size", "2048\n")
	m.put(dir+"/queue/iostats", "1\n")
	m.put(dir+"/queue/rotational", "1\n")
	m.put(dir+"/queue/logical_block_size", "512\n")
	m.put(dir+"/queue/physical_block_size", "4096\n")
	m.stat(name, 10, 1000)
	for _, at := range []string{"/sys/block/" + name, "/sys/class/block/" + name, "/sys/dev/block/" + dev} {
		m.link(at, dir)
	}
}

// stat sets reads of 4 KiB and milliseconds busy.
func (m *testMachine) stat(name string, reads, busyMs int) {
	m.put("/sys/devices/block/"+name+"/stat", fmt.Sprintf("%d 0 %d %d 0 0 0 0 3 %d %d\n", reads, reads*8, reads, busyMs, reads))
}

func (m *testMachine) remove(name, dev string) {
	os.RemoveAll(filepath.Join(m.root, "/sys/devices/block/"+name))
	for _, at := range []string{"/sys/block/" + name, "/sys/class/block/" + name, "/sys/dev/block/" + dev} {
		os.Remove(filepath.Join(m.root, at))
	}
}

func (m *testMachine) set(o Options) *Set {
	o.Root = m.root
	s := NewSet(o)
	m.t.Cleanup(s.Close)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets at least so much time pass: busy time has the resolution of two jiffies.
func pass() { time.Sleep(20 * time.Millisecond) }

func TestRatesAreOverTheTimeThatReallyPassed(t *testing.T) {
	m := newMachine(t)
	d, err := OpenUnder(m.root, "/dev/sda")
	must(t, err)
	defer d.Close()
	var a, b Sample
	must(t, d.Read(&a))
	time.Sleep(3 * time.Millisecond)
	m.stat("sda", 20, 1001)
	must(t, d.Read(&b))
	r := Between(&a, &b)
	spanS := float64(b.At-a.At) / 1e9
	if r.Read.IOs != 10 || r.Read.PerSecond != 10/spanS || r.Read.BytesPerS != 80/spanS*512 || r.Read.RequestBytes != 4096 || r.Read.AwaitMs != 1 {
		t.Fatalf("%+v over %v", r.Read, r.Span)
	}
	if r.Span < 3*time.Millisecond || r.Reset || r.InFlight != 3 {
		t.Fatalf("%+v", r)
	}
	if info := d.Info(); *info.withoutPaths() != (plainInfo{"sda", "8:0", 1 << 20, true, false, 512, 4096}) {
		t.Fatalf("%+v", info)
	}
}

type plainInfo struct {
	name, dev         string
	size              uint64
	rotational, nvme  bool
	logical, physical int
}

func (i *Info) withoutPaths() *plainInfo {
	return &plainInfo{i.Name, i.Dev, i.SizeBytes, i.Rotational, i.NVMe, i.LogicalBytes, i.PhysicalBytes}
}

func TestADiskThatComesBackIsAResetAndALostOneAnError(t *testing.T) {
	m := newMachine(t)
	d, err := OpenUnder(m.root, "8:16")
	must(t, err)
	defer d.Close()
	var a, b Sample
	must(t, d.Read(&a))
	m.remove("sdb", "8:16")
	m.disk("sdb", "8:16")
	m.stat("sdb", 500, 5000)
	must(t, d.Read(&b))
	if r := Between(&a, &b); !r.Reset || !math.IsNaN(r.Read.PerSecond) || !math.IsNaN(r.Busy.Percent) {
		t.Fatalf("counters that grew are no reason to believe it is the same disk: %+v", r)
	}
	m.remove("sdb", "8:16")
	if err := d.Read(&b); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "sdb") {
		t.Fatal(err)
	}
	if _, err := OpenUnder(m.root, "sdz"); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
}

func TestAPathIsTheBusiestDiskOrTheMeanAndSaysWhich(t *testing.T) {
	m := newMachine(t)
	for _, by := range []GroupBy{Max, Mean} {
		m.stat("sda", 10, 1000)
		m.stat("sdb", 10, 1000)
		s := m.set(Options{Group: by})
		must(t, s.AddPath("/raid/file"))
		v := s.Now()
		if g, err := v.Group("/raid/file"); !errors.Is(err, ErrNoInterval) || !math.IsNaN(g.Percent) || len(v.Errors()) != 2 {
			t.Fatalf("before an interval has passed: %v, %v", g, err)
		}
		v.Release()
		pass()
		m.stat("sda", 30, 1006)
		m.stat("sdb", 40, 1002)
		v = s.Refresh()
		g, err := v.Group("/raid/file")
		must(t, err)
		a, _ := v.Disk("sda")
		b, _ := v.Disk("sdb")
		if g.MaxPercent != a.Rate.Busy.Percent || g.MeanPercent != (a.Rate.Busy.Percent+b.Rate.Busy.Percent)/2 || g.MaxPercent <= b.Rate.Busy.Percent {
			t.Fatalf("%+v", g)
		}
		want := map[GroupBy]float64{Max: g.MaxPercent, Mean: g.MeanPercent}[by]
		if g.Percent != want || g.By != by || g.By.String() != map[GroupBy]string{Max: "max", Mean: "mean"}[by] {
			t.Fatalf("%+v", g)
		}
		if g.Read.IOs != 50 || g.InFlight != 6 || g.Read.RequestBytes != 4096 || g.Read.AwaitMs != 1 {
			t.Fatalf("%+v", g.Read)
		}
		if p, err := s.Percent("/raid/file"); err != nil || p != g.Percent {
			t.Fatal(p, err)
		}
		if p, err := s.Percent("sda"); err != nil || p != a.Rate.Busy.Percent {
			t.Fatal(p, err)
		}
		if v.Age() < 0 || v.Age() > time.Hour || len(v.Errors()) != 0 {
			t.Fatal(v.Age(), v.Errors())
		}
		v.Release()
	}
}

func TestALostDiskIsAnErrorAndNeverIdle(t *testing.T) {
	m := newMachine(t)
	s := m.set(Options{})
	must(t, s.AddPath("/raid/file"))
	must(t, s.Add("sdb"))
	pass()
	v := s.Refresh()
	if _, err := v.Group("/raid/file"); err != nil {
		t.Fatal(err)
	}
	v.Release()
	m.remove("sdb", "8:16")
	v = s.Refresh()
	defer v.Release()
	r, err := v.Disk("sdb")
	if !errors.Is(err, ErrLost) || !math.IsNaN(r.Rate.Busy.Percent) || !math.IsNaN(r.Rate.Read.PerSecond) {
		t.Fatal(r, err)
	}
	g, err := v.Group("/raid/file")
	if !errors.Is(err, ErrLost) || !math.IsNaN(g.Percent) || !math.IsNaN(g.MeanPercent) {
		t.Fatal(g, err)
	}
	if p, err := s.Percent("/raid/file"); !math.IsNaN(p) || !errors.Is(err, ErrLost) {
		t.Fatal(p, err)
	}
	if len(v.Errors()) == 0 {
		t.Fatal("the view lists no error")
	}
}

// lookAgain makes the set look for changes at its next refresh, as it does by itself every second.
func lookAgain(s *Set) *View {
	s.mu.Lock()
	s.watchedNs = math.MinInt64 / 2
	s.mu.Unlock()
	return s.Refresh()
}

func TestDisksThatComeAndGoAreFollowed(t *testing.T) {
	m := newMachine(t)
	s := m.set(Options{})
	must(t, s.AddAll())
	must(t, s.AddPath("/raid/file"))
	must(t, s.AddPath("/data/file"))
	names := func(v *View) string {
		var out []string
		for _, d := range v.Disks() {
			out = append(out, d.Info.Name)
		}
		v.Release()
		return strings.Join(out, " ")
	}
	if got := names(s.Now()); got != "sda sdb" {
		t.Fatal(got)
	}
	m.disk("sdc", "8:32")
	m.put("/proc/partitions", "three disks\n")
	if got := names(lookAgain(s)); got != "sda sdb sdc" {
		t.Fatal(got)
	}
	// sdb leaves the array, and then the machine.
	os.Remove(filepath.Join(m.root, "/sys/devices/block/md0/slaves/sdb"))
	m.remove("sdb", "8:16")
	m.put("/proc/partitions", "two disks\n")
	s.Refresh().Release()
	pass()
	v := lookAgain(s)
	if g, err := v.Group("/raid/file"); err != nil || strings.Join(g.Disks, " ") != "sda" {
		t.Fatal(g, err)
	}
	if got := names(v); got != "sda sdc" {
		t.Fatal(got)
	}
	// The path moves to another disk.
	m.mounts("20 1 8:0 / / rw - ext4 /dev/sda rw\n21 20 8:32 / /data rw - ext4 /dev/sdc rw\n")
	v = lookAgain(s)
	g, err := v.Group("/data/file")
	if err != nil || strings.Join(g.Disks, " ") != "sdc" {
		t.Fatal(g, err)
	}
	v.Release()
	// Its disk is pulled while it is mounted.
	m.remove("sdc", "8:32")
	lookAgain(s).Release()
	v = lookAgain(s)
	if g, err := v.Group("/data/file"); err == nil || !math.IsNaN(g.Percent) {
		t.Fatal(g, err)
	}
	v.Release()
	if !s.Remove("/data/file") || s.Remove("/data/file") {
		t.Fatal("removed once")
	}
	if _, err := s.Now().Group("/data/file"); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
}

func TestPathsWithoutADiskAreErrorsThatSayWhy(t *testing.T) {
	m := newMachine(t)
	m.mounts("20 1 8:0 / / rw - ext4 /dev/sda rw\n21 20 0:24 / /data rw - tmpfs tmpfs rw\n")
	s := m.set(Options{})
	if err := s.AddPath("/data/file"); err == nil || !strings.Contains(err.Error(), "tmpfs has no block device") {
		t.Fatal(err)
	}
	if err := s.AddPath("/missing"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := s.Add("sdz"); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	m.put("/sys/devices/block/sda/queue/iostats", "0\n")
	must(t, s.Add("sda"))
	pass()
	v := s.Refresh()
	if r, err := v.Disk("sda"); !errors.Is(err, ErrNotAccounted) || !math.IsNaN(r.Rate.Busy.Percent) {
		t.Fatal(r, err)
	}
}

func TestAViewStaysAsItIsUntilItIsReleased(t *testing.T) {
	m := newMachine(t)
	s := m.set(Options{})
	must(t, s.Add("sda"))
	pass()
	held := s.Refresh()
	before, err := held.Disk("sda")
	must(t, err)
	copied := *before
	for i := range 3 * maxViews {
		m.stat("sda", 100+i, 2000+i)
		s.Refresh() // never released
		s.Refresh().Release()
	}
	after, _ := held.Disk("sda")
	if was, is := fmt.Sprintf("%+v", copied), fmt.Sprintf("%+v", *after); was != is {
		t.Fatalf("%s became %s", was, is)
	}
	held.Release()
	defer func() {
		if recover() == nil {
			t.Fatal("a view that is released twice is a defect of the caller, and must be seen")
		}
	}()
	held.Release()
}

func TestReadersDoNotWaitForARefreshThatHangs(t *testing.T) {
	m := newMachine(t)
	s := m.set(Options{})
	must(t, s.AddPath("/data/file"))
	pass()
	s.Refresh().Release()
	// A refresh that has begun to fill its view and gets no further.
	s.mu.Lock()
	s.dueNs.Store(0)
	unfinished := s.claim()
	got := make(chan error, 1)
	go func() {
		v := s.Now()
		_, err := v.Group("/data/file")
		v.Release()
		s.Refresh().Release()
		if _, asked := s.Percent("/data/file"); err == nil {
			err = asked
		}
		got <- err
	}()
	select {
	case err := <-got:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("a reader waits")
	}
	unfinished.refs.Store(0)
	s.mu.Unlock()
}

func TestTheTableOfAllDisksIsReadWhereItIsShorter(t *testing.T) {
	m := newMachine(t)
	m.disk("nvme0n1", "259:0")
	m.put("/sys/devices/block/nvme0n1/stat", "0 0 0 0 0 0 0 0 0 0 0\n")
	for _, path := range []string{"nvme0c0n1", "nvme0c1n1"} {
		m.stat(path, 5, 100)
		m.link("/sys/block/"+path, "/sys/devices/block/"+path)
	}
	s := m.set(Options{})
	for _, name := range []string{"sda", "sdb", "nvme0n1"} {
		must(t, s.Add(name))
	}
	lines := "   8       0 sda 50 0 400 50 0 0 0 0 9 1020 50\n   8      16 sdb 12 0 96 12 0 0 0 0 0 1000 12\n 259       0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n"
	reads := func(table string) [3]float64 {
		m.put("/proc/diskstats", table)
		pass()
		v := s.Refresh()
		defer v.Release()
		var out [3]float64
		for i, name := range []string{"sda", "sdb", "nvme0n1"} {
			r, err := v.Disk(name)
			must(t, err)
			out[i] = r.Rate.Read.IOs
		}
		return out
	}
	m.stat("nvme0c0n1", 25, 100)
	// Files said 10 and 10 when the disks were added; paths of NVMe are read in any case, and summed.
	if got := reads(lines); got != [3]float64{40, 2, 20} {
		t.Fatal(got)
	}
	// The lines of other devices, in another order.
	m.stat("nvme0c1n1", 6, 100)
	if got := reads("   8      16 sdb 15 0 120 15 0 0 0 0 0 1000 15\n 253 0 dm-0 1 2 3 4 5 6 7 8 9 10 11\n   8       0 sda 51 0 408 51 0 0 0 0 9 1020 51\n"); got != [3]float64{1, 3, 1} {
		t.Fatal(got)
	}
	// A table of many more lines than disks is not worth reading: the files say 10 again.
	m.stat("sda", 60, 1030)
	m.stat("sdb", 61, 1030)
	if got := reads(strings.Repeat(" 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n", 20) + lines); got != [3]float64{9, 46, 0} {
		t.Fatal(got)
	}
}

func TestARefreshAllocatesNothing(t *testing.T) {
	m := newMachine(t)
	s := m.set(Options{})
	must(t, s.AddPath("/raid/file"))
	must(t, s.AddPath("/data/file"))
	pass()
	s.Refresh().Release()
	s.Refresh().Release()
	if n := testing.AllocsPerRun(100, func() { s.Refresh().Release() }); n != 0 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Percent("/data/file") }); n != 0 {
		t.Fatalf("%v allocations to ask", n)
	}
}

func TestReadersAndChangesAtTheSameTime(t *testing.T) {
	m := newMachine(t)
	s := m.set(Options{Idle: time.Millisecond, Busy: time.Millisecond})
	must(t, s.AddPath("/raid/file"))
	var wrong atomic.Int64
	var readers, writer sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for range 2000 {
				v := s.Now()
				g, err := v.Group("/raid/file")
				if g == nil || err == nil && g.Percent != g.MaxPercent && !math.IsNaN(g.Percent) {
					wrong.Add(1)
				}
				// A view is of one refresh: a disk's interval ends with all others'.
				for _, d := range v.Disks() {
					if d.Err == nil && d.endNs > v.at {
						wrong.Add(1)
					}
				}
				v.Release()
				if p, err := s.Percent("/raid/file"); p == 0 && err != nil {
					wrong.Add(1)
				}
			}
		}()
	}
	writer.Add(1)
	go func() {
		defer writer.Done()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			m.stat("sda", 10+i, 1000+i)
			if s.Add("sdb") != nil || !s.Remove("sdb") {
				wrong.Add(1)
			}
		}
	}()
	readers.Wait()
	close(stop)
	writer.Wait()
	if wrong.Load() != 0 {
		t.Fatalf("%d views were wrong", wrong.Load())
	}
}

func TestNVMeMultipathIsNamedByItsHeadAndReadFromItsPaths(t *testing.T) {
	m := newMachine(t)
	m.disk("nvme0n1", "259:0")
	m.put("/sys/devices/block/nvme0n1/stat", "0 0 0 0 0 0 0 0 0 0 0\n")
	for _, path := range []string{"nvme0c0n1", "nvme0c1n1"} {
		m.stat(path, 5, 100)
		m.link("/sys/block/"+path, "/sys/devices/block/"+path)
	}
	d, err := OpenUnder(m.root, "nvme0n1")
	must(t, err)
	defer d.Close()
	var s Sample
	must(t, d.Read(&s))
	if d.Info().Name != "nvme0n1" || !d.Info().NVMe || s.Read.IOs != 10 || s.InFlight != 6 || strings.Join(d.Info().Paths, " ") != "nvme0c0n1 nvme0c1n1" {
		t.Fatalf("%+v: %+v", d.Info(), s)
	}
}

func TestOwnIOIsToldFromOthersByTheControlGroup(t *testing.T) {
	for _, version := range []string{"v2", "v1"} {
		m := newMachine(t)
		mounts := "20 1 8:0 / / rw - ext4 /dev/sda rw\n"
		grow := func(reads int) {}
		if version == "v2" {
			m.mounts(mounts + "30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
			m.put("/proc/self/cgroup", "0::/pod\n")
			m.put("/sys/fs/cgroup/pod/cgroup.type", "domain\n")
			grow = func(n int) {
				m.put("/sys/fs/cgroup/pod/io.stat", fmt.Sprintf("8:16 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=%d wbytes=0 rios=%d wios=0 dbytes=0 dios=0\n", n*4096, n))
			}
		} else {
			m.mounts(mounts + "30 20 0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n")
			m.put("/proc/self/cgroup", "7:blkio:/pod\n")
			grow = func(n int) {
				m.put("/sys/fs/cgroup/blkio/pod/blkio.throttle.io_service_bytes", fmt.Sprintf("8:0 Read %d\n8:0 Write 0\n8:0 Sync 1\nTotal 2\n", n*4096))
				m.put("/sys/fs/cgroup/blkio/pod/blkio.throttle.io_serviced", fmt.Sprintf("8:0 Read %d\n8:0 Write 0\n", n))
			}
		}
		grow(100)
		s := m.set(Options{Own: true})
		must(t, s.Add("sda"))
		pass()
		m.stat("sda", 40, 1010)
		grow(110)
		v := s.Refresh()
		r, err := v.Disk("sda")
		must(t, err)
		spanS := float64(r.Rate.Span) / 1e9
		if r.Own.ReadsPerS != 10/spanS || r.Own.ReadBytesPerS != 40960/spanS || math.Abs(r.Own.OthersReadBytesPerS-20*4096/spanS) > 1e-6*r.Rate.Read.BytesPerS || r.Own.WritesPerS != 0 {
			t.Fatalf("%s: %+v of %+v", version, r.Own, r.Rate.Read)
		}
		v.Release()
	}
}

func TestTheRootControlGroupIsEverybodys(t *testing.T) {
	m := newMachine(t)
	m.mounts("20 1 8:0 / / rw - ext4 /dev/sda rw\n30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	m.put("/proc/self/cgroup", "0::/\n")
	m.put("/sys/fs/cgroup/io.stat", "8:0 rbytes=1 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n")
	s := m.set(Options{Own: true})
	must(t, s.Add("sda"))
	pass()
	v := s.Refresh()
	if r, err := v.Disk("sda"); err != nil || !math.IsNaN(r.Own.ReadsPerS) {
		t.Fatal(r, err)
	}
	if len(v.Errors()) != 1 || !errors.Is(v.Errors()[0], ErrRootGroup) {
		t.Fatal(v.Errors())
	}
}
