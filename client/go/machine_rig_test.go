package leasehold

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Tests of the session's rules are without I/O: each gives the inputs with their times, and checks all outputs. All times are in
// milliseconds.

const (
	testTTL      = 10_000
	testInterval = 3_000
	// noWait is an acquire's wait without a bound.
	noWait = -1
)

func at(ms int64) moment { return moment(ms * int64(time.Millisecond)) }

func wireMS(ms int64) *durationpb.Duration {
	return durationpb.New(time.Duration(ms) * time.Millisecond)
}

// rig drives a machine.
type rig struct {
	t *testing.T
	m *machine
	// stream is the one that was connected last.
	stream uint64
	leases []granted
	names  map[any]int
	drawn  int
	// resumes are those of the last open.
	resumes []*leaseholdv1.SessionResume
	// connectErr is that of the last stream that was given up.
	connectErr *ConnectError
	// acquireErr is that of the last acquire that failed.
	acquireErr *AcquireError
	ids        map[uint64]map[uint64]bool
}

// newRig returns a session that is not connected yet.
func newRig(t *testing.T, grace int64) *rig {
	t.Helper()
	r := &rig{t: t, names: map[any]int{}, ids: map[uint64]map[uint64]bool{}}
	draw := func() ownerID {
		r.drawn++
		return ownerID(fmt.Sprintf("next%012d", r.drawn))
	}
	open := &leaseholdv1.SessionOpen{DisconnectGrace: wireMS(grace)}
	r.m = newMachine(open, 5*time.Second, draw, slog.New(slog.DiscardHandler))
	return r
}

// openRig returns a session that was opened at 0; the open is request 1, and the next request 2.
func openRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 0)
	r.reopen(0)
	return r
}

// holdingRig returns a session that holds lock1 under owner id 1, as lease 0. The next request is 3.
func holdingRig(t *testing.T, grace int64) *rig {
	t.Helper()
	r := newRig(t, grace)
	r.reopen(0)
	r.acquire(0, 1, noWait)
	r.want(r.grant(0, 2, 1, 1, 0), "acquired 1")
	return r
}

// want checks outputs.
func (r *rig) want(seen string, want ...string) {
	r.t.Helper()
	if joined := strings.Join(want, "; "); seen != joined {
		r.t.Fatalf("got  %q\nwant %q", seen, joined)
	}
}

func (r *rig) connect(now int64) string {
	r.stream = r.m.connected(at(now), "http://test")
	return r.seen()
}

// reopen connects a stream and opens it, with nothing to resume.
func (r *rig) reopen(now int64) string {
	r.t.Helper()
	r.want(r.connect(now), "open")
	return r.message(now, 1, opensWith())
}

func (r *rig) message(now int64, id uint64, response any) string {
	return r.messageOn(now, r.stream, id, response)
}

func (r *rig) messageOn(now int64, stream, id uint64, response any) string {
	r.m.message(at(now), stream, wrap(r.t, id, response))
	return r.seen()
}

// wrap returns the message with this response.
func wrap(t *testing.T, id uint64, response any) *leaseholdv1.SessionResponse {
	t.Helper()
	message := &leaseholdv1.SessionResponse{RequestId: id}
	switch response := response.(type) {
	case *leaseholdv1.SessionOpened:
		message.Response = &leaseholdv1.SessionResponse_Opened{Opened: response}
	case *leaseholdv1.SessionQueued:
		message.Response = &leaseholdv1.SessionResponse_Queued{Queued: response}
	case *leaseholdv1.SessionGranted:
		message.Response = &leaseholdv1.SessionResponse_Granted{Granted: response}
	case *leaseholdv1.SessionNotGranted:
		message.Response = &leaseholdv1.SessionResponse_NotGranted{NotGranted: response}
	case *leaseholdv1.SessionReleased:
		message.Response = &leaseholdv1.SessionResponse_Released{Released: response}
	case *leaseholdv1.SessionValueSet:
		message.Response = &leaseholdv1.SessionResponse_ValueSet{ValueSet: response}
	case *leaseholdv1.SessionHeartbeatAck:
		message.Response = &leaseholdv1.SessionResponse_Heartbeat{Heartbeat: response}
	case *leaseholdv1.SessionLost:
		message.Response = &leaseholdv1.SessionResponse_Lost{Lost: response}
	case *leaseholdv1.SessionDraining:
		message.Response = &leaseholdv1.SessionResponse_Draining{Draining: response}
	case *leaseholdv1.SessionClosed:
		message.Response = &leaseholdv1.SessionResponse_Closed{Closed: response}
	case *leaseholdv1.SessionFailure:
		message.Response = &leaseholdv1.SessionResponse_Error{Error: response}
	case *leaseholdv1.SessionDowngraded:
		message.Response = &leaseholdv1.SessionResponse_Downgraded{Downgraded: response}
	case nil:
		// As of a coordinator that says what this version does not know.
	default:
		t.Fatalf("unexpected response %T", response)
	}
	return message
}

