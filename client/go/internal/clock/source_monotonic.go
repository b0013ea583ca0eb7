//go:build unix && !linux && !openbsd

package clock

import "golang.org/x/sys/unix"

// source counts suspended time on Apple systems. On others it may stand still: docs/promises.md says where.
const source = unix.CLOCK_MONOTONIC
