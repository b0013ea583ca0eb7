package leasehold_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"leasehold.dev/go"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

type lease = grpc.BidiStreamingServer[leaseholdv1.SessionRequest, leaseholdv1.SessionResponse]

// mute is a coordinator whose first stream grants a lock and then drains, and which answers on no other. It leaves streams to the test, in
// their order, as soon as they have said `open`.
type mute struct {
	leaseholdv1.UnimplementedLockServiceServer
	streams chan *muted
	// isDeaf is set if it does not even say that it serves another stream.
	isDeaf bool
	begun  atomic.Int32
	// validFor is the TTL, and the validity of its grant.
	validFor time.Duration
}

// muted is a stream as the coordinator has it.
type muted struct {
	lease
	resume []*leaseholdv1.SessionResume
	// end ends it plainly when it is closed.
	end chan struct{}
}

func (m *mute) Session(stream lease) error {
	if m.begun.Add(1) > 1 && m.isDeaf {
		m.streams <- nil
		<-stream.Context().Done()
		return nil
	}
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if open := request.GetOpen(); open != nil {
			s := &muted{lease: stream, resume: open.GetResume(), end: make(chan struct{})}
			if len(s.resume) > 0 {
				m.streams <- s
				select {
				case <-s.end:
				case <-stream.Context().Done():
				}
				return nil
			}
			s.say(request.GetRequestId(), &leaseholdv1.SessionResponse{Response: &leaseholdv1.SessionResponse_Opened{
				Opened: &leaseholdv1.SessionOpened{
					SessionId: "s", Coordinator: "c", Ttl: durationpb.New(m.validFor), HeartbeatInterval: durationpb.New(20 * time.Second),
				},
			}})
			m.streams <- s
		}
		if acquire := request.GetAcquire(); acquire != nil {
			s := &muted{lease: stream}
			s.say(request.GetRequestId(), &leaseholdv1.SessionResponse{Response: &leaseholdv1.SessionResponse_Granted{
				Granted: &leaseholdv1.SessionGranted{
					Locks: []*leaseholdv1.GrantedLock{
						{Name: acquire.GetName(), OwnerId: []byte("o"), FencingToken: 7, HoldCount: 1},
					},
					ValidFor: durationpb.New(m.validFor),
				},
			}})
			s.say(0, &leaseholdv1.SessionResponse{Response: &leaseholdv1.SessionResponse_Draining{
				Draining: &leaseholdv1.SessionDraining{Deadline: durationpb.New(time.Minute)},
			}})
		}
	}
}

func (s *muted) say(id uint64, message *leaseholdv1.SessionResponse) {
	message.RequestId = id
	// The client notices if it fails.
	_ = s.Send(message)
}

func (s *muted) lost(id []byte, reason leaseholdv1.LostReason) {
	s.say(0, &leaseholdv1.SessionResponse{Response: &leaseholdv1.SessionResponse_Lost{
		Lost: &leaseholdv1.SessionLost{Locks: []*leaseholdv1.LostLock{{Name: "a", OwnerId: id, Reason: reason}}},
	}})
}

// serve returns its endpoint.
func (m *mute) serve(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer()
	leaseholdv1.RegisterLockServiceServer(server, m)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	wantErr(t, err, nil)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}

// TestClosingEndsAnAttemptToMove closes a session that moves to a coordinator which does not answer.
func TestClosingEndsAnAttemptToMove(t *testing.T) {
	t.Parallel()
	// The attempt would go on for a third of that.
	coordinator := &mute{streams: make(chan *muted, 100), isDeaf: true, validFor: time.Hour}
	client := connect(t, coordinator.serve(t), leasehold.WithConnectTimeout(time.Hour))
	acquire(t, client.Lock("a"))
	await(t, "the session", coordinator.streams)
	await(t, "the attempt to move", coordinator.streams)
	closed := make(chan struct{})
	go func() {
		client.Close()
		close(closed)
	}()
	await(t, "the client to close", closed)
}

// TestWordsOfStreamsThatTheSessionIsNotOpenOnEndTheHold moves a session to a coordinator that takes everything over, and does not answer.
func TestWordsOfStreamsThatTheSessionIsNotOpenOnEndTheHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(old, overdue *muted)
		want    leasehold.LostReason
	}{
		"an end of the overdue stream": {func(_, overdue *muted) { close(overdue.end) }, leasehold.LostSessionEnded},
		"a loss on the overdue stream": {func(_, overdue *muted) {
			overdue.lost(overdue.resume[0].GetNextOwnerId(), leaseholdv1.LostReason_LOST_REASON_FORCED)
		}, leasehold.LostForced},
		"a loss on the old stream": {func(old, _ *muted) {
			old.lost([]byte("o"), leaseholdv1.LostReason_LOST_REASON_RESUMED)
			old.lost([]byte("o"), leaseholdv1.LostReason_LOST_REASON_DELETED)
		}, leasehold.LostDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coordinator := &mute{streams: make(chan *muted, 100), validFor: time.Minute}
			client := connect(t, coordinator.serve(t), leasehold.WithConnectTimeout(2*time.Second))
			hold := acquire(t, client.Lock("a"))
			old := await(t, "the session", coordinator.streams)
			overdue := await(t, "the attempt to move", coordinator.streams)
			// The next one begins when that has been given up.
			await(t, "another attempt", coordinator.streams)
			if err := hold.Err(); err != nil {
				t.Fatal(err)
			}
			c.happens(old, overdue)
			await(t, "the loss", hold.Lost())
			var lost *leasehold.LostError
			if err := hold.Err(); !errors.As(err, &lost) || lost.Reason != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
