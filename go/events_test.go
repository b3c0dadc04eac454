// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package iolens

import (
	"bytes"
	"encoding/json"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recordedLive is what a running `iolens serve` sent while dd wrote and read: bytes as they were on the socket.
func recordedLive(t testing.TB) []byte {
	data, err := os.ReadFile("../fixtures/signal/live.http")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// row is a slot, read by the library of the language instead of the scanner of this package.
type row struct {
	Device   string
	Lossy    bool
	Busy     float64  `json:"busy_percent"`
	InFlight float64  `json:"inflight_mean"`
	TimeS    float64  `json:"time_s"`
	RPerS    float64  `json:"r_per_s"`
	RKiB     float64  `json:"r_kib_per_s"`
	RUs      *float64 `json:"r_us"`
	WPerS    float64  `json:"w_per_s"`
	WKiB     float64  `json:"w_kib_per_s"`
}

func recordedRows(t testing.TB, raw []byte) []row {
	var rows []row
	for _, line := range strings.Split(string(raw), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var r row
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				t.Fatal(err, data)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// service answers on a unix socket with the bytes, in pieces of a size, as often as it is asked.
func service(t testing.TB, raw []byte, piece int) string {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				request := make([]byte, 4096)
				n, _ := conn.Read(request)
				if !bytes.HasPrefix(request[:n], []byte("GET /api/v1/live HTTP/1.1\r\n")) {
					conn.Close()
					return
				}
				for at := 0; at < len(raw); at += piece {
					_, _ = conn.Write(raw[at:min(at+piece, len(raw))])
				}
				// It stays open, as the service does.
			}()
		}
	}()
	return socket
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestSlotsOfARunningServiceAddUpExactly(t *testing.T) {
	raw := recordedLive(t)
	isLossy := false
	var want struct{ slots, reads, readBytes, readUs, writes, writeBytes, busy, inFlight, end float64 }
	for _, r := range recordedRows(t, raw) {
		if r.Device != "vda" {
			continue
		}
		want.slots++
		isLossy = isLossy || r.Lossy
		want.reads += r.RPerS * 0.1
		want.readBytes += r.RKiB * 102.4
		if r.RUs != nil {
			want.readUs += *r.RUs * r.RPerS * 0.1
		}
		want.writes += r.WPerS * 0.1
		want.writeBytes += r.WKiB * 102.4
		want.busy += r.Busy
		want.inFlight += r.InFlight
		want.end = r.TimeS
	}
	if want.slots < 10 || want.reads < 300 || want.writes < 20 {
		t.Fatalf("the recording has too little: %+v", want)
	}
	for _, piece := range []int{1, 7, 1000, len(raw)} {
		e := newEvents(service(t, raw, piece))
		defer e.close()
		deadline := time.Now().Add(time.Minute)
		for d := (*slotSums)(nil); d == nil || d.endUnixS != want.end; d = e.devices["vda"] {
			if e.stream != nil {
				e.stream.wait(10 * time.Millisecond)
			}
			e.poll(monotonicNs())
			if e.err != nil || time.Now().After(deadline) {
				t.Fatal(e.err, d)
			}
		}
		counters := unknownRate(time.Second)
		rate, end, ok := e.take("vda", &counters)
		spanS := want.slots / 10
		if !ok || end != want.end || rate.Span != time.Duration(want.slots)*100*time.Millisecond || rate.Busy.Method != MethodEvents {
			t.Fatalf("pieces of %d: %+v", piece, rate)
		}
		if rate.Lossy != isLossy || !isLossy {
			t.Errorf("pieces of %d: lossy is %v", piece, rate.Lossy)
		}
		pairs := map[string][2]float64{
			"reads": {rate.Read.PerSecond, want.reads / spanS}, "read bytes": {rate.Read.BytesPerS, want.readBytes / spanS},
			"read await": {rate.Read.AwaitMs, want.readUs / want.reads / 1e3}, "read size": {rate.Read.RequestBytes, want.readBytes / want.reads},
			"writes": {rate.Write.PerSecond, want.writes / spanS}, "write bytes": {rate.Write.BytesPerS, want.writeBytes / spanS},
			"busy": {rate.Busy.Percent, want.busy / want.slots}, "in flight": {rate.InFlightMean, want.inFlight / want.slots},
		}
		for name, pair := range pairs {
			if !near(pair[0], pair[1]) {
				t.Errorf("pieces of %d: %s is %v, not %v", piece, name, pair[0], pair[1])
			}
		}
		if _, _, ok := e.take("vda", &counters); ok {
			t.Error("slots are taken once")
		}
	}
}

func TestEventsThatWereMissedMakeTheNextSlotLossy(t *testing.T) {
	e := newEvents("unused")
	slot := []byte(`data: {"busy_percent":1.0,"device":"sda","inflight_mean":0.0,"lossy":false,"r_kib_per_s":0.0,"r_per_s":0.0,"r_us":null,"time_s":1.0,"w_kib_per_s":0.0,"w_per_s":0.0,"w_us":null}`)
	counters := unknownRate(time.Second)
	for _, missed := range []bool{false, true, false} {
		if missed {
			e.line([]byte("event: missed"))
			e.line([]byte("data: 7"))
		}
		e.line([]byte("event: slot"))
		e.line(slot)
		if rate, _, ok := e.take("sda", &counters); !ok || rate.Lossy != missed {
			t.Fatalf("missed %v: %+v", missed, rate)
		}
	}
}

// shifted moves the recording's time to now, keeping the length of each line.
func shifted(t *testing.T, raw []byte) []byte {
	rows := recordedRows(t, raw)
	last := rows[len(rows)-1].TimeS
	out := raw
	for _, r := range rows {
		old, err := json.Marshal(r.TimeS)
		must(t, err)
		now, err := json.Marshal(float64(time.Now().UnixNano())/1e9 + r.TimeS - last)
		must(t, err)
		for len(now) < len(old) {
			now = append(now, '0')
		}
		out = bytes.ReplaceAll(out, old, now[:len(old)])
	}
	return out
}

func TestASetTakesEventsWhereTheyComeAndCountersElse(t *testing.T) {
	m := newMachine(t)
	raw := bytes.ReplaceAll(recordedLive(t), []byte(`"device":"vda"`), []byte(`"device":"sda"`))
	s := m.set(Options{Serve: service(t, shifted(t, raw), 997)})
	must(t, s.Add("sda"))
	must(t, s.Add("sdb"))
	deadline := time.Now().Add(time.Minute)
	for {
		pass()
		v := s.Refresh()
		a, err := v.Disk("sda")
		b, errB := v.Disk("sdb")
		if err == nil && a.Source == FromEvents {
			if errB != nil || b.Source != FromCounters || a.Rate.Busy.Method != MethodEvents || a.Rate.Read.PerSecond == 0 && a.Rate.Write.PerSecond == 0 {
				t.Fatalf("%+v %+v", a, b)
			}
			v.Release()
			break
		}
		v.Release()
		if time.Now().After(deadline) {
			t.Fatal(a, err, v.Errors())
		}
	}
}

func TestAServiceThatIsNotThereOrRefusesIsAnErrorAndCountersGoOn(t *testing.T) {
	refusal := "HTTP/1.1 422 Unprocessable Entity\r\ncontent-length: 0\r\n\r\n"
	for what, socket := range map[string]string{
		"no such file": filepath.Join(t.TempDir(), "none"),
		"422":          service(t, []byte(refusal), 1000),
	} {
		m := newMachine(t)
		s := m.set(Options{Serve: socket})
		must(t, s.Add("sda"))
		deadline := time.Now().Add(time.Minute)
		for {
			pass()
			v := s.Refresh()
			r, err := v.Disk("sda")
			if err != nil || r.Source != FromCounters {
				t.Fatal(r, err)
			}
			if errs := v.Errors(); len(errs) == 1 && strings.Contains(errs[0].Error(), what) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(what, v.Errors())
			}
			v.Release()
		}
	}
}
