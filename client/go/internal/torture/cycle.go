package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// limit is the number of permits of each semaphore.
const limit = 4

// cycle is one cycle of a client, with the locks, times and frequencies of the Rust client's (tests/torture/src/locks.rs).
type cycle struct {
	lock string
	// mode is exclusive, shared or permits.
	mode    string
	permits int64
	// waits means that the wait is bounded.
	waits bool
	wait  time.Duration
	// giveUp is when the client gives up by itself; 0 if it does not.
	giveUp    time.Duration
	lockDelay time.Duration
	hold      time.Duration
	pause     time.Duration
}

// firstCycle returns the first cycle of a client, for a lock of its own: the time that connecting takes is no time in a queue.
func firstCycle(client string) cycle {
	return cycle{lock: "torture/first/" + client, mode: "exclusive"}
}

// drawCycle draws a cycle. A quorum has exclusive locks alone.
func drawCycle(random *rand.Rand, quorum bool) cycle {
	millis := func(from, to int) time.Duration {
		return time.Duration(from+random.IntN(to-from)) * time.Millisecond
	}
	kinds := 11
	if quorum {
		kinds = 5
	}
	drawn := cycle{mode: "exclusive"}
	switch kind := random.IntN(kinds); {
	case kind < 5:
		drawn.lock = fmt.Sprintf("torture/exclusive/%d", random.IntN(4))
	case kind < 8:
		drawn.lock = fmt.Sprintf("torture/mixed/%d", random.IntN(2))
		if random.Float64() < 0.7 {
			drawn.mode = "shared"
		}
	case kind == 10:
		drawn.lock = fmt.Sprintf("torture/beside/%d", random.IntN(2))
	default:
		drawn.lock = fmt.Sprintf("torture/permits/%d", random.IntN(2))
		drawn.mode = "permits"
		drawn.permits = 1 + random.Int64N(limit-1)
	}
	switch wait := random.IntN(10); {
	case wait == 0:
		drawn.waits = true
	case wait < 4:
		drawn.waits, drawn.wait = true, millis(50, 20_000)
	}
	if random.Float64() < 0.05 {
		drawn.giveUp = millis(1, 3000)
	}
	if random.Float64() < 0.1 {
		drawn.lockDelay = millis(100, 500)
	}
	drawn.hold = millis(1, 300)
	if random.Float64() < 0.05 {
		drawn.hold = millis(1000, 6000)
	}
	drawn.pause = millis(0, 200)
	return drawn
}

// hasRegister reports whether a register belongs to the lock: if it is only ever held exclusively.
func (c cycle) hasRegister() bool {
	return strings.HasPrefix(c.lock, "torture/exclusive/")
}
