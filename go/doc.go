// SPDX-License-Identifier: MIT OR Apache-2.0

// Package iolens says what the disks of a machine do: bytes and I/Os per second, latency, I/Os in flight and busy time of
// each disk and of each mount path, from the kernel's counters or from a running `iolens serve`.
//
// It is pure Go without dependencies: no cgo, no program to start, no goroutine of its own.
//
//	set := iolens.NewSet(iolens.Options{})
//	defer set.Close()
//	if err := set.AddPath("/data"); err != nil { ... }
//
//	percent, err := set.Percent("/data") // any goroutine, at any time: tens of nanoseconds
//
//	view := set.Now()                    // all disks and paths of one refresh
//	defer view.Release()
//	group, err := view.Group("/data")
//
// A figure that is not known is NaN, never 0, and a disk that cannot be read is an error. Figures are equal to those of
// iolens' Rust library to the last digit. On systems other than Linux every disk is [ErrUnsupported].
package iolens
