// Package clock reads the clock by which a client judges its own leases: monotonic, and counting the time for which the machine was
// suspended.
//
// The clock of package time does not count suspension on Linux: a laptop that slept through the TTL would wake up believing that it
// still holds its locks.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Moment is a point on the clock, in nanoseconds.
type Moment int64

// Never is later than every other moment. It stands for a time that is not set.
const Never Moment = math.MaxInt64

// skew is added to every reading.
var skew atomic.Int64

// Now reads the clock.
func Now() Moment {
	return Moment(read() + skew.Load())
}

// Skew makes the clock read more by this much from now on, as after a suspension of the machine. For tests.
func Skew(by time.Duration) {
	skew.Add(int64(by))
}

// After returns the moment that is later by this much, or Never if that is later still. A negative duration counts as none.
func (m Moment) After(by time.Duration) Moment {
	if by <= 0 {
		return m
	}
	if m > Never-Moment(by) {
		return Never
	}
	return m + Moment(by)
}

// Since returns the time from earlier to this moment; zero if it is not earlier.
func (m Moment) Since(earlier Moment) time.Duration {
	if m <= earlier {
		return 0
	}
	return time.Duration(m - earlier)
}
