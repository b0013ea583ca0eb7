package leasehold

import (
	"bytes"
	"context"
	"iter"

	"google.golang.org/grpc"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Observe yields the present leader, then every change, including to no leader, until the loop or the context ends. It never yields the
// same term with the same value twice in a row, and never a leader with a smaller token than an earlier one. An observer that does not
// read in time gets the newest state, and that others were skipped. A leader that is resumed on another session stays in its term, which
// is no change.
//
// If the connection breaks or the coordinator goes away, the observer asks again, for as long as it takes; the next change then says that
// it may have skipped some. An error ends the sequence: the name is invalid, the coordinator refuses to be observed, or does not know how,
// or the context has ended, with its cause.
func (e Election) Observe(ctx context.Context) iter.Seq2[LeaderChange, error] {
	request := &leaseholdv1.ObserveRequest{Election: e.request.spec.label()}
	open := func(ctx context.Context, on channel) (grpc.ServerStreamingClient[leaseholdv1.ObserveResponse], error) {
		return leaseholdv1.NewElectionServiceClient(on).Observe(ctx, request)
	}
	return func(yield func(LeaderChange, error) bool) {
		var view leaderView
		err := feed(ctx, e.calls, open, func(told *leaseholdv1.ObserveResponse) bool {
			change, isChange := view.told(told)
			return !isChange || yield(change, nil)
		}, func(*Failure) bool {
			view.interrupted()
			return true
		})
		if err != nil {
			yield(LeaderChange{}, err)
		}
	}
}

// leaderView is the state of an observer: its last change, and what the next one must say.
type leaderView struct {
	// hasLast is set once there was a change; last is its leader, nil for none.
	hasLast bool
	last    *Leader
	// newest is the largest token so far.
	newest int64
	// skipped is set if a change may have been missed since the last one.
	skipped bool
}

// interrupted notes that changes may be missed from now on.
func (v *leaderView) interrupted() {
	// A change before the first is not missed.
	v.skipped = v.hasLast
}

func (v *leaderView) told(told *leaseholdv1.ObserveResponse) (change LeaderChange, isChange bool) {
	v.skipped = v.skipped || told.GetSkipped()
	leader := some(told.GetLeader(), leaderOf)
	var token int64
	if leader != nil {
		token = leader.Token
	}
	// A coordinator that is behind the one before it will catch up. A holder that does not use Leasehold has no token.
	isPast := token != 0 && token < v.newest
	if isPast || v.hasLast && isSameLeader(v.last, leader) {
		return LeaderChange{}, false
	}
	v.newest = max(v.newest, token)
	v.hasLast, v.last = true, leader
	change = LeaderChange{Leader: leader, Skipped: v.skipped}
	v.skipped = false
	return change, true
}

// isSameLeader reports whether two leaders are the same, in the same term and with the same value.
func isSameLeader(one, other *Leader) bool {
	if one == nil || other == nil {
		return one == other
	}
	return one.Token == other.Token && bytes.Equal(one.Value, other.Value)
}