func exclusiveSpec(locks ...int) acquireSpec {
	spec := acquireSpec{several: len(locks) > 1}
	for _, lock := range locks {
		spec.locks = append(spec.locks, Exclusive(fmt.Sprintf("lock%d", lock)))
	}
	return spec
}

// acquire asks for the lock of this number.
func (r *rig) acquire(now int64, id int, wait int64) string {
	spec := exclusiveSpec(id)
	if wait != noWait {
		spec.setWait(time.Duration(wait) * time.Millisecond)
	}
	return r.ask(now, id, spec)
}

func (r *rig) ask(now int64, id int, spec acquireSpec) string {
	call := make(acquireCall)
	r.names[call] = id
	r.m.acquire(at(now), uint64(id), spec, call)
	return r.seen()
}

func (r *rig) cancel(now int64, id uint64) string {
	r.m.cancel(at(now), id)
	return r.seen()
}

// grant grants a lock; the owner id is one byte.
func (r *rig) grant(now int64, request uint64, lock int, owner byte, acked uint64) string {
	return r.message(now, request, grants(acked, grantedLock(lock, owner, 1)))
}

func grantedLock(lock int, owner byte, count uint32) *leaseholdv1.GrantedLock {
	return &leaseholdv1.GrantedLock{
		Name: fmt.Sprintf("lock%d", lock), OwnerId: []byte{owner}, FencingToken: 7, HoldCount: count,
	}
}

func grants(acked uint64, locks ...*leaseholdv1.GrantedLock) *leaseholdv1.SessionGranted {
	return &leaseholdv1.SessionGranted{Locks: locks, ValidFor: wireMS(9_900), AckedHeartbeat: acked}
}

// release releases a hold as the hold itself does it: ends its lease first. 0 is no caller.
func (r *rig) release(now int64, index, reply int) string {
	r.leases[index].lease.end(at(now), lostReleased)
	r.m.release(at(now), r.leases[index].key, "", r.caller(reply))
	return r.seen()
}

func (r *rig) caller(reply int) holdCall {
	if reply == 0 {
		return nil
	}
	call := make(holdCall)
	r.names[call] = reply
	return call
}

func (r *rig) change(now int64, index int, kind changeKind, reply int) string {
	r.m.change(at(now), &change{key: r.leases[index].key, kind: kind, permits: 1}, r.caller(reply))
	return r.seen()
}

func (r *rig) ack(now int64, sequence uint64, validFor int64) string {
	return r.message(now, 0, &leaseholdv1.SessionHeartbeatAck{AckedHeartbeat: sequence, ValidFor: wireMS(validFor)})
}

func (r *rig) ended(now int64, end streamEnd) string {
	r.m.streamEnded(at(now), r.stream, end)
	return r.seen()
}

func (r *rig) attemptFailed(now int64, what fate) string {
	r.m.attemptFailed(at(now), what)
	return r.seen()
}

func (r *rig) tick(now int64) string {
	r.m.tick(at(now))
	return r.seen()
}

// state returns the state of a hold, or the reason of its loss.
func (r *rig) state(now int64, index int) string {
	state, reason := r.leases[index].lease.stateAt(at(now))
	if state == StateLost {
		return reason.String()
	}
	return state.String()
}

func (r *rig) wantState(now int64, index int, want string) {
	r.t.Helper()
	if state := r.state(now, index); state != want {
		r.t.Fatalf("hold %d is %s at %d, want %s", index, state, now, want)
	}
}

