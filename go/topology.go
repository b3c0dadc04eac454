// SPDX-License-Identifier: MIT OR Apache-2.0

// Which disks are under a path (mounts, RAID, dm, loop, overlay, btrfs, ZFS), and the list of network file systems.

package iolens

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxDepth is more layers than any machine has; a deeper tree has a cycle.
const maxDepth = 32

// maxLinks is the kernel's own limit of symbolic links in a path.
const maxLinks = 40

// devID is a device number.
type devID struct{ major, minor uint32 }

func (d devID) String() string { return fmt.Sprintf("%d:%d", d.major, d.minor) }

func parseDevID(s string) (devID, bool) {
	a, b, found := strings.Cut(s, ":")
	major, err1 := strconv.ParseUint(a, 10, 32)
	minor, err2 := strconv.ParseUint(b, 10, 32)
	return devID{uint32(major), uint32(minor)}, found && err1 == nil && err2 == nil
}

// machine is the machine whose files are under a root: "/", or "/host" in a container.
type machine struct{ root string }

// at is the name by which this process opens a path of the machine.
func (m machine) at(path string) string { return filepath.Join(m.root, path) }

// text is the trimmed text of a file; empty if there is none.
func text(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(data))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// names lists a directory, sorted; nothing if there is none.
func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// estimatorOf reads the release and CONFIG_HZ of the kernel under root.
func estimatorOf(root string) *Estimator {
	m := machine{root}
	release := text(m.at("/proc/sys/kernel/osrelease"))
	config, err := os.ReadFile(m.at("/boot/config-" + release))
	if err != nil {
		config = gunzip(m.at("/proc/config.gz"))
	}
	hz := uint64(0)
	for _, line := range strings.Split(string(config), "\n") {
		if value, ok := strings.CutPrefix(line, "CONFIG_HZ="); ok {
			hz, _ = strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			break
		}
	}
	return NewEstimator(release, uint32(hz))
}

func gunzip(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	reader, err := gzip.NewReader(file)
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(reader)
	if err != nil {
		return nil
	}
	return out
}

// canonical resolves links, "." and ".." of a path inside the root. An absolute link refers to a file under the root.
func (m machine) canonical(path string) (string, error) {
	done, links := "/", 0
	todo := components(path)
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		if part == ".." {
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, part)
		info, err := os.Lstat(m.at(next))
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: symbolic links lead round in a ring", path)
		}
		target, err := os.Readlink(m.at(next))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		todo = append(components(target), todo...)
	}
	return done, nil
}

func components(path string) []string {
	parts := strings.Split(path, "/")
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "." })
}

// mount is a line of the mount table.
type mount struct {
	id, parent    uint64
	dev           devID
	point, fsType string
	source        string
	options       string
}

// mounts reads the mount table: of this process on the live machine, of process 1 under another root.
func (m machine) mounts() ([]mount, error) {
	who := "1"
	if m.root == "/" {
		who = "self"
	}
	data, err := os.ReadFile(m.at("/proc/" + who + "/mountinfo"))
	if err != nil {
		return nil, err
	}
	var out []mount
	for _, line := range strings.Split(string(data), "\n") {
		if mount, ok := parseMount(line); ok {
			out = append(out, mount)
		}
	}
	return out, nil
}

func parseMount(line string) (mount, bool) {
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if dash < 5 || len(fields) < dash+3 {
		return mount{}, false
	}
	id, err1 := strconv.ParseUint(fields[0], 10, 64)
	parent, err2 := strconv.ParseUint(fields[1], 10, 64)
	dev, ok := parseDevID(fields[2])
	if err1 != nil || err2 != nil || !ok {
		return mount{}, false
	}
	out := mount{id: id, parent: parent, dev: dev, point: unescape(fields[4]), fsType: fields[dash+1], source: unescape(fields[dash+2])}
	if len(fields) > dash+3 {
		out.options = unescape(fields[dash+3])
	}
	return out, true
}

// unescape decodes the kernel's octal escapes of blank, tab, newline and backslash.
func unescape(field string) string {
	var out strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+4 <= len(field) {
			if v, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		out.WriteByte(field[i])
	}
	return out.String()
}

// isUnder reports whether path is point or below it.
func isUnder(path, point string) bool {
	return point == "/" || path == point || strings.HasPrefix(path, point+"/")
}

func depthOf(point string) int { return len(components(point)) }

