// SPDX-License-Identifier: MIT OR Apache-2.0

// The set of disks and paths that a program watches: what is added, how often it is read, and Percent.

package iolens

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How often a set looks whether mounts and disks have changed.
const (
	watchNs   = int64(time.Second)
	resolveNs = 30 * int64(time.Second)
)

// maxViews is how many views a set keeps for reuse. If callers never release theirs, each refresh costs one
// allocation.
const maxViews = 8

// Options of a set. The zero value is good.
type Options struct {
	// Root is where the machine is seen: "/" if empty, "/host" in a container that has it there.
	Root string
	// Idle and Busy are the refresh intervals while disks are idle and while they are always busy, geometric in between:
	// 2 s and 100 ms if 0, at least 1 ms. Equal values give a constant interval.
	Idle, Busy time.Duration
	// Group is how the disks of a path are combined to one value.
	Group GroupBy
	// Own: also read the I/O of this process' control group. This reads one more file per refresh.
	Own bool
	// Serve is the socket of a running `iolens serve` (/run/iolens/iolens.sock). While it answers, values are exact.
	Serve string
	// Estimator overrides the estimator for the kernel under Root.
	Estimator *Estimator
}

// Set is the disks and paths that a program watches. All methods may be called by any goroutine at any time. Readers
// never block: the one that finds the readings too old refreshes them (one pread per disk, or one for all), all
// others get the last ones in the meantime. A set starts no goroutine.
type Set struct {
	options   Options
	machine   machine
	estimator *Estimator

	current atomic.Pointer[View]
	lay     atomic.Pointer[layout]
	dueNs   atomic.Int64

	// mu guards the following fields. It is held by a refresh and by changes of the set; readers never wait for it.
	mu         sync.Mutex
	views      []*View
	members    []*member
	pinned     []string // names added by Add
	paths      []pathDef
	all        bool
	table      table
	partitions seenFile
	mountTable seenFile
	readNs     int64
	watch      *mountWatch
	watchedNs  int64
	resolvedNs int64
	own        *ownReader
	ownErr     error
	events     *events
	closed     bool
}

// pathDef is a path that was added.
type pathDef struct {
	name    string
	place   place
	bottoms []bottom
	err     error
}

// member is a disk of the set.
type member struct {
	at          bottom
	disk        *Disk
	before, now Sample
	has         bool
	busyFrom    Sample // busy time is measured from here, over a jiffy at least
	busy        Busy
	row         []byte // its counters in the table of all disks; nil: they are in a file of their own
	err         error  // of the last reading
	problems    []*DiskError
	ownBefore   ownCounters
	ownNow      ownCounters
	exact       Rate
	exactEndNs  int64
	hasExact    bool
}

// layout is the list of disks and paths of a view; it is immutable.
type layout struct {
	members    []*member
	diskIndex  map[string]int
	groups     []groupDef
	groupIndex map[string]int
	// percent holds the bits of each group's value, for readers that need nothing else.
	percent []atomic.Uint64
}

type groupDef struct {
	path    string
	members []int
	names   []string
	err     error
}

// NewSet makes an empty set.
func NewSet(options Options) *Set {
	if options.Root == "" {
		options.Root = "/"
	}
	if options.Idle <= 0 {
		options.Idle = 2 * time.Second
	}
	if options.Busy <= 0 {
		options.Busy = 100 * time.Millisecond
	}
	options.Idle = max(options.Idle, time.Millisecond)
	options.Busy = min(max(options.Busy, time.Millisecond), options.Idle)
	s := &Set{options: options, machine: machine{options.Root}, estimator: options.Estimator}
	if s.estimator == nil {
		s.estimator = estimatorOf(options.Root)
	}
	if options.Root == "/" {
		s.watch = newMountWatch()
	}
	if options.Own {
		s.own, s.ownErr = s.machine.openOwn()
	}
	if options.Serve != "" {
		s.events = newEvents(options.Serve)
	}
	s.readNs = monotonicNs()
	s.watchedNs, s.resolvedNs = s.readNs, s.readNs
	s.table.file.path = s.machine.at("/proc/diskstats")
	s.partitions.path, s.mountTable.path = s.machine.at("/proc/partitions"), s.machine.at("/proc/1/mountinfo")
	s.rebuild()
	return s
}

