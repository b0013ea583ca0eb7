package leasehold

import (
	"cmp"
	"slices"
	"time"
)

// troubled is the time for which a candidate that failed is tried last.
const troubled = 10 * time.Second

// route goes round the candidates: each is tried once in a round, in an order of its own, and those that failed lately come last.
type route struct {
	// shuffle is rand.Shuffle, or that of a test.
	shuffle  func(n int, swap func(i, j int))
	failedAt map[string]moment
	// isSeveral is set if there is more than one to choose from.
	isSeveral bool
}

func newRoute(endpoints int, shuffle func(n int, swap func(i, j int))) *route {
	return &route{shuffle: shuffle, failedAt: make(map[string]moment), isSeveral: endpoints > 1}
}

// round returns the candidates in the order in which to try them.
func (r *route) round(candidates []candidate, now moment) []candidate {
	r.isSeveral = r.isSeveral || len(candidates) > 1
	for key, failedAt := range r.failedAt {
		if now.Since(failedAt) >= troubled {
			delete(r.failedAt, key)
		}
	}
	round := slices.Clone(candidates)
	// In a common order, all clients of a coordinator that goes away would move to the same one.
	r.shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
	// Of those that failed, the one that failed longest ago comes first.
	slices.SortStableFunc(round, func(one, other candidate) int {
		return cmp.Compare(r.failedAt[one.key()], r.failedAt[other.key()])
	})
	return round
}

// failed notes that a candidate could not be reached, did not serve, or is to be left.
func (r *route) failed(which candidate, now moment) {
	if which.address != "" {
		r.failedAt[which.key()] = now
	}
}
