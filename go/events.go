// SPDX-License-Identifier: MIT OR Apache-2.0

// Exact values from the live events of a running `iolens serve`, which replace those of the kernel's counters.

package iolens

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unsafe"
)

// slotS is the length of the slots that a running `iolens serve` sends, in seconds.
const slotS = 0.1

// maxEventNs is how long the last slots of a disk are used if no new ones arrive.
const maxEventNs = 3_000_000_000

const liveRequest = "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"

// slotSums are the sums of a device's slots since the last take.
type slotSums struct {
	slots            int
	busyPercent      float64 // summed over slots
	inFlight         float64 // the same
	read, write      slotClass
	lossy, isUnknown bool
	endUnixS         float64
}

type slotClass struct{ ios, bytes, totalUs float64 }

// events reads the stream of a running `iolens serve`, with a slot per device and 100 ms, without blocking.
type events struct {
	socket  string
	stream  *stream
	retryNs int64
	err     error
	buffer  []byte
	http    chunkReader
	isSlot  bool
	missed  bool
	devices map[string]*slotSums
	each    func(line []byte)
}

func newEvents(socket string) *events {
	e := &events{socket: socket, buffer: make([]byte, 64<<10), devices: map[string]*slotSums{}}
	e.each = e.line
	return e
}

// poll reads what has arrived. After an error it reconnects, once a second.
func (e *events) poll(now int64) {
	if e.stream == nil {
		if now < e.retryNs {
			return
		}
		e.retryNs = now + int64(time.Second)
		stream, err := dial(e.socket, []byte(liveRequest))
		if err != nil {
			e.err = fmt.Errorf("%s: %w", e.socket, err)
			return
		}
		e.stream, e.err, e.isSlot = stream, nil, false
		e.http = chunkReader{line: e.http.line[:0], event: e.http.event[:0]}
		for _, d := range e.devices {
			*d = slotSums{}
		}
	}
	for {
		n, err := e.stream.read(e.buffer)
		if n == 0 && err == nil {
			err = errors.New("the service has closed the connection")
		}
		if errors.Is(err, errWouldWait) {
			return
		}
		if err == nil {
			err = e.http.take(e.buffer[:n], e.each)
		}
		if err != nil {
			e.fail(err)
			return
		}
		if n < len(e.buffer) {
			return
		}
	}
}

func (e *events) fail(err error) {
	e.err = fmt.Errorf("%s: %w", e.socket, err)
	e.close()
}

func (e *events) close() {
	if e.stream != nil {
		e.stream.close()
		e.stream = nil
	}
}

// line processes a line of server-sent events.
func (e *events) line(line []byte) {
	if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
		e.isSlot = string(name) == "slot"
		e.missed = e.missed || string(name) == "missed"
		return
	}
	if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && e.isSlot {
		e.slot(data)
	}
}

// slot adds the row of one device and 100 ms.
func (e *events) slot(row []byte) {
	var s slotSums
	var device []byte
	var rPerS, rKiB, rUs, wPerS, wKiB, wUs float64
	flat(row, func(key, value []byte) {
		switch string(key) {
		case "device":
			device = value
		case "lossy":
			s.lossy = string(value) == "true"
		case "busy_percent":
			s.busyPercent = float(value)
		case "inflight_mean":
			s.inFlight = float(value)
		case "time_s":
			s.endUnixS = float(value)
		case "r_per_s":
			rPerS = float(value)
		case "r_kib_per_s":
			rKiB = float(value)
		case "r_us":
			rUs = float(value)
		case "w_per_s":
			wPerS = float(value)
		case "w_kib_per_s":
			wKiB = float(value)
		case "w_us":
			wUs = float(value)
		}
	})
	if device == nil {
		return
	}
	d := e.devices[string(device)]
	if d == nil {
		d = &slotSums{}
		e.devices[string(device)] = d
	}
	d.slots++
	d.busyPercent += s.busyPercent
	d.inFlight += s.inFlight
	d.read.add(rPerS, rKiB, rUs)
	d.write.add(wPerS, wKiB, wUs)
	d.lossy = d.lossy || s.lossy || e.missed
	d.endUnixS = s.endUnixS
	e.missed = false
}

// add converts the rates of a slot back to whole I/Os and bytes.
func (c *slotClass) add(perS, kibPerS, meanUs float64) {
	ios := math.Round(perS * slotS)
	c.ios += ios
	c.bytes += math.Round(kibPerS * 1024 * slotS)
	if ios > 0 {
		c.totalUs += meanUs * ios
	}
}

