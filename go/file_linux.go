// SPDX-License-Identifier: MIT OR Apache-2.0

// Linux system calls: reads sysfs and procfs files, detects changed mounts, connects to the socket of `iolens serve`.

package iolens

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Magic numbers of the kernel's virtual file systems (statfs(2)).
const (
	procMagic  = 0x9fa0
	sysfsMagic = 0x62656572
)

// kernelFile is a small file of sysfs or procfs that is read repeatedly through one descriptor. One pread at offset 0
// makes the kernel print it again.
type kernelFile struct {
	path string
	fd   int
	open bool
	// ordinary: a file of a saved tree, which may be replaced by another one of its name.
	ordinary bool
	// opened counts how often it was opened.
	opened uint32
}

// read fills buf and returns how many bytes the file has, at most len(buf). If the device is gone, the file is opened
// again, which finds a device that came back under the same name.
func (f *kernelFile) read(buf []byte) (int, error) {
	if f.open && f.ordinary && f.replaced() {
		f.close()
	}
	if f.open {
		if n, err := f.pread(buf); err == nil {
			return n, nil
		}
		f.close()
	}
	if err := f.openFile(); err != nil {
		return 0, err
	}
	n, err := f.pread(buf)
	if err != nil {
		f.close()
	}
	return n, err
}

func (f *kernelFile) pread(buf []byte) (int, error) { return f.preadAt(buf, 0) }

func (f *kernelFile) preadAt(buf []byte, offset int) (int, error) {
	for {
		n, err := syscall.Pread(f.fd, buf, int64(offset))
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// pageLessALine is a page minus an upper bound of the longest line of /proc/diskstats.
const pageLessALine = 4096 - 512

// readAll reads a file of several pages, which the kernel prints in whole lines.
func (f *kernelFile) readAll(buf []byte) (int, error) {
	n, err := f.read(buf)
	got := n
	// A page with space for another line is the last one; this saves the pread that would return nothing.
	for err == nil && got > 0 && n < len(buf) && (f.ordinary || got >= pageLessALine) {
		got, err = f.preadAt(buf[n:], n)
		n += max(got, 0)
	}
	return n, err
}

func (f *kernelFile) openFile() error {
	fd, err := syscall.Open(f.path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st syscall.Statfs_t
	err = syscall.Fstatfs(fd, &st)
	f.ordinary = err != nil || st.Type != procMagic && st.Type != sysfsMagic
	f.fd, f.open = fd, true
	f.opened++
	return nil
}

func (f *kernelFile) replaced() bool {
	var st syscall.Stat_t
	return syscall.Fstat(f.fd, &st) == nil && st.Nlink == 0
}

func (f *kernelFile) close() {
	if f.open {
		syscall.Close(f.fd)
		f.open = false
	}
}

// isGone reports whether a read error means that the disk is gone.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO)
}

// blockDevice returns the number of the device whose node is at path.
func blockDevice(path string) (devID, bool) {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return devID{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return devID{}, false
	}
	rdev := uint64(st.Rdev)
	major := uint32(rdev>>8&0xfff | rdev>>32&0xfffff000)
	minor := uint32(rdev&0xff | rdev>>12&0xffffff00)
	return devID{major, minor}, true
}

// mountWatch detects with one system call that mounts were added or removed (proc_pid_mounts(5)).
type mountWatch struct {
	file *os.File
	fd   int
}

func newMountWatch() *mountWatch {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return &mountWatch{file: file, fd: int(file.Fd())}
}

type pollFd struct {
	fd      int32
	events  int16
	revents int16
}

const (
	pollIn  = 0x1
	pollPri = 0x2
)

// ready returns the events that are ready on a descriptor now; it does not block.
func ready(fd int, events int16) int16 {
	p := pollFd{fd: int32(fd), events: events}
	var now syscall.Timespec
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	if errno != 0 || n == 0 {
		return 0
	}
	return p.revents
}

func (w *mountWatch) changed() bool { return ready(w.fd, pollPri)&pollPri != 0 }

func (w *mountWatch) close() { w.file.Close() }

// stream is a connection to a unix socket that never blocks.
type stream struct{ fd int }

var errWouldWait = syscall.EAGAIN

// dial connects and sends a request.
func dial(socket string, request []byte) (*stream, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &stream{fd}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		s.close()
		return nil, err
	}
	if n, err := syscall.Write(fd, request); err != nil || n != len(request) {
		s.close()
		return nil, errors.Join(err, errors.New("the request was not sent"))
	}
	return s, nil
}

// read returns errWouldWait if no data has arrived, and 0 at the end.
func (s *stream) read(buf []byte) (int, error) {
	for {
		n, err := syscall.Read(s.fd, buf)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// wait returns when data has arrived or the other end has closed, or after the timeout.
func (s *stream) wait(d time.Duration) {
	deadline := time.Now().Add(d)
	for ready(s.fd, pollIn) == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
}

func (s *stream) close() { syscall.Close(s.fd) }

const supported = true
