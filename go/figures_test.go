// SPDX-License-Identifier: MIT OR Apache-2.0

package iolens

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fixture reads a file that the Rust tests wrote, and compare with what the Rust library computes.
func fixture(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../fixtures/signal", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

type classFigures struct {
	IOs           *float64 `json:"ios"`
	PerS          *float64 `json:"per_s"`
	BytesPerS     *float64 `json:"bytes_per_s"`
	MergesPerS    *float64 `json:"merges_per_s"`
	MergedPercent *float64 `json:"merged_percent"`
	AwaitMs       *float64 `json:"await_ms"`
	RequestBytes  *float64 `json:"request_bytes"`
}

type intervalFixture struct {
	What    string
	Release string
	Hz      *uint32
	IOStats *bool `json:"iostats"`
	Before  readingFixture
	After   readingFixture
	Figures struct {
		State                       string
		Read, Write, Discard, Flush classFigures
		AwaitMs                     *float64 `json:"await_ms"`
		RequestBytes                *float64 `json:"request_bytes"`
		InFlightMean                *float64 `json:"in_flight_mean"`
		InFlight                    uint64   `json:"in_flight"`
		Busy                        struct {
			Percent      *float64 `json:"percent"`
			TicksPercent *float64 `json:"io_ticks_percent"`
			SigmaPercent *float64 `json:"sigma_percent"`
			Method       Method   `json:"method"`
		}
	}
}

type readingFixture struct {
	AtNs int64 `json:"at_ns"`
	Stat string
}

func (r *readingFixture) sample(iostats *bool) *Sample {
	s := &Sample{At: r.AtNs, NotAccounted: iostats != nil && !*iostats}
	s.parse([]byte(r.Stat))
	return s
}

// same reports whether a figure has the bits of the expected one; null is NaN.
func same(got float64, want *float64) bool {
	if want == nil {
		return math.IsNaN(got)
	}
	return math.Float64bits(got) == math.Float64bits(*want) || got == *want
}

func TestFiguresAreThoseOfTheRustLibraryToTheLastDigit(t *testing.T) {
	var document struct{ Intervals []intervalFixture }
	fixture(t, "figures.json", &document)
	if len(document.Intervals) < 60 {
		t.Fatalf("only %d intervals", len(document.Intervals))
	}
	known := 0
	for i, c := range document.Intervals {
		hz := uint32(0)
		if c.Hz != nil {
			hz = *c.Hz
		}
		e := NewEstimator(c.Release, hz)
		r := e.Between(c.Before.sample(c.IOStats), c.After.sample(c.IOStats))
		check := func(name string, got float64, want *float64) {
			if want != nil {
				known++
			}
			if !same(got, want) {
				expected := any("unknown")
				if want != nil {
					expected = *want
				}
				t.Errorf("interval %d (%s, %s): %s is %v, in Rust %v", i, c.What, c.Release, name, got, expected)
			}
		}
		class := func(name string, got ClassRate, want classFigures) {
			check(name+".ios", got.IOs, want.IOs)
			check(name+".per_s", got.PerSecond, want.PerS)
			check(name+".bytes_per_s", got.BytesPerS, want.BytesPerS)
			check(name+".merges_per_s", got.MergesPerS, want.MergesPerS)
			check(name+".merged_percent", got.MergedPercent, want.MergedPercent)
			check(name+".await_ms", got.AwaitMs, want.AwaitMs)
			check(name+".request_bytes", got.RequestBytes, want.RequestBytes)
		}
		f := &c.Figures
		class("read", r.Read, f.Read)
		class("write", r.Write, f.Write)
		class("discard", r.Discard, f.Discard)
		class("flush", r.Flush, f.Flush)
		check("await_ms", r.AwaitMs, f.AwaitMs)
		check("request_bytes", r.RequestBytes, f.RequestBytes)
		check("in_flight_mean", r.InFlightMean, f.InFlightMean)
		check("busy.io_ticks_percent", r.Busy.TicksPercent, f.Busy.TicksPercent)
		check("busy.sigma_percent", r.Busy.SigmaPercent, f.Busy.SigmaPercent)
		if f.Busy.Method == MethodCorrected {
			// Each language has its own exp, right to a unit in the last place.
			if math.Abs(r.Busy.Percent-*f.Busy.Percent) > 1e-12*100 {
				t.Errorf("interval %d: busy is %v, in Rust %v", i, r.Busy.Percent, *f.Busy.Percent)
			}
		} else {
			check("busy.percent", r.Busy.Percent, f.Busy.Percent)
		}
		if r.Busy.Method != f.Busy.Method || r.InFlight != f.InFlight {
			t.Errorf("interval %d (%s): method %s, %d in flight; in Rust %s, %d", i, c.What, r.Busy.Method, r.InFlight, f.Busy.Method, f.InFlight)
		}
		if r.Reset != (f.State == "restarted") || r.NotAccounted != (f.State == "not-accounted") {
			t.Errorf("interval %d (%s): reset %v, not accounted %v; in Rust %s", i, c.What, r.Reset, r.NotAccounted, f.State)
		}
	}
	if known < 1000 {
		t.Fatalf("only %d figures are known", known)
	}
}

func TestDisksTogetherAreThoseOfTheRustLibrary(t *testing.T) {
	var document struct {
		Combined []struct {
			Busy     []*float64 `json:"busy_percent"`
			Combined *struct {
				Mean *float64 `json:"mean_percent"`
				Max  *float64 `json:"max_percent"`
				Any  *float64 `json:"any_percent"`
			}
		}
	}
	fixture(t, "figures.json", &document)
	for _, c := range document.Combined {
		var busy []float64
		for _, b := range c.Busy {
			if b == nil {
				busy = append(busy, NaN)
			} else {
				busy = append(busy, *b)
			}
		}
		got := combine(busy)
		var mean, most, any *float64
		if c.Combined != nil {
			mean, most, any = c.Combined.Mean, c.Combined.Max, c.Combined.Any
		}
		if !same(got.mean, mean) || !same(got.max, most) || !same(got.any, any) {
			t.Errorf("%v: %+v, in Rust %+v", busy, got, c.Combined)
		}
	}
	if len(document.Combined) < 5 {
		t.Fatal("too few sets")
	}
}

// treeFixture is a lookup on a machine that a Rust test made.
type treeFixture struct {
	Tree  map[string]any
	Path  string
	Disks []struct {
		Name, Dev string
		Stats     []string
	}
	NoDisk *string `json:"no_disk"`
}

// plant makes the files of a tree under root: text, {"link": target}, or null for a directory.
func plant(t testing.TB, root string, tree map[string]any) {
	t.Helper()
	for path, value := range tree {
		at := filepath.Join(root, path)
		var err error
		if value == nil {
			err = os.MkdirAll(at, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
			switch value := value.(type) {
			case string:
				err = os.WriteFile(at, []byte(value), 0o644)
			case map[string]any:
				err = os.Symlink(filepath.Join(root, value["link"].(string)), at)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPathsHaveTheDisksThatTheRustLibraryFinds(t *testing.T) {
	files, err := filepath.Glob("../fixtures/signal/trees/*.json")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	lookups := 0
	for _, file := range files {
		var fixtures []treeFixture
		fixture(t, "trees/"+filepath.Base(file), &fixtures)
		for _, f := range fixtures {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			plant(t, root, f.Tree)
			r, err := machine{root}.resolver()
			if err != nil {
				t.Fatal(err)
			}
			at, err := r.place(f.Path)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, f.Path, err)
			}
			// The second lookup is that of a set that watches the path.
			for _, literal := range []bool{false, true} {
				r.literal = literal
				disks, err := r.disksOf(at)
				if (err != nil) != (f.NoDisk != nil) || err != nil && err.Error() != *f.NoDisk {
					t.Errorf("%s: %s: %v, in Rust %v", file, f.Path, err, f.NoDisk)
				}
				var got, want []string
				for _, d := range disks {
					got = append(got, d.name, d.dev.String())
					for _, s := range d.stats {
						got = append(got, strings.TrimPrefix(s, root))
					}
				}
				for _, d := range f.Disks {
					want = append(append(want, d.Name, d.Dev), d.Stats...)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %s (literal: %v): %q, in Rust %q", file, f.Path, literal, got, want)
				}
			}
			lookups++
		}
	}
	t.Logf("%d lookups", lookups)
}

func TestASetThatLooksAgainTouchesNoFileSystem(t *testing.T) {
	// What is not there would be an error of a lookup in the file system.
	for _, literal := range []bool{false, true} {
		r := resolver{machine: machine{t.TempDir()}, literal: literal}
		if path, ok := r.follow("/hangs/disk.img"); path != "/hangs/disk.img" || ok != literal {
			t.Fatal(path, ok)
		}
	}
}

func TestEstimatorsOfReleases(t *testing.T) {
	for release, want := range map[string]regime{
		"6.18.44-cloud-amd64": regimeSampled, "6.10.0-rc1": regimeSampled, "6.9.12": regimeStartTouches,
		"5.6.19": regimeTouched, "4.18.0-553.el8": regimeAllocated, "3.10.0": regimeRoundStats,
		"mainline": regimeUnknown, "": regimeUnknown, "6": regimeUnknown,
	} {
		if got := regimeOf(release); got != want {
			t.Errorf("%q: %v, not %v", release, got, want)
		}
	}
}
