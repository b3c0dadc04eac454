// SPDX-License-Identifier: MIT OR Apache-2.0

// Package aistore has the method set of the interface IOS of NVIDIA AIStore's package ios, on the module iolens: rates over
// the time that really passed, a lost disk that is never the idlest one, and no allocation in a refresh.
//
// In AIStore's tree the types below are its own: Label is cos.MountpathLabel, Config *cmn.Config, BlockDevs
// ios.BlockDevs, DiskStats cos.DiskStats; they are parameters here, so that this compiles without AIStore.
package aistore

import (
	"errors"
	"fmt"
	"log"
	"math"
	"slices"
	"sync"

	"iolens.example/iolens"
)

type (
	// FsDisks are the disks of a mount path, with their sector sizes.
	FsDisks map[string]int64

	// DiskStats are whole numbers: bytes per second, mean sizes in bytes, percent.
	DiskStats struct{ RBps, Ravg, WBps, Wavg, Util int64 }

	// AllDiskStats are those of all disks.
	AllDiskStats map[string]DiskStats

	// MpathUtil is the utilisation of all mount paths.
	MpathUtil sync.Map

	// RescanDisksResult is what has changed under a mount path.
	RescanDisksResult struct {
		FsDisks  FsDisks
		Fatal    error
		Lost     []error
		Attached []error
	}

	// IOS is the interface that AIStore's targets use.
	IOS[Label ~string, Config, BlockDevs any] interface {
		GetAllMpathUtils() *MpathUtil
		GetMpathUtil(mpath string) int64
		AddMpath(mpath, fsname string, label Label, config Config, blockDevs BlockDevs) (FsDisks, error)
		RescanDisks(mpath, fsname string, disks []string) RescanDisksResult
		RemoveMpath(mpath string, testingEnv bool)
		DiskStats(m AllDiskStats)
	}
)

// Worst is the utilisation of a mount path of which something is not known: it is never chosen.
const Worst = 100

// Get is the utilisation of a mount path; the worst if it is not known.
func (x *MpathUtil) Get(mpath string) int64 {
	if v, ok := (*sync.Map)(x).Load(mpath); ok {
		return v.(int64)
	}
	return Worst
}

// Adapter is an IOS. Its methods may be called by any goroutine.
type Adapter[Label ~string, Config, BlockDevs any] struct {
	set    *iolens.Set
	utils  MpathUtil
	mu     sync.Mutex
	mpaths map[string]FsDisks
}

var _ IOS[string, any, any] = (*Adapter[string, any, any])(nil)

// New makes an IOS. AIStore's own figure is the mean over the disks of a mount path (iolens.Mean), in which one hot disk
// hides; iolens.Max is the busiest.
func New[Label ~string, Config, BlockDevs any](options iolens.Options) *Adapter[Label, Config, BlockDevs] {
	return &Adapter[Label, Config, BlockDevs]{set: iolens.NewSet(options), mpaths: map[string]FsDisks{}}
}

// Close closes the files.
func (a *Adapter[L, C, B]) Close() { a.set.Close() }

// percent is a whole number; what is not known is the worst.
func percent(p float64, err error) int64 {
	if err != nil || math.IsNaN(p) {
		return Worst
	}
	return int64(math.Round(p))
}

// GetMpathUtil is what a target asks before it chooses a copy.
func (a *Adapter[L, C, B]) GetMpathUtil(mpath string) int64 {
	return percent(a.set.Percent(mpath))
}

// GetAllMpathUtils is the same of all mount paths.
func (a *Adapter[L, C, B]) GetAllMpathUtils() *MpathUtil {
	view := a.set.Now()
	defer view.Release()
	m := (*sync.Map)(&a.utils)
	for _, g := range view.Groups() {
		now := percent(g.Percent, g.Err)
		// A value that stays is not stored again: a map of any allocates.
		if was, ok := m.Load(g.Path); !ok || was.(int64) != now {
			m.Store(g.Path, now)
		}
	}
	return &a.utils
}

