// Package leaseholdtest has a coordinator for unit tests, which runs inside the test's process and keeps its locks in memory. The client is
// the real one, so that holds, tokens, queues and errors are those of production, and a lock can be lost on demand.
//
//	server := leaseholdtest.Start(t)
//	client := server.Client()
//	…
//	server.Lose("orders/42")
//
// It has exclusive and shared locks, semaphores, requests for several locks, actors, queues in order, rising tokens, values, elections as
// far as they are locks with values, detached locks with their TTLs, and releases what a client holds whose connection ends.
//
// It has no deadlock detection beyond an actor that asks for what it holds, no Reentrant, no check of a semaphore's limit against that of
// others, no grace and no resumes, no MaxHold and no LockDelay, no Downgrade and no Keep, no permissions and no limits, no renewals and no
// keys of detached locks, no drain, no Leader and no Observe, and nothing of Client.Admin. Use the coordinator's program with its store in
// memory for tests of those.
package leaseholdtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"leasehold.dev/go"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// defaultTTL is that of sessions and detached locks that ask for none.
const defaultTTL = 10 * time.Second

// Server is a coordinator in this process. All methods may be called from any number of goroutines.
type Server struct {
	// URL is where clients find it.
	URL   string
	t     testing.TB
	state *state
}

// Start starts a coordinator on a free port of this machine. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + listener.Addr().String(), t: t, state: &state{}}
	server := grpc.NewServer()
	leaseholdv1.RegisterLockServiceServer(server, s.state)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return s
}

// Client connects a client, which is closed when the test ends.
func (s *Server) Client(options ...leasehold.Option) *leasehold.Client {
	s.t.Helper()
	client, err := leasehold.Connect(s.t.Context(), s.URL, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	return client
}

// Lose takes a lock from all its holders, as an operator's force release does: they lose it with LostForced. Reports false if nobody held it.
func (s *Server) Lose(name string) (wasHeld bool) {
	return s.state.drop(func(h *hold) bool {
		if h.name == name {
			lost := []*leaseholdv1.LostLock{{Name: name, OwnerId: h.id, Reason: leaseholdv1.LostReason_LOST_REASON_FORCED}}
			h.by.say(0, &response{Response: &leaseholdv1.SessionResponse_Lost{Lost: &leaseholdv1.SessionLost{Locks: lost}}})
		}
		return h.name == name
	}) > 0
}

// Holders returns who holds a lock at present, in the order of the grants; nobody for a free one.
func (s *Server) Holders(name string) (holders []leasehold.Holder) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for _, h := range s.state.holdsOf(name) {
		holder := leasehold.Holder{SessionID: h.SessionId, ClientName: h.ClientName, Token: h.FencingToken, AcquiredAt: h.AcquiredAt.AsTime()}
		holder.Value, holder.Count, holder.Permits, holder.Actor = slices.Clone(h.Value), 1, int64(h.Permits), h.Actor
		holders = append(holders, holder)
	}
	return holders
}

// WaiterCount returns how many wait for a lock.
func (s *Server) WaiterCount(name string) (count int) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for _, w := range s.state.waiting {
		if slices.ContainsFunc(w.locks, func(lock *leaseholdv1.LockSpec) bool { return lock.GetName() == name }) {
			count++
		}
	}
	return count
}

type response = leaseholdv1.SessionResponse

// caller is a session, or a call without one.
type caller struct {
	// id is the session's; empty for a call.
	id, client string
	ttl        time.Duration
	acked      uint64
	// say answers it.
	say func(id uint64, answer *response)
}

// hold is a grant of one lock.
type hold struct {
	*leaseholdv1.Holder
	by   *caller
	name string
	id   []byte
	mode leaseholdv1.LockMode
}

// waiter is an acquire that waits.
type waiter struct {
	by      *caller
	id      uint64
	acquire *leaseholdv1.SessionAcquire
	locks   []*leaseholdv1.LockSpec
}

// state has the locks, and serves them.
type state struct {
	leaseholdv1.UnimplementedLockServiceServer
	mu    sync.Mutex
	holds []*hold
	// waiting is the queue of all locks.
	waiting []*waiter
	token   int64
}

func (s *state) holdsOf(name string) (found []*hold) {
	for _, h := range s.holds {
		if h.name == name {
			found = append(found, h)
		}
	}
	return found
}

// drop removes holds, and grants what comes free. Returns how many it removed.
func (s *state) drop(which func(*hold) bool) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.holds)
	s.holds = slices.DeleteFunc(s.holds, which)
	dropped = before - len(s.holds)
	s.serve()
	return dropped
}

// end ends acquires that wait.
func (s *state) end(outcome leaseholdv1.AcquireOutcome, which func(*waiter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if !which(w) {
			return false
		}
		ended := &leaseholdv1.SessionNotGranted{Outcome: outcome}
		for _, h := range s.holdsOf(w.locks[0].GetName()) {
			ended.Holder = proto.CloneOf(h.Holder)
		}
		w.by.say(w.id, &response{Response: &leaseholdv1.SessionResponse_NotGranted{NotGranted: ended}})
		return true
	})
	s.serve()
}

