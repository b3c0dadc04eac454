// SPDX-License-Identifier: MIT OR Apache-2.0

// A background job in Go that brakes itself by the utilisation of the disks under a path.
//
//	cargo build --release -p iolens-capi
//	go build && LD_LIBRARY_PATH=../../target/release ./signal /data
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../crates/capi/include
#cgo LDFLAGS: -L${SRCDIR}/../../target/release -liolens_signal
#include <stdlib.h>
#include "iolens_signal.h"
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"
	"unsafe"
)

// Signal says how busy the disks under a path are. Its methods may be called by any goroutine.
type Signal struct{ handle *C.iolens_signal }

// Open opens the signal of a file, directory or block device.
func Open(path string) (*Signal, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [256]C.char
	handle := C.iolens_signal_open(name, 0, 0, &text[0], C.size_t(len(text)))
	if handle == nil {
		return nil, fmt.Errorf("%s", C.GoString(&text[0]))
	}
	return &Signal{handle}, nil
}

// Percent is the cached utilisation of the busiest disk; false: not known yet.
func (s *Signal) Percent() (float64, bool) {
	p := float64(C.iolens_signal_percent(s.handle))
	return p, !math.IsNaN(p)
}

// Close frees it.
func (s *Signal) Close() { C.iolens_signal_close(s.handle) }

func main() {
	path := "."
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	if uint32(C.iolens_abi_version()) != C.IOLENS_ABI_VERSION {
		fmt.Fprintln(os.Stderr, "libiolens_signal is of another version than the header")
		os.Exit(1)
	}
	signal, err := Open(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer signal.Close()

	// Many workers share one signal; asking costs nanoseconds, so each may ask before every object.
	var workers sync.WaitGroup
	for w := 0; w < 4; w++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := 0; i < 20; i++ {
				if percent, known := signal.Percent(); known && percent > 80 {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	workers.Wait()
	percent, known := signal.Percent()
	fmt.Printf("busiest disk %.1f %%, known %v\n", percent, known)
}