// mountOf walks from the root downwards as the kernel does, so that a mount hidden by a later one is not used.
func mountOf(table []mount, path string) *mount {
	hasParent := func(m *mount) bool {
		return slices.ContainsFunc(table, func(p mount) bool { return p.id == m.parent && p.id != m.id })
	}
	var at *mount
	for i := range table {
		m := &table[i]
		if m.point == "/" && (at == nil || !hasParent(m) && hasParent(at)) {
			at = m
		}
	}
	// Each step goes to a child, so a walk has at most as many steps as the table has lines.
	for range table {
		var child *mount
		for i := range table {
			m := &table[i]
			if m.parent != at.id || m.id == at.id || !isUnder(path, m.point) {
				continue
			}
			if child == nil || depthOf(m.point) < depthOf(child.point) {
				child = m
			}
		}
		if child == nil {
			break
		}
		at = child
	}
	return at
}

// bottom is a disk at the bottom of a stack: the device that can be busy.
type bottom struct {
	name  string
	dev   devID
	stats []string // files with its counters; several for an NVMe multipath disk whose kernel counts only its paths
}

// layer is a block device and the devices under it.
type layer struct {
	name   string
	dev    devID
	hasDev bool
	isPath bool // a hidden path of an NVMe multipath disk
	below  []layer
}

// resolver resolves paths in one state of the mount table.
type resolver struct {
	machine
	table []mount
	// literal: paths are used as given, without queries of file systems that may block on a disk.
	literal bool
}

func (m machine) resolver() (*resolver, error) {
	table, err := m.mounts()
	if err != nil {
		return nil, err
	}
	return &resolver{machine: m, table: table}, nil
}

// place is a resolved path: its canonical form, and the device if it is a device node.
type place struct {
	path   string
	node   devID
	isNode bool
}

func (r *resolver) place(path string) (place, error) {
	canonical, err := r.canonical(path)
	if err != nil {
		return place{}, err
	}
	node, isNode := blockDevice(r.at(canonical))
	return place{path: canonical, node: node, isNode: isNode}, nil
}

// disksOf returns the disks under a path, by name; the error is the reason if there are none.
func (r *resolver) disksOf(p place) ([]bottom, error) {
	var layers []layer
	why := errors.New("the mount table does not say what it is on")
	if p.isNode {
		layers = r.device(p.node, 0)
		why = fmt.Errorf("sysfs has no block device %s", p.node)
	} else if m := mountOf(r.table, p.path); m != nil {
		layers = r.layersOf(m, 0)
		why = whyNone(m)
	}
	disks := r.bottoms(layers)
	if len(disks) == 0 {
		return nil, why
	}
	return disks, nil
}

// whyNone returns the reason why there is no disk under a mount.
func whyNone(m *mount) error {
	kind := m.fsType
	switch kind {
	case "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "virtiofs", "afs", "glusterfs", "fuse.sshfs":
		return fmt.Errorf("%s is a network file system: its disks are another machine's", kind)
	case "overlay":
		return errors.New("overlay: none of its layers is on a visible block device")
	case "zfs":
		return errors.New("zfs: no member of the pool is known to udev here (/run/udev/data)")
	case "btrfs":
		return errors.New("btrfs: its members are not under /sys/fs/btrfs here")
	}
	switch {
	case strings.HasPrefix(kind, "fuse"):
		return fmt.Errorf("%s is served by a process, not by a block device", kind)
	case m.dev.major == 0:
		return fmt.Errorf("%s has no block device under it", kind)
	}
	return fmt.Errorf("its device %s is not in sysfs (removed?)", m.dev)
}

// device returns the device with this number and all devices under it; nothing if sysfs does not list it.
func (r *resolver) device(dev devID, depth int) []layer {
	return r.directory(r.at("/sys/dev/block/"+dev.String()), depth)
}

// directory returns the device of a sysfs directory or of a link to one.
func (r *resolver) directory(dir string, depth int) []layer {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	l := layer{name: strings.ReplaceAll(filepath.Base(dir), "!", "/")}
	l.dev, l.hasDev = parseDevID(text(filepath.Join(dir, "dev")))
	if depth < maxDepth {
		l.below = r.belowOf(dir, l.name, depth+1)
	}
	return []layer{l}
}

func (r *resolver) belowOf(dir, name string, depth int) []layer {
	if isFile(filepath.Join(dir, "partition")) {
		return r.directory(filepath.Dir(dir), depth)
	}
	if slaves := names(filepath.Join(dir, "slaves")); len(slaves) > 0 {
		var out []layer
		for _, s := range slaves {
			out = append(out, r.directory(filepath.Join(dir, "slaves", s), depth)...)
		}
		return out
	}
	if file := text(filepath.Join(dir, "loop/backing_file")); file != "" && text(filepath.Join(dir, "dm/name")) == "" {
		return r.backing(strings.TrimSuffix(file, " (deleted)"), depth)
	}
	return r.nvmePaths(name)
}