// serve grants what is free, to those that came first.
func (s *state) serve() {
	awaited := make(map[string]bool)
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		permits, isFree := make([]uint32, len(w.locks)), true
		for i, lock := range w.locks {
			permits[i] = s.fits(lock)
			isFree = isFree && permits[i] > 0 && !awaited[lock.GetName()]
		}
		for _, lock := range w.locks {
			awaited[lock.GetName()] = awaited[lock.GetName()] || !isFree
		}
		if isFree {
			s.grant(w, permits)
		}
		return isFree
	})
}

// fits returns how many permits of a lock are free for a request, 1 in other modes; 0 if it has to wait.
func (s *state) fits(lock *leaseholdv1.LockSpec) (permits uint32) {
	taken := uint32(0)
	for _, h := range s.holdsOf(lock.GetName()) {
		if h.mode != lock.GetMode() || h.mode == leaseholdv1.LockMode_LOCK_MODE_EXCLUSIVE {
			return 0
		}
		taken += h.Permits
	}
	if lock.GetMode() != leaseholdv1.LockMode_LOCK_MODE_SEMAPHORE {
		return 1
	}
	if taken+cmp.Or(lock.GetPermitsAtLeast(), lock.GetPermits()) > lock.GetLimit() {
		return 0
	}
	return min(lock.GetPermits(), lock.GetLimit()-taken)
}

func (s *state) grant(w *waiter, permits []uint32) {
	granted := &leaseholdv1.SessionGranted{ValidFor: durationpb.New(w.by.ttl), AckedHeartbeat: w.by.acked}
	for i, lock := range w.locks {
		s.token++
		holder := &leaseholdv1.Holder{SessionId: w.by.id, ClientName: w.by.client, FencingToken: s.token, AcquiredAt: timestamppb.Now()}
		holder.HoldCount, holder.Value, holder.Actor = 1, w.acquire.GetValue(), w.acquire.GetActor()
		held := &hold{by: w.by, name: lock.GetName(), id: []byte(rand.Text()[:16]), mode: lock.GetMode(), Holder: holder}
		if lock.GetMode() == leaseholdv1.LockMode_LOCK_MODE_SEMAPHORE {
			held.Permits = permits[i]
		}
		if w.by.id == "" {
			time.AfterFunc(w.by.ttl, func() { s.drop(func(h *hold) bool { return h == held }) })
		}
		s.holds = append(s.holds, held)
		granted.Locks = append(granted.Locks,
			&leaseholdv1.GrantedLock{Name: held.name, OwnerId: held.id, FencingToken: s.token, HoldCount: 1, Permits: held.Permits})
	}
	w.by.say(w.id, &response{Response: &leaseholdv1.SessionResponse_Granted{Granted: granted}})
}

// ask begins an acquire.
func (s *state) ask(c *caller, id uint64, acquire *leaseholdv1.SessionAcquire) {
	w := &waiter{by: c, id: id, acquire: acquire, locks: acquire.GetLocks()}
	for _, name := range append(acquire.GetNames(), acquire.GetName()) {
		if name != "" {
			lock := &leaseholdv1.LockSpec{Name: name, Mode: acquire.GetMode(), Permits: acquire.GetPermits(), Limit: acquire.GetLimit()}
			lock.PermitsAtLeast = acquire.GetPermitsAtLeast()
			w.locks = append(w.locks, lock)
		}
	}
	s.mu.Lock()
	for _, lock := range w.locks {
		isOwn := func(h *hold) bool { return acquire.GetActor() != 0 && h.Actor == acquire.GetActor() && h.by == c }
		if slices.ContainsFunc(s.holdsOf(lock.GetName()), isOwn) {
			s.mu.Unlock()
			refused := &leaseholdv1.SessionFailure{Code: int32(codes.FailedPrecondition), Reason: "SELF_DEADLOCK", Message: "the actor holds it already"}
			c.say(id, &response{Response: &leaseholdv1.SessionResponse_Error{Error: refused}})
			return
		}
	}
	s.waiting = append(s.waiting, w)
	s.serve()
	s.mu.Unlock()
	isIt := func(other *waiter) bool { return other == w }
	if wait := acquire.GetWait(); wait != nil && wait.AsDuration() == 0 {
		s.end(leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_BUSY, isIt)
	} else if wait != nil {
		time.AfterFunc(wait.AsDuration(), func() { s.end(leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_TIMED_OUT, isIt) })
	}
}

