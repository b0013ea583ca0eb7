package leasehold

import (
	"slices"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// retryFirst and retryMax are the first and the longest pause before a release that could not be served is repeated.
	retryFirst = 100 * time.Millisecond
	retryMax   = 2 * time.Second
	// answerTimeout limits the wait for the answer to a release or a change; after it, the caller learns that it is not confirmed.
	answerTimeout = 10 * time.Second
)

// release is a lock to be given back.
type release struct {
	owned owned
	// index is that of the owner id that it is asked by. If nothing is held under one, a later one may hold it.
	index int
	// reply is the caller that waits; nil for none.
	reply *reply
	trace string
	// retryIn is the pause before it is repeated, if it fails.
	retryIn time.Duration
	// retryAt is when it is repeated on the same stream, since the coordinator could not serve it; Never if it is not.
	retryAt moment
	// again is set if another stream was asked before and did not answer: the release may have been carried out.
	again bool
	// counted is set if the resume in progress already counts the hold once less because of this release.
	counted bool
	// expired is set if the hold's deadline has passed, until a coordinator was told.
	expired bool
}

func newRelease(what owned, reply *reply) *release {
	return &release{owned: what, reply: reply, retryIn: retryFirst, retryAt: clock.Never}
}

// anew makes it a release for another stream, because this one has not answered.
func (r *release) anew() {
	r.index, r.again, r.retryAt = 0, true, clock.Never
}

// changeKind is what a change does to a hold.
type changeKind int

const (
	changeValue changeKind = iota
	changeDowngrade
	changeReduce
)

// change is a change of a hold, as its holder has asked for it.
type change struct {
	key     uint64
	kind    changeKind
	value   []byte
	permits int64
	reply   *reply
	trace   string
}

// message returns the request for it.
func (c *change) message(what owned) *leaseholdv1.SessionRequest {
	id := []byte(what.ids.confirmed)
	request := &leaseholdv1.SessionRequest{Traceparent: c.trace}
	switch c.kind {
	case changeValue:
		request.Request = &leaseholdv1.SessionRequest_SetValue{
			SetValue: &leaseholdv1.SessionSetValue{Name: what.name, OwnerId: id, Value: c.value},
		}
	case changeDowngrade:
		request.Request = &leaseholdv1.SessionRequest_Downgrade{
			Downgrade: &leaseholdv1.SessionDowngrade{Name: what.name, OwnerId: id},
		}
	case changeReduce:
		request.Request = &leaseholdv1.SessionRequest_Reduce{
			Reduce: &leaseholdv1.SessionReduce{Name: what.name, OwnerId: id, Permits: uint32(c.permits)},
		}
	}
	return request
}

// holdOutcome is how a request about a hold ended.
type holdOutcome int

const (
	holdDone holdOutcome = iota
	holdLost
	holdUnconfirmed
	holdRefused
)

// holdResult is the answer to a request about a hold.
type holdResult struct {
	outcome holdOutcome
	reason  LostReason
	failure *Failure
}

// holdCall is a caller that waits for the answer to a request about a hold, and has room for it. The machine only passes it on.
type holdCall chan holdResult

// reply is a caller and the time for which it waits.
type reply struct {
	due  moment
	call holdCall
}

// expect notes a caller that waits from now on; nil for none.
func (m *machine) expect(now moment, call holdCall) *reply {
	if call == nil {
		return nil
	}
	expected := &reply{now.After(answerTimeout), call}
	m.replies = append(m.replies, expected)
	return expected
}

// replyDue returns when the first caller has waited for long enough.
func (m *machine) replyDue() moment {
	if len(m.replies) == 0 {
		return clock.Never
	}
	return m.replies[0].due
}

// endOverdueReplies tells callers that have waited for too long that their request is not confirmed.
func (m *machine) endOverdueReplies(now moment) {
	for len(m.replies) > 0 && m.replies[0].due <= now {
		m.reply(m.replies[0], holdResult{outcome: holdUnconfirmed})
	}
}

// reply answers, unless nobody waits, or the caller was already told that its request was not confirmed in time.
func (m *machine) reply(to *reply, result holdResult) {
	if to == nil {
		return
	}
	if i := slices.Index(m.replies, to); i >= 0 {
		m.put(output{kind: outHoldDone, hold: to.call, result: result})
		m.replies = slices.Delete(m.replies, i, i+1)
	}
}