// Add adds a disk or partition by name, node or number, as [Open].
func (s *Set) Add(dev string) error {
	disk, err := OpenUnder(s.options.Root, dev)
	if err != nil {
		return err
	}
	defer disk.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.pinned, disk.info.Name) {
		s.pinned = append(s.pinned, disk.info.Name)
	}
	s.rebuild()
	return nil
}

// AddAll adds all disks of the machine, also those that appear later: whole disks with a size that no other device is
// made of, and none in memory (ram, zram, loop).
func (s *Set) AddAll() error {
	if !supported {
		return ErrUnsupported
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = true
	s.rebuild()
	return nil
}

// AddPath adds the disks under a path: a file, a directory or a device node. A path that does not exist or is not on
// a disk (tmpfs, a network file system) is an error. The lookup may have to wait for the disk; readers are not
// blocked meanwhile.
func (s *Set) AddPath(path string) error {
	if !supported {
		return ErrUnsupported
	}
	r, err := s.machine.resolver()
	if err != nil {
		return err
	}
	at, err := r.place(path)
	if err != nil {
		return err
	}
	bottoms, err := r.disksOf(at)
	if err != nil {
		return &DiskError{path, err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	def := pathDef{name: path, place: at, bottoms: bottoms}
	if i := s.pathIndex(path); i >= 0 {
		s.paths[i] = def
	} else {
		s.paths = append(s.paths, def)
	}
	s.rebuild()
	return nil
}

func (s *Set) pathIndex(path string) int {
	return slices.IndexFunc(s.paths, func(p pathDef) bool { return p.name == path })
}

// Remove removes a path, or a disk that was added by its name. It returns false if there is none.
func (s *Set) Remove(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.pathIndex(name); i >= 0 {
		s.paths = slices.Delete(s.paths, i, i+1)
		s.rebuild()
		return true
	}
	name = strings.TrimPrefix(name, "/dev/")
	if i := slices.Index(s.pinned, name); i >= 0 {
		s.pinned = slices.Delete(s.pinned, i, i+1)
		s.rebuild()
		return true
	}
	return false
}

// Close closes all files. Views stay valid.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, m := range s.members {
		m.disk.Close()
	}
	s.table.file.close()
	if s.own != nil {
		s.own.close()
	}
	if s.events != nil {
		s.events.close()
	}
	if s.watch != nil {
		s.watch.close()
	}
}

// Now is the newest view; it refreshes itself when it is old. Call [View.Release] when done with it.
func (s *Set) Now() *View {
	if monotonicNs() >= s.dueNs.Load() {
		s.refresh(false)
	}
	return s.acquire()
}

// Refresh takes a new reading regardless of the age of the last one, unless another goroutine is taking one.
func (s *Set) Refresh() *View {
	s.refresh(true)
	return s.acquire()
}

// Percent is the busy time of a path or disk that was added, as [Group.Percent], for a program to check before each
// piece of work. If it is not known, the value is NaN, and the error says why.
func (s *Set) Percent(path string) (float64, error) {
	if monotonicNs() >= s.dueNs.Load() {
		s.refresh(false)
	}
	lay := s.lay.Load()
	if i, ok := lay.groupIndex[path]; ok {
		if p := math.Float64frombits(lay.percent[i].Load()); !math.IsNaN(p) {
			return p, nil
		}
	}
	view := s.acquire()
	defer view.Release()
	if g, err := view.Group(path); g != nil {
		if err == nil && math.IsNaN(g.Percent) {
			err = &DiskError{path, ErrNoInterval}
		}
		return g.Percent, err
	}
	r, err := view.Disk(path)
	if r == nil {
		return NaN, err
	}
	if err == nil && math.IsNaN(r.Rate.Busy.Percent) {
		err = &DiskError{path, ErrNoInterval}
	}
	return r.Rate.Busy.Percent, err
}

// acquire pins the current view.
func (s *Set) acquire() *View {
	for {
		v := s.current.Load()
		if !v.pin() {
			continue
		}
		if s.current.Load() == v {
			return v
		}
		v.Release()
	}
}

// claim returns a view that is not in use. The caller holds mu.
func (s *Set) claim() *View {
	current := s.current.Load()
	for _, v := range s.views {
		if v != current && v.refs.CompareAndSwap(0, writing) {
			return v
		}
	}
	v := &View{}
	v.refs.Store(writing)
	if len(s.views) == maxViews {
		// If a view was never released, its holder keeps it.
		oldest := slices.IndexFunc(s.views, func(o *View) bool { return o != current })
		s.views = slices.Delete(s.views, oldest, oldest+1)
	}
	s.views = append(s.views, v)
	return v
}

func (s *Set) refresh(always bool) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	now := monotonicNs()
	if s.closed || !always && now < s.dueNs.Load() {
		return
	}
	if s.lookDue(now) {
		s.look()
		now = monotonicNs()
	}
	if s.events != nil {
		s.events.poll(now)
	}
	s.table.read(s.members)
	for _, m := range s.members {
		m.read(now)
	}
	if s.own != nil {
		s.own.read(s.members)
	}
	s.readNs = now
	s.publish(s.lay.Load())
}

