// SPDX-License-Identifier: MIT OR Apache-2.0

// Reads the counters of many disks at once from /proc/diskstats, where that costs less than a file for each.

package iolens

import "bytes"

// maxTable is the maximum size of /proc/diskstats that is worth reading, in bytes.
const maxTable = 64 << 10

// retryTable is the number of refreshes after which it is checked again whether the table is worth reading.
const retryTable = 1000

// table is /proc/diskstats. A line of it costs the kernel half as much as a file of sysfs, so a set with at least
// half of the lines reads the table instead of the files. The table does not show that a disk was removed and came
// back between two refreshes, unless its counters decreased.
type table struct {
	file   kernelFile
	buffer []byte
	rows   []*member // whose line each is; nil: of no member
	skip   int
}

// read sets the members' counters from their lines; members without a line read their files.
func (t *table) read(members []*member) {
	for _, m := range members {
		m.row = nil
	}
	if len(members) < 2 {
		return
	}
	if t.skip > 0 && t.rows != nil {
		t.skip--
		return
	}
	if t.buffer == nil {
		t.buffer = make([]byte, maxTable)
	}
	n, err := t.file.readAll(t.buffer)
	lines := bytes.Count(t.buffer[:n], []byte{'\n'})
	if err != nil || n == len(t.buffer) || lines > 2*len(members) {
		t.skip = retryTable
		if t.rows == nil {
			t.rows = []*member{}
		}
		return
	}
	rest := t.buffer[:n]
	for i := 0; i < lines; i++ {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		rest = after
		name, counters := splitRow(line)
		if i >= len(t.rows) {
			t.rows = append(t.rows, memberNamed(members, name))
		} else if t.rows[i] == nil || !isNamed(t.rows[i], name) {
			t.rows[i] = memberNamed(members, name)
		}
		// For an NVMe disk with several paths, the counters are a sum.
		if m := t.rows[i]; m != nil && len(m.disk.files) == 1 {
			m.row = counters
		}
	}
}

// splitRow splits "   8       0 sda 1 2 3 ...".
func splitRow(line []byte) (name, counters []byte) {
	for range 2 {
		line = bytes.TrimLeft(line, " ")
		_, line, _ = bytes.Cut(line, []byte{' '})
	}
	name, counters, _ = bytes.Cut(line, []byte{' '})
	return name, counters
}

func memberNamed(members []*member, name []byte) *member {
	for _, m := range members {
		if isNamed(m, name) {
			return m
		}
	}
	return nil
}

// isNamed compares names; sysfs writes "!" where the kernel's name has "/".
func isNamed(m *member, name []byte) bool {
	if len(m.at.name) != len(name) {
		return false
	}
	for i, b := range name {
		if a := m.at.name[i]; a != b && !(a == '/' && b == '!') {
			return false
		}
	}
	return true
}
