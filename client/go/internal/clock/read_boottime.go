//go:build linux || openbsd

package clock

import "golang.org/x/sys/unix"

// source is the clock of the system that counts suspended time.
const source = unix.CLOCK_BOOTTIME

func read() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(source, &now); err != nil {
		// The kernel has had this clock since Linux 2.6.39. Without it no deadline can be kept.
		panic("leasehold: failed to read CLOCK_BOOTTIME: " + err.Error())
	}
	return now.Nano()
}
