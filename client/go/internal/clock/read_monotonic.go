//go:build unix && !linux && !openbsd

package clock

import "golang.org/x/sys/unix"

// source counts suspended time on Apple systems. On others it may stand still: docs/promises.md says where.
const source = unix.CLOCK_MONOTONIC

func read() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(source, &now); err != nil {
		panic("leasehold: failed to read CLOCK_MONOTONIC: " + err.Error())
	}
	return now.Nano()
}
