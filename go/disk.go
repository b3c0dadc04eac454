// SPDX-License-Identifier: MIT OR Apache-2.0

// One disk or partition: how it is opened, its model and size, how its counters are read, and the errors.

package iolens

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Errors that callers may want to tell apart with errors.Is.
var (
	// ErrUnsupported: the system is not Linux.
	ErrUnsupported = errors.New("disks can be read on Linux only")
	// ErrLost: the disk was removed.
	ErrLost = errors.New("the disk is not there")
	// ErrNoInterval: no interval has passed since the disk was added.
	ErrNoInterval = errors.New("no interval has passed yet")
	// ErrReset: the disk was removed and came back; the next interval is known.
	ErrReset = errors.New("the disk was removed and came back")
	// ErrNotAccounted: the kernel does not count the disk's I/O (queue/iostats is 0).
	ErrNotAccounted = errors.New("the kernel does not count this disk's I/O (queue/iostats is 0)")
	// ErrUnknown: the set has no such disk or path.
	ErrUnknown = errors.New("not in the set")
)

// DiskError is an error of one disk.
type DiskError struct {
	Disk string
	Err  error
}

func (e *DiskError) Error() string { return e.Disk + ": " + e.Err.Error() }

func (e *DiskError) Unwrap() error { return e.Err }

// Info is what does not change while a disk is there.
type Info struct {
	Name          string // kernel name: nvme0n1
	Dev           string // MAJOR:MINOR
	Model         string
	SizeBytes     uint64
	Rotational    bool // a spinning disk, as far as the kernel knows
	NVMe          bool
	LogicalBytes  int      // sector size in which it is addressed
	PhysicalBytes int      // sector size in which it writes without reading first
	Paths         []string // of NVMe multipath, where the kernel counts those only; they are summed
}

// Disk reads the counters of one disk. It is not for use by several goroutines at once.
type Disk struct {
	info         Info
	dev          devID
	machine      machine
	files        []kernelFile
	notAccounted bool
	lost         *DiskError
	buffer       [1024]byte
}

// Open opens a disk or partition by its kernel name (sda), node (/dev/sda, /dev/mapper/data) or number (8:0).
func Open(dev string) (*Disk, error) { return OpenUnder("/", dev) }

// OpenUnder is Open for the machine that is seen under root, such as a container's /host.
func OpenUnder(root, dev string) (*Disk, error) {
	if !supported {
		return nil, ErrUnsupported
	}
	r := &resolver{machine: machine{root}}
	name := dev
	if _, isNumber := parseDevID(dev); isNumber {
		name = ""
		if dir, err := filepath.EvalSymlinks(r.at("/sys/dev/block/" + dev)); err == nil {
			name = strings.ReplaceAll(filepath.Base(dir), "!", "/")
		}
	} else if strings.HasPrefix(dev, "/dev/") {
		name = r.kernelName(dev)
	}
	if name == "" || !isFile(r.statFile(name)) {
		return nil, &DiskError{dev, ErrLost}
	}
	number, _ := parseDevID(text(r.at("/sys/class/block/" + strings.ReplaceAll(name, "/", "!") + "/dev")))
	if number == (devID{}) {
		number, _ = parseDevID(text(r.at("/sys/block/" + strings.ReplaceAll(name, "/", "!") + "/dev")))
	}
	var paths []string
	for _, p := range r.nvmePaths(name) {
		paths = append(paths, p.name)
	}
	return r.open(bottom{name: name, dev: number, stats: r.statsOf(name, paths)})
}

// open opens the result of a lookup. A disk that cannot be read is an error.
func (m machine) open(b bottom) (*Disk, error) {
	d := &Disk{machine: m, dev: b.dev, info: Info{Name: b.name, Dev: b.dev.String()}}
	for _, path := range b.stats {
		d.files = append(d.files, kernelFile{path: path})
		if len(b.stats) > 1 {
			d.info.Paths = append(d.info.Paths, filepath.Base(filepath.Dir(path)))
		}
	}
	d.describe()
	var s Sample
	if err := d.Read(&s); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// describe reads the properties of the disk from sysfs.
func (d *Disk) describe() {
	dir := filepath.Dir(d.machine.statFile(d.info.Name))
	d.info.SizeBytes = number(filepath.Join(dir, "size")) * 512
	// A partition has the queue of its disk.
	if real, err := filepath.EvalSymlinks(dir); err == nil && isFile(filepath.Join(real, "partition")) {
		dir = filepath.Dir(real)
	}
	d.info.NVMe = strings.HasPrefix(d.info.Name, "nvme")
	d.info.Model = text(filepath.Join(dir, "device/model"))
	queue := filepath.Join(dir, "queue")
	d.info.Rotational = text(filepath.Join(queue, "rotational")) == "1"
	d.info.LogicalBytes = int(number(filepath.Join(queue, "logical_block_size")))
	d.info.PhysicalBytes = int(number(filepath.Join(queue, "physical_block_size")))
	d.notAccounted = text(filepath.Join(queue, "iostats")) == "0"
}

func number(path string) uint64 {
	n, _ := strconv.ParseUint(text(path), 10, 64)
	return n
}

// Info says what the disk is.
func (d *Disk) Info() *Info { return &d.info }

// Read reads the counters: one pread, without an allocation. If the disk is gone it returns [ErrLost]; when the disk
// comes back under its name, the next Read finds it.
func (d *Disk) Read(s *Sample) error {
	s.At = monotonicNs()
	return d.readAt(s)
}

// readAt is Read with a given time.
func (d *Disk) readAt(s *Sample) error {
	generation := uint32(0)
	for i := range d.files {
		f := &d.files[i]
		n, err := f.read(d.buffer[:])
		if err != nil {
			return d.wrap(err)
		}
		generation += f.opened
		if i == 0 {
			s.parse(d.buffer[:n])
			continue
		}
		var path Sample
		path.parse(d.buffer[:n])
		s.add(&path)
	}
	s.NotAccounted, s.generation = d.notAccounted, generation
	return nil
}

func (d *Disk) wrap(err error) error {
	if isGone(err) {
		// The error is reused while the disk is gone, so that reading a lost disk allocates nothing.
		if d.lost == nil {
			d.lost = &DiskError{d.info.Name, ErrLost}
		}
		return d.lost
	}
	return &DiskError{d.info.Name, fmt.Errorf("its counters cannot be read: %w", err)}
}

// Close closes its files.
func (d *Disk) Close() {
	for i := range d.files {
		d.files[i].close()
	}
}