// read takes the disk's counters.
func (m *member) read(now int64) {
	m.before, m.now = m.now, m.before
	hadBefore := m.has
	m.now.At = now
	var err error
	if m.row != nil {
		m.now.parse(m.row)
		m.now.NotAccounted, m.now.generation = m.disk.notAccounted, m.before.generation
	} else {
		err = m.disk.readAt(&m.now)
	}
	m.has = err == nil
	switch {
	case err != nil:
		m.err = err
	case !hadBefore:
		m.err = m.problem(ErrNoInterval)
		m.busyFrom, m.busy = m.now, Busy{Percent: NaN, TicksPercent: NaN, SigmaPercent: NaN}
	default:
		m.err = nil
	}
}

// problem is an error of the disk, created once.
func (m *member) problem(err error) *DiskError {
	for _, known := range m.problems {
		if known.Err == err {
			return known
		}
	}
	m.problems = append(m.problems, &DiskError{m.at.name, err})
	return m.problems[len(m.problems)-1]
}

// publish creates the view of the readings. The caller holds mu.
func (s *Set) publish(lay *layout) {
	v := s.claim()
	v.lay, v.at = lay, s.readNs
	v.disks = resized(v.disks, len(lay.members))
	v.groups = resized(v.groups, len(lay.groups))
	busiest, unknown := 0.0, false
	for i, m := range lay.members {
		r := &v.disks[i]
		s.measure(m, r)
		unknown = unknown || r.Err != nil || math.IsNaN(r.Rate.Busy.Percent)
		busiest = max(busiest, r.Rate.Busy.Percent)
	}
	v.fillGroups(s.options.Group)
	v.errors = v.errors[:0]
	for i := range v.disks {
		if err := v.disks[i].Err; err != nil {
			v.errors = append(v.errors, err)
		}
	}
	for i := range lay.groups {
		if err := lay.groups[i].err; err != nil {
			v.errors = append(v.errors, err)
		}
		lay.percent[i].Store(math.Float64bits(v.groups[i].Percent))
	}
	if s.ownErr != nil {
		v.errors = append(v.errors, s.ownErr)
	}
	if s.events != nil && s.events.err != nil {
		v.errors = append(v.errors, s.events.err)
	}
	v.refs.Store(0)
	s.current.Store(v)
	s.lay.Store(lay)
	s.dueNs.Store(s.readNs + s.interval(busiest, unknown))
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// interval is geometric between Idle and Busy; it is short while something is not known.
func (s *Set) interval(busiest float64, unknown bool) int64 {
	idle, busy := float64(s.options.Idle), float64(s.options.Busy)
	if s.events != nil {
		// Data from the service must be read before its buffers are full.
		idle = min(idle, 500e6)
		busy = min(busy, idle)
	}
	if unknown || math.IsNaN(busiest) {
		return int64(busy)
	}
	return int64(idle * math.Pow(busy/idle, min(max(busiest, 0), 100)/100))
}

// measure makes the reading of a disk.
func (s *Set) measure(m *member, r *Reading) {
	*r = Reading{Info: &m.disk.info, Source: FromCounters, Own: unknownOwn, Err: m.err, endNs: m.now.At}
	if m.err != nil {
		r.Rate = unknownRate(0)
		m.hasExact = false
		return
	}
	r.Rate = s.estimator.Between(&m.before, &m.now)
	r.Rate.Busy = m.busyNow(s.estimator, &r.Rate)
	switch {
	case r.Rate.Reset:
		r.Err = m.problem(ErrReset)
	case r.Rate.NotAccounted:
		r.Err = m.problem(ErrNotAccounted)
	}
	if s.own != nil {
		r.Own = ownBetween(&m.ownBefore, &m.ownNow, r.Rate.Span, &r.Rate)
	}
	if s.events == nil || len(m.disk.info.Paths) > 0 {
		return
	}
	if exact, endUnixS, ok := s.events.take(m.at.name, &r.Rate); ok {
		age := float64(time.Now().UnixNano())/1e9 - endUnixS
		m.exact, m.exactEndNs, m.hasExact = exact, m.now.At-int64(age*1e9), true
	}
	if m.hasExact && s.events.stream != nil && m.now.At-m.exactEndNs < maxEventNs {
		inFlight := r.Rate.InFlight
		r.Rate, r.Source, r.Err, r.endNs = m.exact, FromEvents, nil, m.exactEndNs
		r.Rate.InFlight = inFlight
	}
}

// busyNow is busy time over at least two jiffies, because the kernel's counter has no finer resolution. In shorter
// intervals the last value is kept.
func (m *member) busyNow(e *Estimator, rate *Rate) Busy {
	if !rate.Known() {
		m.busyFrom = m.now
		m.busy = rate.Busy
		return rate.Busy
	}
	if m.now.At-m.busyFrom.At < int64(2*e.jiffy()) {
		return m.busy
	}
	if m.busyFrom.At == m.before.At {
		m.busy = rate.Busy
	} else {
		longer := e.Between(&m.busyFrom, &m.now)
		m.busy = longer.Busy
	}
	m.busyFrom = m.now
	return m.busy
}

// lookDue reports whether disks or mounts may have changed. The caller holds mu.
func (s *Set) lookDue(now int64) bool {
	if now-s.watchedNs < watchNs {
		return false
	}
	s.watchedNs = now
	due := now-s.resolvedNs >= resolveNs
	for _, m := range s.members {
		due = due || !m.has
	}
	for i := range s.paths {
		due = due || s.paths[i].err != nil
	}
	if s.watch != nil {
		due = s.watch.changed() || due
	} else if len(s.paths) > 0 {
		due = s.mountTable.changed() || due
	}
	if s.all {
		// This file lists what can hold data.
		due = s.partitions.changed() || due
	}
	return due
}

// seenFile is a file whose text is compared with that of the last time.
type seenFile struct {
	path      string
	last, now []byte
}

func (f *seenFile) changed() bool {
	file, err := os.Open(f.path)
	if err != nil {
		return true
	}
	defer file.Close()
	if f.now == nil {
		f.now = make([]byte, 64<<10)
	}
	n := 0
	for n < len(f.now) {
		got, err := file.Read(f.now[n:])
		n += got
		if err != nil {
			break
		}
	}
	if bytes.Equal(f.now[:n], f.last) {
		return false
	}
	f.last = append(f.last[:0], f.now[:n]...)
	return true
}

// look looks all paths up again. It only reads sysfs and procfs: access to a file system may have to wait for the
// disk that is measured.
func (s *Set) look() {
	s.resolvedNs = monotonicNs()
	r, err := s.machine.resolver()
	if err != nil {
		return
	}
	r.literal = true
	for i := range s.paths {
		p := &s.paths[i]
		bottoms, err := r.disksOf(p.place)
		if err != nil {
			// The last disks are kept, with their own errors.
			p.err = &DiskError{p.name, err}
			continue
		}
		p.bottoms, p.err = bottoms, nil
	}
	s.rebuild()
}

// rebuild creates the layout of what was added; disks that stay keep their readings. The caller holds mu, or is the
// only one with access to the set.
func (s *Set) rebuild() {
	if s.closed {
		return
	}
	wanted := map[string]bottom{}
	for _, p := range s.paths {
		for _, b := range p.bottoms {
			wanted[b.name] = b
		}
	}
	for _, name := range s.pinned {
		if b, ok := s.found(name); ok {
			wanted[name] = b
		}
	}
	if s.all {
		for _, name := range s.machine.wholeDisks() {
			if b, ok := s.found(name); ok {
				wanted[name] = b
			}
		}
	}
	old := s.members
	s.members = nil
	for name, b := range wanted {
		s.members = append(s.members, s.memberOf(old, name, b))
	}
	for _, m := range old {
		if !slices.Contains(s.members, m) {
			m.disk.Close()
		}
	}
	s.table.rows = nil
	slices.SortFunc(s.members, func(a, b *member) int { return strings.Compare(a.at.name, b.at.name) })
	s.publish(s.layoutOf())
	// The first interval ends soon.
	s.dueNs.Store(monotonicNs() + int64(s.options.Busy))
}

// found is a disk by its kernel name; a lost one is returned unchanged.
func (s *Set) found(name string) (bottom, bool) {
	disk, err := OpenUnder(s.options.Root, name)
	if err != nil {
		for _, m := range s.members {
			if m.at.name == name {
				return m.at, true
			}
		}
		return bottom{name: name, stats: []string{s.machine.statFile(name)}}, slices.Contains(s.pinned, name)
	}
	defer disk.Close()
	stats := make([]string, len(disk.files))
	for i := range disk.files {
		stats[i] = disk.files[i].path
	}
	return bottom{name: name, dev: disk.dev, stats: stats}, true
}

// memberOf returns the existing member, or a new one.
func (s *Set) memberOf(old []*member, name string, b bottom) *member {
	for _, m := range old {
		if m.at.name == name && m.at.dev == b.dev && slices.Equal(m.at.stats, b.stats) {
			m.disk.describe()
			return m
		}
	}
	m := &member{at: b, disk: &Disk{machine: s.machine, dev: b.dev, info: Info{Name: name, Dev: b.dev.String()}}}
	for _, path := range b.stats {
		m.disk.files = append(m.disk.files, kernelFile{path: path})
		if len(b.stats) > 1 {
			m.disk.info.Paths = append(m.disk.info.Paths, filepath.Base(filepath.Dir(path)))
		}
	}
	m.disk.describe()
	m.read(monotonicNs())
	if s.own != nil {
		s.own.read([]*member{m})
	}
	return m
}

func (s *Set) layoutOf() *layout {
	lay := &layout{members: s.members, diskIndex: map[string]int{}, groupIndex: map[string]int{}}
	for i, m := range s.members {
		lay.diskIndex[m.at.name] = i
	}
	for i, p := range s.paths {
		def := groupDef{path: p.name, err: p.err}
		for _, b := range p.bottoms {
			def.members = append(def.members, lay.diskIndex[b.name])
			def.names = append(def.names, b.name)
		}
		lay.groupIndex[p.name] = i
		lay.groups = append(lay.groups, def)
	}
	lay.percent = make([]atomic.Uint64, len(lay.groups))
	for i := range lay.percent {
		lay.percent[i].Store(math.Float64bits(NaN))
	}
	return lay
}
