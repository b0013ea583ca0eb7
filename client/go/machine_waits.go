package leasehold

import (
	"errors"
	"strconv"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// answerGrace is the extra time after its wait in which the coordinator may answer an acquire.
const answerGrace = 2 * time.Second

// waiting is an acquire that has not been answered.
type waiting struct {
	call acquireCall
	spec acquireSpec
	// deadline is the end of its wait; Never without a bound.
	deadline moment
	// sentAs is its request on the present stream; 0 if it is not there.
	sentAs uint64
	// queued is set while it waits in a queue there.
	queued bool
	// failure is why the coordinator could not serve it when it was asked last; nil if it could, or was not asked. It is asked again at
	// retryAt, if it is the same one then.
	failure *Failure
	retryIn time.Duration
	retryAt moment
	// ticket has the ids by which its place can be resumed; nil if it has none, or waits for several names one after the other.
	ticket *ids
}

// unsend notes that the stream that it was sent on does not serve it any more.
func (w *waiting) unsend() {
	w.sentAs, w.queued, w.retryAt = 0, false, clock.Never
}

// pausesAt reports whether it is to be asked for again later.
func (w *waiting) pausesAt(now moment) bool {
	return w.retryAt != clock.Never && now < w.retryAt
}

// remaining returns the time left of its wait.
func (w *waiting) remaining(now moment) time.Duration {
	if w.deadline == clock.Never {
		return w.spec.wait
	}
	return w.deadline.Since(now)
}

// endsAt returns when it ends without an answer: later while a coordinator is about to give one.
func (w *waiting) endsAt() moment {
	if w.sentAs == 0 {
		return w.deadline
	}
	return w.deadline.After(answerGrace)
}

// acquire begins an acquire. The id is the caller's, and rises with every acquire of this session.
func (m *machine) acquire(now moment, id uint64, spec acquireSpec, call acquireCall) {
	m.expire(now)
	asked := &waiting{call: call, spec: spec, deadline: clock.Never, retryIn: retryFirst, retryAt: clock.Never}
	if spec.waits && spec.wait > 0 {
		asked.deadline = now.After(spec.wait)
	}
	if m.ending || m.refusing {
		m.fail(asked, &AcquireError{Kind: ErrClosed})
		return
	}
	m.waitsEndAt = min(m.waitsEndAt, asked.deadline)
	m.waiting[id] = asked
	m.sendAcquire(now, id)
}

// cancel cancels an acquire whose caller waits no longer. Does nothing once it has been answered.
func (m *machine) cancel(now moment, id uint64) {
	m.expire(now)
	if cancelled := m.waiting[id]; cancelled != nil {
		delete(m.waiting, id)
		m.abandon(cancelled)
	}
}

func (m *machine) sendAcquire(now moment, id uint64) {
	asked := m.waiting[id]
	if m.stream == nil || asked == nil || asked.sentAs != 0 || asked.pausesAt(now) {
		return
	}
	// Once there is another stream, this one is asked nothing more: its requests must be answered before the session moves, also from a busy
	// stream.
	if !m.stream.accepts() || m.next != nil || m.stream.holdsBack(asked.spec.actor, id) {
		return
	}
	m.send(m.stream, m.stream.wake(now))
	asked.retryAt = clock.Never
	asked.sentAs = m.stream.numberRequest(inFlight{kind: inFlightAcquire, acquire: id})
	m.send(m.stream, &leaseholdv1.SessionRequest{
		RequestId:   asked.sentAs,
		Traceparent: asked.spec.trace,
		Request: &leaseholdv1.SessionRequest_Acquire{
			Acquire: asked.spec.message(asked.remaining(now)),
		},
	})
	if asked.spec.isTry() {
		asked.deadline = now
		m.waitsEndAt = min(m.waitsEndAt, asked.endsAt())
	}
}

// queued notes that an acquire has a place in the queue.
func (m *machine) queued(id uint64, answer *leaseholdv1.SessionQueued) {
	request := m.stream.inFlight[id]
	if request.kind != inFlightAcquire {
		return
	}
	if asked := m.waiting[request.acquire]; asked != nil {
		asked.queued, asked.ticket, asked.failure, asked.retryIn = true, nil, nil, retryFirst
		if len(asked.spec.locks) == 1 && len(answer.GetTicket()) > 0 {
			asked.ticket = newIDs(answer.GetTicket())
		}
	}
}

// sendHeldBack sends the acquires of this actor that were held back, after an abandoned one has been answered and its grant given back.
func (m *machine) sendHeldBack(now moment, actor uint64) {
	if m.stream == nil {
		return
	}
	for _, id := range m.stream.abandonedAnswered(actor) {
		m.sendAcquire(now, id)
	}
}

// wakeForWaits sets the alarm for the earliest end of a wait.
func (m *machine) wakeForWaits() {
	m.waitsEndAt = clock.Never
	for _, asked := range m.waiting {
		m.waitsEndAt = min(m.waitsEndAt, asked.endsAt())
	}
}

// waitForStore lets an acquire wait on that the coordinator could not serve because of its store, and asks for it again after a pause. It has
// lost its place in the queue, as everybody else has whom the store has forgotten.
func (m *machine) waitForStore(now moment, acquire uint64, asked *waiting, failure *Failure) {
	if asked.failure == nil {
		// The first of a row as a warning, since no caller sees the failure and it may go on for ever.
		m.log.Warn("an acquire could not be served; asking again until its wait is over", "lock", asked.spec.label(), "error", failure)
	}
	m.waitOn(acquire, asked)
	asked.failure = failure
	asked.retryAt = now.After(max(asked.retryIn, min(failure.RetryAfter, retryMax)))
	asked.retryIn = min(asked.retryIn*2, retryMax)
	m.acquiresDue = min(m.acquiresDue, asked.retryAt)
}

// repeatAcquires asks again for the acquires whose pause is over.
func (m *machine) repeatAcquires(now moment) {
	if now < m.acquiresDue {
		return
	}
	m.acquiresDue = clock.Never
	for _, acquire := range inOrder(m.waiting) {
		asked := m.waiting[acquire]
		if asked.retryAt <= now {
			asked.retryAt = clock.Never
			m.sendAcquire(now, acquire)
		}
		m.acquiresDue = min(m.acquiresDue, asked.retryAt)
	}
}

func (m *machine) endWaits(now moment) {
	if now < m.waitsEndAt {
		return
	}
	for _, ended := range m.takeWaiting(func(w *waiting) bool { return w.endsAt() <= now }) {
		m.abandon(ended)
		// Only a coordinator can say that a lock was busy all the while; here none did.
		if ended.failure != nil && m.unreachable == nil {
			m.fail(ended, acquireRefused(ended.failure))
		} else {
			m.fail(ended, unconnected(m.unreachable))
		}
	}
	m.wakeForWaits()
}

// fail answers an acquire with an error about its locks.
func (m *machine) fail(asked *waiting, err *AcquireError) {
	err.Name = asked.spec.label()
	m.put(output{kind: outAcquired, acquire: asked.call, err: err})
}

// abandon tells the coordinator that the caller waits no longer, and remembers to give back a grant that crosses the message.
func (m *machine) abandon(asked *waiting) {
	if m.stream != nil && asked.sentAs != 0 {
		m.send(m.stream, m.stream.cancel(asked.sentAs, asked.spec.actor))
	} else if m.stream == nil && asked.ticket != nil {
		// It may have come to a grant meanwhile.
		m.putOff(newRelease(owned{name: asked.spec.label(), ids: asked.ticket}, nil))
	}
}

// askAgain asks for an acquire from the start, on the next stream that takes acquires.
func (m *machine) askAgain(acquire uint64) {
	if asked := m.waiting[acquire]; asked != nil {
		asked.unsend()
		asked.ticket = nil
	}
}

// takeWaiting removes those acquires, and returns them in the order in which they were asked for.
func (m *machine) takeWaiting(which func(*waiting) bool) (taken []*waiting) {
	for _, id := range inOrder(m.waiting) {
		if asked := m.waiting[id]; which(asked) {
			taken = append(taken, asked)
			delete(m.waiting, id)
		}
	}
	return taken
}

// unconnected returns the error for a request without a session to ask on, or whose connection broke.
func unconnected(cause *ConnectError) *AcquireError {
	if cause == nil {
		return &AcquireError{Kind: ErrUnavailable}
	}
	for _, kind := range []error{ErrUnauthenticated, ErrPermissionDenied} {
		if errors.Is(cause, kind) {
			return &AcquireError{Kind: kind, Cause: cause}
		}
	}
	return &AcquireError{Kind: ErrUnavailable, Cause: cause}
}

// acquireRefused returns the error for a coordinator's refusal.
func acquireRefused(failure *Failure) *AcquireError {
	err := &AcquireError{Kind: failure.sentinel(), Cause: failure}
	if err.Kind == ErrLimitMismatch {
		limit, parsed := strconv.ParseUint(failure.Metadata["limit"], 10, 32)
		if parsed != nil {
			err.Kind = ErrRefused
		}
		err.Limit = int64(limit)
	}
	return err
}