func (c *slotClass) rate(spanS float64) ClassRate {
	r := ClassRate{
		IOs: c.ios, PerSecond: c.ios / spanS, BytesPerS: c.bytes / spanS,
		MergesPerS: NaN, MergedPercent: NaN, AwaitMs: NaN, RequestBytes: NaN,
	}
	if c.ios > 0 {
		r.AwaitMs, r.RequestBytes = c.totalUs/c.ios/1e3, c.bytes/c.ios
	}
	return r
}

// take returns the exact rate of a device over the slots since the last take; false if there were none. Values that
// slots do not contain (discards, flushes, the current number in flight) are those of the counters.
func (e *events) take(device string, counters *Rate) (Rate, float64, bool) {
	d := e.devices[device]
	if d == nil || d.slots == 0 {
		return Rate{}, 0, false
	}
	spanS := float64(d.slots) * slotS
	out := *counters
	out.Reset, out.NotAccounted, out.Lossy = false, false, d.lossy
	out.Span = time.Duration(d.slots) * 100 * time.Millisecond
	out.Read, out.Write = d.read.rate(spanS), d.write.rate(spanS)
	both := slotClass{
		d.read.ios + d.write.ios, d.read.bytes + d.write.bytes, d.read.totalUs + d.write.totalUs,
	}
	all := both.rate(spanS)
	out.AwaitMs, out.RequestBytes = all.AwaitMs, all.RequestBytes
	out.InFlightMean = d.inFlight / float64(d.slots)
	out.Busy = Busy{
		Percent: min(d.busyPercent/float64(d.slots), 100), TicksPercent: counters.Busy.TicksPercent,
		SigmaPercent: NaN, Method: MethodEvents, Span: out.Span,
	}
	end := d.endUnixS
	*d = slotSums{}
	return out, end, true
}

// float parses a JSON number; null is NaN.
func float(value []byte) float64 {
	if len(value) == 0 {
		return NaN
	}
	// The text is only used during the call.
	v, err := strconv.ParseFloat(unsafe.String(&value[0], len(value)), 64)
	if err != nil {
		return NaN
	}
	return v
}

// flat calls each for the keys and values of a flat JSON object; strings are passed without quotes.
func flat(row []byte, each func(key, value []byte)) {
	i := 0
	quoted := func() []byte {
		start := i + 1
		for i++; i < len(row) && row[i] != '"'; i++ {
			if row[i] == '\\' {
				i++
			}
		}
		end := min(i, len(row))
		i++
		return row[min(start, end):end]
	}
	for i < len(row) {
		if row[i] != '"' {
			i++
			continue
		}
		key := quoted()
		for i < len(row) && (row[i] == ':' || row[i] == ' ') {
			i++
		}
		if i < len(row) && row[i] == '"' {
			each(key, quoted())
			continue
		}
		start := i
		for i < len(row) && row[i] != ',' && row[i] != '}' {
			i++
		}
		each(key, row[start:i])
	}
}

// chunkReader splits a chunked HTTP response into lines.
type chunkReader struct {
	state  chunkState
	line   []byte // of the protocol, as far as it has come
	event  []byte // of the body
	status bool
	left   int
}

type chunkState int

const (
	inHeaders chunkState = iota
	inSize
	inData
	inDataEnd
)

// maxLine is the maximum length kept of a line.
const maxLine = 64 << 10

// take processes received bytes, and calls each for each whole line of the body.
func (c *chunkReader) take(data []byte, each func(line []byte)) error {
	for len(data) > 0 {
		if c.state == inData {
			n := min(c.left, len(data))
			c.body(data[:n], each)
			c.left -= n
			data = data[n:]
			if c.left == 0 {
				c.state = inDataEnd
			}
			continue
		}
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		c.line = keep(c.line, line)
		data = rest
		if !whole {
			return nil
		}
		err := c.protocol(bytes.TrimSuffix(c.line, []byte{'\r'}))
		c.line = c.line[:0]
		if err != nil {
			return err
		}
	}
	return nil
}

// protocol processes a line of the header or of the chunk framing.
func (c *chunkReader) protocol(line []byte) error {
	switch c.state {
	case inHeaders:
		if !c.status {
			c.status = true
			if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
				return fmt.Errorf("the service answered %q", line)
			}
		}
		if len(line) == 0 {
			c.state = inSize
		}
	case inSize:
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil || size == 0 {
			return errors.New("the service has ended its answer")
		}
		c.left, c.state = int(size), inData
	case inDataEnd:
		c.state = inSize
	}
	return nil
}

func keep(line, part []byte) []byte {
	if len(line)+len(part) > maxLine {
		return line
	}
	return append(line, part...)
}

// body splits the body into lines; a line may span several chunks.
func (c *chunkReader) body(data []byte, each func(line []byte)) {
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		c.event = keep(c.event, line)
		data = rest
		if whole {
			each(c.event)
			c.event = c.event[:0]
		}
	}
}
