//go:build linux

package main

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// block stops all goroutines, and with them the library's timers, and then asks the library's check before any of them has run: there is
// one processor, and this thread keeps it in a system call of which the scheduler does not know.
func block(h *handle, pause time.Duration) object {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var all, former unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	rest := unix.NsecToTimespec(pause.Nanoseconds())
	// The scheduler's signal would interrupt the sleep.
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&former)), 8, 0, 0)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0)
	state := stateNow(h)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&former)), 0, 8, 0, 0)
	return state
}
