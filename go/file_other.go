// SPDX-License-Identifier: MIT OR Apache-2.0

// Stands in for the Linux system calls on other systems, where every disk is ErrUnsupported.

//go:build !linux

package iolens

import "errors"

type kernelFile struct {
	path     string
	ordinary bool
	opened   uint32
}

func (f *kernelFile) read([]byte) (int, error)    { return 0, ErrUnsupported }
func (f *kernelFile) readAll([]byte) (int, error) { return 0, ErrUnsupported }
func (f *kernelFile) close()                      {}

func isGone(error) bool { return false }

func blockDevice(string) (devID, bool) { return devID{}, false }

type mountWatch struct{}

func newMountWatch() *mountWatch  { return nil }
func (*mountWatch) changed() bool { return false }
func (*mountWatch) close()        {}

type stream struct{}

var errWouldWait = errors.New("nothing has come")

func dial(string, []byte) (*stream, error) { return nil, ErrUnsupported }
func (*stream) read([]byte) (int, error)   { return 0, ErrUnsupported }
func (*stream) close()                     {}

const supported = false