// AddMpath adds a mount path. A path on no disk is an error unless it has a label, as in AIStore.
func (a *Adapter[L, C, B]) AddMpath(mpath, fsname string, label L, _ C, _ B) (FsDisks, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.mpaths[mpath]; ok {
		return nil, fmt.Errorf("duplicate mountpath %s (disks %v)", mpath, old.names())
	}
	if err := a.set.AddPath(mpath); err != nil {
		if label != "" {
			log.Printf("%s (%s, label %s): %v", mpath, fsname, label, err)
			return FsDisks{}, nil
		}
		return nil, err
	}
	disks, err := a.disksOf(mpath)
	if err != nil {
		a.set.Remove(mpath)
		return nil, err
	}
	for other, has := range a.mpaths {
		for disk := range disks {
			if _, shared := has[disk]; shared && label == "" {
				a.set.Remove(mpath)
				return nil, fmt.Errorf("disk %s is shared between mountpaths %s and %s", disk, mpath, other)
			}
		}
	}
	a.mpaths[mpath] = disks
	return disks, nil
}

func (d FsDisks) names() []string {
	out := make([]string, 0, len(d))
	for name := range d {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// disksOf are the disks that a mount path has now.
func (a *Adapter[L, C, B]) disksOf(mpath string) (FsDisks, error) {
	view := a.set.Refresh()
	defer view.Release()
	group, err := view.Group(mpath)
	if group == nil {
		return nil, err
	}
	disks := FsDisks{}
	for _, name := range group.Disks {
		disk, err := view.Disk(name)
		if errors.Is(err, iolens.ErrLost) {
			continue
		}
		disks[name] = int64(disk.Info.PhysicalBytes)
	}
	return disks, nil
}

// RescanDisks says which disks of a mount path are lost, and which came.
func (a *Adapter[L, C, B]) RescanDisks(mpath, fsname string, disks []string) (out RescanDisksResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Adding it again looks it up again, wherever it is mounted by now.
	if err := a.set.AddPath(mpath); err != nil {
		out.Fatal = err
		return out
	}
	if out.FsDisks, out.Fatal = a.disksOf(mpath); out.Fatal != nil {
		return out
	}
	for _, disk := range disks {
		if _, ok := out.FsDisks[disk]; !ok {
			out.Lost = append(out.Lost, fmt.Errorf("%s (%s): lost disk %s of %v, has %v", mpath, fsname, disk, disks, out.FsDisks.names()))
		}
	}
	for _, disk := range out.FsDisks.names() {
		if !slices.Contains(disks, disk) {
			out.Attached = append(out.Attached, fmt.Errorf("%s (%s): new disk %s beside %v", mpath, fsname, disk, disks))
		}
	}
	a.mpaths[mpath] = out.FsDisks
	return out
}

// RemoveMpath removes a mount path.
func (a *Adapter[L, C, B]) RemoveMpath(mpath string, _ bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mpaths, mpath)
	a.set.Remove(mpath)
	(*sync.Map)(&a.utils).Delete(mpath)
}

// DiskStats fills the map. A disk of which nothing is known is not in it.
func (a *Adapter[L, C, B]) DiskStats(m AllDiskStats) {
	view := a.set.Now()
	defer view.Release()
	clear(m)
	for i := range view.Disks() {
		d := &view.Disks()[i]
		if d.Err != nil {
			continue
		}
		r := &d.Rate
		m[d.Info.Name] = DiskStats{
			RBps: whole(r.Read.BytesPerS), Ravg: whole(r.Read.RequestBytes),
			WBps: whole(r.Write.BytesPerS), Wavg: whole(r.Write.RequestBytes),
			Util: percent(r.Busy.Percent, nil),
		}
	}
}

// whole is a rate without its fraction; a mean over no I/O is 0 there.
func whole(v float64) int64 {
	if math.IsNaN(v) {
		return 0
	}
	return int64(math.Round(v))
}
