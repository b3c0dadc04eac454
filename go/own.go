// SPDX-License-Identifier: MIT OR Apache-2.0

// The I/O of this process' own control group on a disk, and that of all others (cgroup v2 io.stat, v1 blkio).

package iolens

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"time"
)

// Own is the part of a disk's I/O that this process' control group caused; the rest is that of others. NaN: not
// known.
type Own struct {
	ReadsPerS, WritesPerS         float64
	ReadBytesPerS, WriteBytesPerS float64
	OthersReadBytesPerS           float64
	OthersWriteBytesPerS          float64
}

var unknownOwn = Own{NaN, NaN, NaN, NaN, NaN, NaN}

// ErrRootGroup: the process is in the root control group, which has the I/O of all.
var ErrRootGroup = errors.New("this process is in the root control group, whose I/O is everybody's")

// errNoGroup: no control group counts I/O here.
var errNoGroup = errors.New("no control group counts this process' I/O (cgroup v2 with the io controller, or v1 blkio)")

// ownCounters are the counters of a control group on one device.
type ownCounters struct {
	known                 bool
	reads, writes         uint64
	readBytes, writeBytes uint64
}

// ownReader reads the counters of this process' control group.
type ownReader struct {
	files  []kernelFile // v2: io.stat; v1: bytes, then I/Os
	v2     bool
	buffer []byte
}

// openOwn finds the group of this process and opens its files.
func (m machine) openOwn() (*ownReader, error) {
	table, err := m.mounts()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(text(m.at("/proc/self/cgroup")), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		v2 := fields[0] == "0"
		if !v2 && !strings.Contains(","+fields[1]+",", ",blkio,") {
			continue
		}
		for i := range table {
			mount := &table[i]
			isItsOwn := v2 && mount.fsType == "cgroup2" ||
				!v2 && mount.fsType == "cgroup" && strings.Contains(","+mount.options+",", ",blkio,")
			if !isItsOwn {
				continue
			}
			dir := m.at(filepath.Join(mount.point, fields[2]))
			if reader, err := openOwnDir(dir, v2); err == nil || errors.Is(err, ErrRootGroup) {
				return reader, err
			}
		}
	}
	return nil, errNoGroup
}

func openOwnDir(dir string, v2 bool) (*ownReader, error) {
	o := &ownReader{v2: v2, buffer: make([]byte, 64<<10)}
	if v2 {
		if !isFile(filepath.Join(dir, "io.stat")) {
			return nil, errNoGroup
		}
		// The root group of the machine has no type; that of a container's namespace has one.
		if !isFile(filepath.Join(dir, "cgroup.type")) {
			return nil, ErrRootGroup
		}
		o.files = []kernelFile{{path: filepath.Join(dir, "io.stat")}}
		return o, nil
	}
	if !isFile(filepath.Join(dir, "blkio.throttle.io_service_bytes")) {
		return nil, errNoGroup
	}
	// Only the root of a hierarchy has a release_agent.
	if isFile(filepath.Join(dir, "release_agent")) {
		return nil, ErrRootGroup
	}
	o.files = []kernelFile{
		{path: filepath.Join(dir, "blkio.throttle.io_service_bytes")},
		{path: filepath.Join(dir, "blkio.throttle.io_serviced")},
	}
	return o, nil
}

// read reads the group's counters. Nothing is set for devices without a line.
func (o *ownReader) read(members []*member) {
	for _, m := range members {
		m.ownBefore, m.ownNow = m.ownNow, ownCounters{}
	}
	for i := range o.files {
		n, err := o.files[i].read(o.buffer)
		if err != nil {
			continue
		}
		rest := o.buffer[:n]
		for len(rest) > 0 {
			line, after, _ := bytes.Cut(rest, []byte{'\n'})
			rest = after
			dev, words, _ := bytes.Cut(line, []byte{' '})
			for _, m := range members {
				if string(dev) != m.disk.info.Dev {
					continue
				}
				if o.v2 {
					m.ownNow.takeV2(words)
				} else {
					m.ownNow.takeV1(words, i == 0)
				}
			}
		}
	}
}

// takeV2 parses "rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0".
func (c *ownCounters) takeV2(words []byte) {
	c.known = true
	for len(words) > 0 {
		word, after, _ := bytes.Cut(words, []byte{' '})
		words = after
		key, value, _ := bytes.Cut(word, []byte{'='})
		n := digits(value)
		switch string(key) {
		case "rbytes":
			c.readBytes = n
		case "wbytes":
			c.writeBytes = n
		case "rios":
			c.reads = n
		case "wios":
			c.writes = n
		}
	}
}

// takeV1 parses "Read 1" or "Write 2".
func (c *ownCounters) takeV1(words []byte, isBytes bool) {
	key, value, _ := bytes.Cut(words, []byte{' '})
	n := digits(value)
	switch {
	case string(key) == "Read" && isBytes:
		c.known, c.readBytes = true, n
	case string(key) == "Read":
		c.reads = n
	case string(key) == "Write" && isBytes:
		c.known, c.writeBytes = true, n
	case string(key) == "Write":
		c.writes = n
	}
}

func digits(text []byte) uint64 {
	v := uint64(0)
	for _, b := range text {
		if b-'0' > 9 {
			break
		}
		v = v*10 + uint64(b-'0')
	}
	return v
}

// own is the rate between two readings of the group, and the rest of the disk's rate.
func ownBetween(a, b *ownCounters, span time.Duration, disk *Rate) Own {
	if !b.known || !disk.Known() {
		return unknownOwn
	}
	before := *a
	if !a.known {
		// A group has no line of a device before its first I/O there.
		before = ownCounters{}
	}
	rate := func(a, b uint64) float64 { return perSecond(grown(a, b), span) }
	o := Own{
		ReadsPerS:      rate(before.reads, b.reads),
		WritesPerS:     rate(before.writes, b.writes),
		ReadBytesPerS:  rate(before.readBytes, b.readBytes),
		WriteBytesPerS: rate(before.writeBytes, b.writeBytes),
	}
	// I/O that the group has started but the disk has not completed would make the difference negative.
	o.OthersReadBytesPerS = max(disk.Read.BytesPerS-o.ReadBytesPerS, 0)
	o.OthersWriteBytesPerS = max(disk.Write.BytesPerS-o.WriteBytesPerS, 0)
	return o
}

func (o *ownReader) close() {
	for i := range o.files {
		o.files[i].close()
	}
}