// follow returns the canonical form of a path, or the path itself if it does not exist or may not be read.
func (r *resolver) follow(path string) (string, bool) {
	if r.literal {
		return path, true
	}
	canonical, err := r.canonical(path)
	if err != nil {
		return path, false
	}
	return canonical, true
}

// backing returns the devices under a loop device's file. A deleted file is still on the disk of its directory.
func (r *resolver) backing(file string, depth int) []layer {
	path, _ := r.follow(file)
	if m := mountOf(r.table, path); m != nil {
		return r.layersOf(m, depth)
	}
	return nil
}

// nvmePaths returns the hidden paths nvmeXcYnZ of a multipath head nvmeXnZ (Linux 4.15 and newer).
func (r *resolver) nvmePaths(head string) []layer {
	subsystem, namespace, ok := strings.Cut(strings.TrimPrefix(head, "nvme"), "n")
	if !strings.HasPrefix(head, "nvme") || !ok {
		return nil
	}
	var out []layer
	for _, name := range names(r.at("/sys/block")) {
		if middle, ok := strings.CutPrefix(name, "nvme"+subsystem+"c"); ok {
			controller, n, found := strings.Cut(middle, "n")
			if found && n == namespace && strings.Trim(controller, "0123456789") == "" {
				out = append(out, layer{name: name, isPath: true})
			}
		}
	}
	return out
}

// layersOf returns the devices directly under a file system.
func (r *resolver) layersOf(m *mount, depth int) []layer {
	switch {
	case depth >= maxDepth:
		return nil
	case m.dev.major != 0:
		return r.device(m.dev, depth)
	case m.fsType == "overlay":
		return r.overlay(m, depth)
	case m.fsType == "btrfs":
		if layers, ok := r.btrfs(m, depth); ok {
			return layers
		}
	case m.fsType == "zfs":
		return r.zfs(m, depth)
	}
	return r.bySource(m, depth)
}

// overlay returns the disks of the upper and all lower directories.
func (r *resolver) overlay(m *mount, depth int) []layer {
	var directories []string
	for _, option := range splitOptions(m.options) {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "upperdir", "lowerdir+", "datadir+":
			directories = append(directories, value)
		case "lowerdir":
			directories = append(directories, splitProtected(value, ':')...)
		}
	}
	var out []layer
	seen := map[devID]bool{}
	for _, dir := range directories {
		path, ok := r.follow(dir)
		if dir == "" || !ok {
			continue
		}
		of := mountOf(r.table, path)
		if of == nil || of.id == m.id || seen[of.dev] {
			continue
		}
		seen[of.dev] = true
		out = append(out, r.layersOf(of, depth+1)...)
	}
	return out
}

// splitOptions splits at commas; a comma in a directory's name is escaped by a backslash. Backslashes before colons
// stay, for the list of lower directories.
func splitOptions(options string) []string {
	var out []string
	var one strings.Builder
	for i := 0; i < len(options); i++ {
		switch {
		case options[i] == '\\' && i+1 < len(options) && options[i+1] == ',':
			one.WriteByte(',')
			i++
		case options[i] == ',':
			out = append(out, one.String())
			one.Reset()
		default:
			one.WriteByte(options[i])
		}
	}
	return append(out, one.String())
}

