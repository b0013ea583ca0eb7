//go:build unix

package clock

import "golang.org/x/sys/unix"

func read() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(source, &now); err != nil {
		// Every kernel has this clock; Linux since 2.6.39. Without it no deadline can be kept.
		panic("leasehold: failed to read the clock: " + err.Error())
	}
	return now.Nano()
}
