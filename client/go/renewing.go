package leasehold

import "time"

const (
	// renewLook is the interval of looks at the files of credentials.
	renewLook = time.Second
	// renewSpread is the time within which all clients that see a file change move their sessions: many have the same file.
	renewSpread = 5 * time.Second
)

// renewing is the schedule of moves to a stream with newer credentials.
type renewing struct {
	lookedAt moment
	at       moment
}

// isDue reports whether it is time to move; calls isOutdated once in a while.
func (r *renewing) isDue(now moment, isOutdated func() bool) bool {
	if r.lookedAt != never && now.Since(r.lookedAt) < renewLook {
		return false
	}
	r.lookedAt = now
	if !isOutdated() {
		r.at = never
		return false
	}
	if r.at == never {
		r.at = now.After(jitter(renewSpread))
	}
	return r.at <= now
}

// failed notes that no coordinator took the newer credentials.
func (r *renewing) failed(now moment) {
	r.at = now.After(moveAgain)
}