// splitProtected splits at a separator, except where a backslash escapes it.
func splitProtected(list string, separator byte) []string {
	var out []string
	var one strings.Builder
	for i := 0; i < len(list); i++ {
		switch {
		case list[i] == '\\' && i+1 < len(list) && strings.IndexByte(`:,\`, list[i+1]) >= 0:
			i++
			one.WriteByte(list[i])
		case list[i] == separator:
			out = append(out, one.String())
			one.Reset()
		default:
			one.WriteByte(list[i])
		}
	}
	return append(out, one.String())
}

// btrfs returns all members of the file system.
func (r *resolver) btrfs(m *mount, depth int) ([]layer, bool) {
	member := r.kernelName(m.source)
	base := r.at("/sys/fs/btrfs")
	for _, uuid := range names(base) {
		devices := filepath.Join(base, uuid, "devices")
		if _, err := os.Lstat(filepath.Join(devices, member)); member == "" || err != nil {
			continue
		}
		var out []layer
		for _, name := range names(devices) {
			out = append(out, r.directory(filepath.Join(devices, name), depth)...)
		}
		return out, true
	}
	return nil, false
}

// zfs returns the members of the pool. zfs has no entry in sysfs, but udev stores each member's label.
func (r *resolver) zfs(m *mount, depth int) []layer {
	pool, _, _ := strings.Cut(m.source, "/")
	data := r.at("/run/udev/data")
	var out []layer
	for _, name := range names(data) {
		number, ok := strings.CutPrefix(name, "b")
		dev, isDev := parseDevID(number)
		if !ok || !isDev {
			continue
		}
		lines := strings.Split(text(filepath.Join(data, name)), "\n")
		if slices.Contains(lines, "E:ID_FS_TYPE=zfs_member") && slices.Contains(lines, "E:ID_FS_LABEL="+pool) {
			out = append(out, r.device(dev, depth)...)
		}
	}
	// udev labels the whole disk and its partition alike; the partition is the member.
	under := map[devID]bool{}
	for _, l := range out {
		for _, b := range l.below {
			under[b.dev] = under[b.dev] || b.hasDev
		}
	}
	return slices.DeleteFunc(out, func(l layer) bool { return under[l.dev] })
}

// bySource is for file systems without a device number of their own that are mounted from devices (/dev/a:/dev/b).
func (r *resolver) bySource(m *mount, depth int) []layer {
	if !strings.HasPrefix(m.source, "/dev/") {
		return nil
	}
	var out []layer
	for _, source := range strings.Split(m.source, ":") {
		out = append(out, r.named(r.kernelName(source), depth)...)
	}
	return out
}

func (r *resolver) named(name string, depth int) []layer {
	if name == "" {
		return nil
	}
	if found := r.directory(r.at("/sys/class/block/"+name), depth); found != nil {
		return found
	}
	return r.directory(r.at("/sys/block/"+name), depth)
}

// kernelName returns the kernel name of a node under /dev: its own, that of the link's target, or that of the dm
// device.
func (r *resolver) kernelName(source string) string {
	path, err := r.canonical(source)
	if err != nil {
		path = source
	}
	name := filepath.Base(path)
	if filepath.Dir(path) != "/dev/mapper" {
		return name
	}
	block := r.at("/sys/block")
	for _, d := range names(block) {
		if text(filepath.Join(block, d, "dm/name")) == name {
			return d
		}
	}
	return ""
}

// bottoms returns the disks at the bottom of layers, each once, by name. A loop device whose file is on no disk is
// itself the lowest device that can be busy. An NVMe multipath head is one disk, whatever the number of its paths.
func (r *resolver) bottoms(layers []layer) []bottom {
	var out []bottom
	var collect func(l *layer)
	collect = func(l *layer) {
		var paths []string
		for _, b := range l.below {
			if b.isPath {
				paths = append(paths, b.name)
			}
		}
		if len(paths) < len(l.below) {
			for i := range l.below {
				collect(&l.below[i])
			}
			return
		}
		if l.hasDev {
			out = append(out, bottom{name: l.name, dev: l.dev, stats: r.statsOf(l.name, paths)})
		}
	}
	for i := range layers {
		collect(&layers[i])
	}
	slices.SortFunc(out, func(a, b bottom) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(out, func(a, b bottom) bool { return a.name == b.name })
}

// statsOf returns the files with a disk's counters. Before Linux 6.1 the head of an NVMe multipath disk counts
// nothing, so its paths are read instead. This needs no change of the head's settings.
func (m machine) statsOf(name string, paths []string) []string {
	own := m.statFile(name)
	if len(paths) == 0 || strings.Trim(text(own), "0 ") != "" {
		return []string{own}
	}
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = m.statFile(p)
	}
	return out
}

func (m machine) statFile(name string) string {
	name = strings.ReplaceAll(name, "/", "!")
	if file := m.at("/sys/block/" + name + "/stat"); isFile(file) {
		return file
	}
	// A partition has no directory of its own there.
	if file := m.at("/sys/class/block/" + name + "/stat"); isFile(file) {
		return file
	}
	return m.at("/sys/block/" + name + "/stat")
}

// wholeDisks returns the disks of the machine that hold data: whole disks with a size, not made of other devices, not
// in memory.
func (m machine) wholeDisks() []string {
	var out []string
	block := m.at("/sys/block")
	for _, name := range names(block) {
		dir := filepath.Join(block, name)
		inMemory := strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") || strings.HasPrefix(name, "loop")
		isPath := text(filepath.Join(dir, "dev")) == ""
		if inMemory || isPath || number(filepath.Join(dir, "size")) == 0 || len(names(filepath.Join(dir, "slaves"))) > 0 {
			continue
		}
		out = append(out, strings.ReplaceAll(name, "!", "/"))
	}
	return out
}