// Session serves a session, until its stream ends.
func (s *state) Session(stream grpc.BidiStreamingServer[leaseholdv1.SessionRequest, response]) error {
	// A client reads all the time.
	answers := make(chan *response, 1<<12)
	var sending sync.WaitGroup
	sending.Go(func() {
		for answer := range answers {
			_ = stream.Send(answer)
		}
	})
	c := &caller{id: rand.Text(), say: func(id uint64, answer *response) {
		answer.RequestId = id
		answers <- answer
	}}
	for {
		asked, err := stream.Recv()
		if err != nil || asked.GetClose() != nil {
			s.end(leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_CANCELLED, func(w *waiter) bool { return w.by == c })
			s.drop(func(h *hold) bool { return h.by == c })
			c.say(asked.GetRequestId(), &response{Response: &leaseholdv1.SessionResponse_Closed{Closed: &leaseholdv1.SessionClosed{}}})
			break
		}
		s.carryOut(c, asked)
	}
	// Nobody says anything to it any more: it holds nothing, and waits for nothing.
	close(answers)
	sending.Wait()
	return nil
}

// carryOut carries out one request of a session.
func (s *state) carryOut(c *caller, asked *leaseholdv1.SessionRequest) {
	id, answer := asked.GetRequestId(), &response{}
	switch asked := asked.GetRequest().(type) {
	case *leaseholdv1.SessionRequest_Open:
		c.client, c.ttl = asked.Open.GetClientName(), cmp.Or(asked.Open.GetTtl().AsDuration(), defaultTTL)
		opened := &leaseholdv1.SessionOpened{SessionId: c.id, Ttl: durationpb.New(c.ttl), HeartbeatInterval: durationpb.New(c.ttl / 3)}
		answer.Response = &leaseholdv1.SessionResponse_Opened{Opened: opened}
	case *leaseholdv1.SessionRequest_Heartbeat:
		s.mu.Lock()
		c.acked = asked.Heartbeat.GetSequence()
		s.mu.Unlock()
		ack := &leaseholdv1.SessionHeartbeatAck{AckedHeartbeat: asked.Heartbeat.GetSequence(), ValidFor: durationpb.New(c.ttl)}
		answer.Response = &leaseholdv1.SessionResponse_Heartbeat{Heartbeat: ack}
	case *leaseholdv1.SessionRequest_Release:
		released := s.drop(is(asked.Release.GetName(), asked.Release.GetOwnerId())) > 0
		answer.Response = &leaseholdv1.SessionResponse_Released{Released: &leaseholdv1.SessionReleased{Released: released}}
	case *leaseholdv1.SessionRequest_SetValue:
		s.mu.Lock()
		at := slices.IndexFunc(s.holds, is(asked.SetValue.GetName(), asked.SetValue.GetOwnerId()))
		if at >= 0 {
			s.holds[at].Value = asked.SetValue.GetValue()
		}
		s.mu.Unlock()
		answer.Response = &leaseholdv1.SessionResponse_ValueSet{ValueSet: &leaseholdv1.SessionValueSet{ValueSet: at >= 0}}
	case *leaseholdv1.SessionRequest_Acquire:
		s.ask(c, id, asked.Acquire)
	case *leaseholdv1.SessionRequest_Cancel:
		s.end(leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_CANCELLED, func(w *waiter) bool { return w.by == c && w.id == asked.Cancel.GetAcquireRequestId() })
	}
	if answer.Response != nil {
		c.say(id, answer)
	}
}

// is finds the hold of an owner id.
func is(name string, id []byte) func(*hold) bool {
	return func(h *hold) bool { return h.name == name && string(h.id) == string(id) }
}

// Acquire grants a lock without a session.
func (s *state) Acquire(_ context.Context, asked *leaseholdv1.AcquireRequest) (*leaseholdv1.AcquireResponse, error) {
	answers := make(chan *response, 2)
	c := &caller{client: asked.GetClientName(), ttl: cmp.Or(asked.GetTtl().AsDuration(), defaultTTL), say: func(_ uint64, answer *response) { answers <- answer }}
	acquire := &leaseholdv1.SessionAcquire{Name: asked.GetName(), Mode: asked.GetMode(), Permits: asked.GetPermits(), Limit: asked.GetLimit()}
	acquire.Value, acquire.Wait = asked.GetValue(), durationpb.New(asked.GetWait().AsDuration())
	s.ask(c, 0, acquire)
	answer := <-answers
	if answer.GetGranted() == nil {
		return &leaseholdv1.AcquireResponse{Outcome: answer.GetNotGranted().GetOutcome(), Holder: answer.GetNotGranted().GetHolder()}, nil
	}
	lock := answer.GetGranted().GetLocks()[0]
	granted := &leaseholdv1.AcquireResponse{Outcome: leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_GRANTED, Ttl: durationpb.New(c.ttl)}
	granted.OwnerId, granted.FencingToken, granted.Permits = lock.GetOwnerId(), lock.GetFencingToken(), lock.GetPermits()
	return granted, nil
}

// Release ends a hold without a session.
func (s *state) Release(_ context.Context, asked *leaseholdv1.ReleaseRequest) (*leaseholdv1.ReleaseResponse, error) {
	return &leaseholdv1.ReleaseResponse{Released: s.drop(is(asked.GetName(), asked.GetOwnerId())) > 0}, nil
}
