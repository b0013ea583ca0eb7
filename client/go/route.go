package leasehold

import (
	"math/rand/v2"
	"slices"
	"time"
)

// troubled is the time for which a candidate that failed is tried last.
const troubled = 10 * time.Second

// route goes round the candidates: each is tried once in a round, and those that failed lately come last.
type route struct {
	// beginAt is where the next round begins: anywhere at first, so that many clients spread over all coordinators.
	beginAt  int
	failedAt map[string]moment
	// isSeveral is set if there is more than one to choose from.
	isSeveral bool
}

func newRoute(endpoints int) *route {
	return &route{beginAt: rand.IntN(1 << 16), failedAt: make(map[string]moment), isSeveral: endpoints > 1}
}

// round returns the candidates in the order in which to try them.
func (r *route) round(candidates []candidate, now moment) []candidate {
	r.isSeveral = r.isSeveral || len(candidates) > 1
	for key, failedAt := range r.failedAt {
		if now.Since(failedAt) >= troubled {
			delete(r.failedAt, key)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	beginAt := r.beginAt % len(candidates)
	r.beginAt = beginAt + 1
	round := slices.Concat(candidates[beginAt:], candidates[:beginAt])
	// The one that failed longest ago comes first of those.
	slices.SortStableFunc(round, func(one, other candidate) int {
		first, last := r.failedAt[one.key()], r.failedAt[other.key()]
		switch {
		case first < last:
			return -1
		case first > last:
			return 1
		default:
			return 0
		}
	})
	return round
}

// failed notes that a candidate could not be reached, did not serve, or is to be left.
func (r *route) failed(which candidate, now moment) {
	if which.address != "" {
		r.failedAt[which.key()] = now
	}
}

func (c candidate) key() string {
	return c.endpoint.url + " " + c.address
}
