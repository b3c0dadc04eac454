// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package iolens

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// needRoot skips a test that changes the machine's devices.
func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIP: needs root")
	}
}

// loopDevice is a new device of its own over a file of 16 MiB.
func loopDevice(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "disk")
	must(t, os.WriteFile(file, make([]byte, 16<<20), 0o600))
	out, err := exec.Command("losetup", "-f", "--show", file).Output()
	if err != nil {
		t.Skipf("SKIP: no loop device: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	return device
}

// writeDirect writes blocks of 4 KiB past the page cache.
func writeDirect(t *testing.T, device string, blocks int) {
	file, err := os.OpenFile(device, os.O_RDWR|syscall.O_DIRECT, 0)
	must(t, err)
	defer file.Close()
	memory := make([]byte, 2*4096)
	skip := 4096 - int(uintptr(unsafe.Pointer(&memory[0]))%4096)
	for i := range blocks {
		if _, err := file.WriteAt(memory[skip:skip+4096], int64(i)*4096); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountersOfARealDiskAreWhatWasWritten(t *testing.T) {
	needRoot(t)
	device := loopDevice(t)
	d, err := Open(device)
	must(t, err)
	defer d.Close()
	var a, b Sample
	must(t, d.Read(&a))
	writeDirect(t, device, 300)
	must(t, d.Read(&b))
	r := Between(&a, &b)
	if b.NotAccounted {
		t.Skip("SKIP: loop devices are not accounted here")
	}
	if r.Write.IOs != 300 || r.Write.BytesPerS != 300*4096/(float64(r.Span)/1e9) || r.Write.RequestBytes != 4096 {
		t.Fatalf("%+v", r.Write)
	}
}

func TestARunningServiceGivesEveryIO(t *testing.T) {
	needRoot(t)
	program := os.Getenv("IOLENS")
	if program == "" {
		t.Skip("SKIP: the iolens program is not built, or not named in IOLENS")
	}
	device := loopDevice(t)
	name := filepath.Base(device)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	serve := exec.Command(program, "serve", "--rec", filepath.Join(dir, "root"), "--keep", "100M", "--listen", "unix:"+socket)
	output, err := os.Create(filepath.Join(dir, "said"))
	must(t, err)
	defer output.Close()
	serve.Stderr = output
	must(t, serve.Start())
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		<-ended
	})

	s := NewSet(Options{Serve: socket})
	defer s.Close()
	must(t, s.Add(device))
	// Each reading from events is counted once; slots come about a second after what is in them.
	var writes, bytes float64
	lastEnd, isExact := int64(0), false
	take := func() (idle bool) {
		v := s.Refresh()
		defer v.Release()
		r, _ := v.Disk(name)
		if r.Source != FromEvents || r.endNs == lastEnd {
			return false
		}
		lastEnd, isExact = r.endNs, true
		if r.Rate.Lossy {
			t.Skip("SKIP: the machine was so busy that events were lost")
		}
		writes += r.Rate.Write.IOs
		bytes += r.Rate.Write.BytesPerS * float64(r.Rate.Span) / 1e9
		return r.Rate.Write.IOs == 0
	}
	deadline := time.Now().Add(2 * time.Minute)
	step := func() bool {
		select {
		case <-ended:
			ended <- nil
			t.Fatal("the service ended: ", text(output.Name()))
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("no slots came: ", text(output.Name()), writes)
		}
		if said := text(output.Name()); strings.Contains(said, "source: counters") {
			t.Skipf("SKIP: the service does not record events here: %s", said)
		}
		time.Sleep(20 * time.Millisecond)
		return take()
	}
	for !isExact {
		step()
	}
	const blocks = 500
	writeDirect(t, device, blocks)
	for writes < blocks {
		step()
	}
	for !step() {
	}
	if writes != blocks || math.Abs(bytes-blocks*4096) > 1e-3 {
		t.Fatalf("%v writes of %v bytes, not %d of %d", writes, bytes, blocks, blocks*4096)
	}
}

func TestARealDeviceThatGoesAndComesBack(t *testing.T) {
	needRoot(t)
	const control = "/sys/class/zram-control/"
	added, err := os.ReadFile(control + "hot_add")
	if err != nil {
		t.Skipf("SKIP: no zram: %v", err)
	}
	number := strings.TrimSpace(string(added))
	name := "zram" + number
	remove := func() error { return os.WriteFile(control+"hot_remove", []byte(number), 0) }
	t.Cleanup(func() { _ = remove() })
	s := NewSet(Options{})
	defer s.Close()
	must(t, s.Add(name))
	pass()
	v := s.Refresh()
	if r, err := v.Disk(name); err != nil && !errors.Is(err, ErrNotAccounted) {
		t.Fatal(r, err)
	}
	v.Release()
	must(t, remove())
	v = s.Refresh()
	if r, err := v.Disk(name); !errors.Is(err, ErrLost) || !math.IsNaN(r.Rate.Busy.Percent) {
		t.Fatal(r, err)
	}
	v.Release()
	if again, err := os.ReadFile(control + "hot_add"); err != nil || strings.TrimSpace(string(again)) != number {
		t.Skipf("SKIP: it did not come back under its name: %q, %v", again, err)
	}
	lookAgain(s).Release()
	pass()
	v = s.Refresh()
	defer v.Release()
	if r, err := v.Disk(name); err != nil && !errors.Is(err, ErrNotAccounted) {
		t.Fatal(r, err)
	}
}
