package leasehold

import (
	"context"
	"math/rand/v2"
	"time"
)

// longestAsked is the pause above which no coordinator can ask for a longer one.
const longestAsked = 60 * time.Second

// pauses are those before attempts to repeat what failed or ended: growing, and partly random.
type pauses struct {
	min, max time.Duration
	// next is the next pause, without its random part.
	next time.Duration
	// liveSince is when the last connection was open; never if it is not.
	liveSince moment
}

func newPauses(least, most time.Duration) *pauses {
	most = max(least, most)
	// The random part adds up to as much again.
	least = min(least, most/2)
	return &pauses{min: least, max: most, next: least, liveSince: never}
}

func (p *pauses) opened(now moment) {
	p.liveSince = now
}

// lived reports whether the last connection was open for a while.
func (p *pauses) lived(now moment) bool {
	return p.liveSince != never && now.Since(p.liveSince) >= p.max
}

// pause returns the pause before the next attempt. A connection that was open for a while starts the row of pauses anew; one that ended
// as soon as it was open does not, so that the two sides do not reconnect in a loop.
func (p *pauses) pause(now moment) time.Duration {
	if p.lived(now) {
		p.startAnew()
	}
	p.liveSince = never
	pause := p.next
	p.next = min(p.next*2, p.max/2)
	return pause + jitter(pause)
}

// startAnew makes the next pause the first of the row, though nothing lived.
func (p *pauses) startAnew() {
	p.next = p.min
}

// pauseAsAsked returns the pause before the next attempt, after the coordinator has asked for one of at least this length; 0 for none.
// It adds a random time of its own, so that not all clients come back at once.
func (p *pauses) pauseAsAsked(now moment, asked time.Duration) time.Duration {
	return min(asked, longestAsked) + p.pause(now)
}

// jitter returns a random time below the limit.
func jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit)
}

// sleep makes a pause, which a reason to hurry ends early; nil for none. Reports false if the context ended it.
func sleep(ctx context.Context, pause time.Duration, hurry <-chan struct{}) bool {
	select {
	case <-time.After(pause):
		return true
	case <-hurry:
		return true
	case <-ctx.Done():
		return false
	}
}
