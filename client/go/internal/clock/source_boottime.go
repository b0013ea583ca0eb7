//go:build linux || openbsd

package clock

import "golang.org/x/sys/unix"

// source is the clock of the system that counts suspended time.
const source = unix.CLOCK_BOOTTIME