func (r *rig) wantDeadline(now int64, index int, want int64) {
	r.t.Helper()
	deadline, isAlive := r.leases[index].lease.alive(at(now))
	if !isAlive || deadline != at(want) {
		r.t.Fatalf("the deadline is %d (%v), want %d", deadline/1_000_000, isAlive, want)
	}
}

func (r *rig) wantAlarm(want int64) {
	r.t.Helper()
	if alarm := r.m.alarm(); alarm != at(want) {
		r.t.Fatalf("the alarm is set for %d, want %d", alarm/1_000_000, want)
	}
}

// next returns the next owner id of the first resume of the last open.
func (r *rig) next() string {
	r.t.Helper()
	if len(r.resumes) == 0 {
		r.t.Fatal("nothing was to be resumed")
	}
	return string(r.resumes[0].GetNextOwnerId())
}

func (r *rig) seen() string {
	var seen []string
	for i := 0; i < len(r.m.outputs); i++ {
		seen = append(seen, r.describe(r.m.outputs[i]))
	}
	r.m.outputs = nil
	return strings.Join(seen, "; ")
}

func (r *rig) describe(o output) string {
	switch o.kind {
	case outSend:
		return r.sent(o.stream, o.request)
	case outAcquired:
		if o.err != nil {
			r.acquireErr = o.err
			return fmt.Sprintf("failed %d %s", r.names[o.acquire], kindOf(o.err))
		}
		r.leases = append(r.leases, o.granted...)
		return fmt.Sprintf("acquired %d", r.names[o.acquire])
	case outHoldDone:
		outcome := map[holdOutcome]string{holdDone: "", holdLost: " lost", holdUnconfirmed: " unconfirmed", holdRefused: " refused"}
		return fmt.Sprintf("done %d%s", r.names[o.hold], outcome[o.result.outcome])
	case outOpened:
		return "opened"
	case outDraining:
		return "draining"
	case outHangUp:
		r.connectErr = o.connect
		return "hang up"
	case outLeave:
		return "leave"
	case outEnded:
		return "ended"
	default:
		r.t.Fatalf("unexpected output %d", o.kind)
		return ""
	}
}

func (r *rig) sent(stream uint64, request *leaseholdv1.SessionRequest) string {
	id := request.GetRequestId()
	_, isOpen := request.GetRequest().(*leaseholdv1.SessionRequest_Open)
	if r.ids[stream] == nil {
		r.ids[stream] = map[uint64]bool{}
	}
	if id == 0 || r.ids[stream][id] && !isOpen {
		r.t.Fatalf("request id %d of stream %d is used twice", id, stream)
	}
	r.ids[stream][id] = true
	switch body := request.GetRequest().(type) {
	case *leaseholdv1.SessionRequest_Open:
		r.resumes = body.Open.GetResume()
		return "open"
	case *leaseholdv1.SessionRequest_Acquire:
		asked := body.Acquire
		wait := ""
		if asked.GetWait() != nil {
			wait = fmt.Sprintf(" for %d", asked.GetWait().AsDuration().Milliseconds())
		}
		return fmt.Sprintf("acquire %d %s%s%s", id, asked.GetName(), strings.Join(asked.GetNames(), "+"), wait)
	case *leaseholdv1.SessionRequest_Cancel:
		return fmt.Sprintf("cancel %d", body.Cancel.GetAcquireRequestId())
	case *leaseholdv1.SessionRequest_Release:
		owner := body.Release.GetOwnerId()
		if len(owner) == 1 {
			return fmt.Sprintf("release %d of %d", id, owner[0])
		}
		return fmt.Sprintf("release %d of %s", id, owner)
	case *leaseholdv1.SessionRequest_SetValue:
		return fmt.Sprintf("set value %d", id)
	case *leaseholdv1.SessionRequest_Downgrade:
		return fmt.Sprintf("downgrade %d", id)
	case *leaseholdv1.SessionRequest_Reduce:
		return fmt.Sprintf("reduce %d to %d", id, body.Reduce.GetPermits())
	case *leaseholdv1.SessionRequest_Heartbeat:
		return fmt.Sprintf("heartbeat %d", body.Heartbeat.GetSequence())
	case *leaseholdv1.SessionRequest_Close:
		return "close"
	default:
		r.t.Fatalf("unexpected request %T", body)
		return ""
	}
}

func kindOf(err *AcquireError) string {
	for kind, name := range map[error]string{
		ErrBusy: "busy", ErrTimedOut: "timed out", ErrUnavailable: "unavailable", ErrClosed: "closed", ErrRefused: "refused",
		ErrInvalid: "invalid", ErrUnauthenticated: "unauthenticated", ErrPermissionDenied: "permission denied",
		ErrSelfDeadlock: "self-deadlock", ErrDeadlock: "deadlock", ErrForceReleased: "force-released", ErrLimitReached: "limit reached",
	} {
		if err.Kind == kind {
			return name
		}
	}
	return err.Error()
}

// opensWith answers an open: each of these next owner ids is resumed as a hold.
func opensWith(resumed ...string) *leaseholdv1.SessionOpened {
	opened := &leaseholdv1.SessionOpened{
		SessionId: "s", Coordinator: "c", Ttl: wireMS(testTTL), HeartbeatInterval: wireMS(testInterval), ValidFor: wireMS(9_900),
	}
	for _, next := range resumed {
		opened.Resumed = append(opened.Resumed, &leaseholdv1.ResumedLock{
			Name: "lock1", OwnerId: []byte(next),
			What: &leaseholdv1.ResumedLock_Hold{Hold: &leaseholdv1.ResumedHold{FencingToken: 7, HoldCount: 1}},
		})
	}
	return opened
}

// opensInPlace answers an open that resumes a place, which is the first in the queue of lock1.
func opensInPlace(next string) *leaseholdv1.SessionOpened {
	opened := opensWith()
	opened.Resumed = []*leaseholdv1.ResumedLock{{
		Name: "lock1", OwnerId: []byte(next), What: &leaseholdv1.ResumedLock_Position{Position: 1},
	}}
	return opened
}

func refuses(next string, reason leaseholdv1.LostReason) *leaseholdv1.SessionOpened {
	opened := opensWith()
	opened.Refused = []*leaseholdv1.LostLock{{Name: "lock1", OwnerId: []byte(next), Reason: reason}}
	return opened
}

func loses(owner byte, reason leaseholdv1.LostReason) *leaseholdv1.SessionLost {
	return &leaseholdv1.SessionLost{Locks: []*leaseholdv1.LostLock{{Name: "lock1", OwnerId: []byte{owner}, Reason: reason}}}
}

func drains() *leaseholdv1.SessionDraining {
	return &leaseholdv1.SessionDraining{Deadline: wireMS(8_000)}
}

// asksToMove is what a coordinator says that goes on serving.
func asksToMove() *leaseholdv1.SessionDraining {
	return &leaseholdv1.SessionDraining{Deadline: wireMS(8_000), KeepsServing: true}
}

// goesOn fails the round of attempts, and checks that the session goes on where it is.
func (r *rig) goesOn(now int64) string {
	r.t.Helper()
	if goesOn, _ := r.m.goesOn(at(now)); !goesOn {
		r.t.Fatal("it does not go on")
	}
	return r.seen()
}

func (r *rig) wantMove(want bool) {
	r.t.Helper()
	if r.m.wantsConnection() != want {
		r.t.Fatalf("it looks for another stream: %v, want %v", !want, want)
	}
}

func releasedAs(released bool) *leaseholdv1.SessionReleased {
	return &leaseholdv1.SessionReleased{Released: released}
}

func queuedAs(ticket string) *leaseholdv1.SessionQueued {
	return &leaseholdv1.SessionQueued{Position: 1, Ticket: []byte(ticket)}
}

func notGrantedAs(outcome leaseholdv1.AcquireOutcome) *leaseholdv1.SessionNotGranted {
	return &leaseholdv1.SessionNotGranted{Outcome: outcome}
}

func failsWith(code codes.Code, reason string) *leaseholdv1.SessionFailure {
	return &leaseholdv1.SessionFailure{Code: int32(code), Reason: reason}
}

func unreachable(retryable bool) *ConnectError {
	if retryable {
		return &ConnectError{Endpoint: "http://test", kind: connectEnded}
	}
	return &ConnectError{Endpoint: "http://test", kind: connectInvalid}
}
