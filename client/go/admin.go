package leasehold

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Admin looks at locks and sessions, and intervenes. Its calls need no session. Each goes to every address of every coordinator
// until one answers, and ends after ten seconds. One that changes something is not sent again if it may have been carried out.
type Admin struct {
	calls *calls
}

// ask makes a call of the admin service.
func ask[Q, A any](ctx context.Context, a *Admin, rule repeats, request Q,
	method func(leaseholdv1.AdminServiceClient, context.Context, Q, ...grpc.CallOption) (A, error),
) (A, error) {
	return call(ctx, a.calls, rule, func(ctx context.Context, on channel) (A, error) {
		return method(leaseholdv1.NewAdminServiceClient(on), ctx, request)
	})
}

// ListLocks yields all locks whose names begin with the prefix, without their waiters. A scan: unordered, and it may miss locks that come
// or go meanwhile. An error ends the sequence.
func (a *Admin) ListLocks(ctx context.Context, prefix string) iter.Seq2[*LockView, error] {
	return pages(lockViewOf, func(token string) ([]*leaseholdv1.LockView, string, error) {
		request := &leaseholdv1.ListLocksRequest{Prefix: prefix, PageToken: token}
		page, err := ask(ctx, a, repeatsFreely, request, leaseholdv1.AdminServiceClient.ListLocks)
		return page.GetLocks(), page.GetNextPageToken(), err
	})
}

// ListSessions yields the sessions of the coordinator that answers, in the order of their ids. An error ends the sequence.
func (a *Admin) ListSessions(ctx context.Context) iter.Seq2[*SessionView, error] {
	return pages(sessionViewOf, func(token string) ([]*leaseholdv1.SessionView, string, error) {
		request := &leaseholdv1.ListSessionsRequest{PageToken: token}
		page, err := ask(ctx, a, repeatsFreely, request, leaseholdv1.AdminServiceClient.ListSessions)
		return page.GetSessions(), page.GetNextPageToken(), err
	})
}

// pages yields what is on all pages.
func pages[W, T any](from func(*W) *T, page func(token string) ([]*W, string, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for token := ""; ; {
			items, next, err := page(token)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range items {
				if !yield(from(item), nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// GetLock returns the view of one lock: holders, token, TTL left, waiters in order. A free name is shown as free, not as an error.
func (a *Admin) GetLock(ctx context.Context, name string) (*LockView, error) {
	answer, err := ask(ctx, a, repeatsFreely, &leaseholdv1.GetLockRequest{Name: name}, leaseholdv1.AdminServiceClient.GetLock)
	if err != nil {
		return nil, err
	}
	return lockViewOf(answer.GetLock()), nil
}

// ForceRelease takes a lock from all its holders: notifies them, raises the token, and grants the next waiter. Reports false if the name
// was free.
func (a *Admin) ForceRelease(ctx context.Context, name string) (released bool, err error) {
	return a.forceRelease(ctx, &leaseholdv1.ForceReleaseRequest{Name: name})
}

// ForceReleaseHolder takes a lock from the holder with this fencing token. Others keep theirs. Reports false if there is no such holder.
func (a *Admin) ForceReleaseHolder(ctx context.Context, name string, token int64) (released bool, err error) {
	only := &leaseholdv1.ForceReleaseRequest_FencingToken{FencingToken: token}
	return a.forceRelease(ctx, &leaseholdv1.ForceReleaseRequest{Name: name, Only: only})
}

// ForceReleaseWaiter ends the wait of the waiter with this number, as GetLock shows it: its acquire fails with ErrForceReleased. Reports
// false if there is no such waiter.
func (a *Admin) ForceReleaseWaiter(ctx context.Context, name string, number uint64) (released bool, err error) {
	only := &leaseholdv1.ForceReleaseRequest_WaiterNumber{WaiterNumber: number}
	return a.forceRelease(ctx, &leaseholdv1.ForceReleaseRequest{Name: name, Only: only})
}

func (a *Admin) forceRelease(ctx context.Context, request *leaseholdv1.ForceReleaseRequest) (bool, error) {
	answer, err := ask(ctx, a, repeatsUnsent, request, leaseholdv1.AdminServiceClient.ForceRelease)
	return answer.GetReleased(), err
}

// RequestRelease asks the holders of a lock to release it, with a reason for people, which may be empty, and the time that they have: 1 s
// to 24 h, or 0 for none. It changes nothing about the lock. Returns how many holds were asked.
func (a *Admin) RequestRelease(ctx context.Context, name, reason string, within time.Duration) (asked int, err error) {
	return a.requestRelease(ctx, name, 0, reason, within)
}

// RequestReleaseHolder asks the holder with this fencing token, as RequestRelease asks all.
func (a *Admin) RequestReleaseHolder(ctx context.Context, name string, token int64, reason string, within time.Duration) (asked int, err error) {
	if token < 1 {
		// The coordinator would ask all holders.
		return 0, invalidField("fencing_token", fmt.Sprintf("must be at least 1, got %d", token))
	}
	return a.requestRelease(ctx, name, token, reason, within)
}

func (a *Admin) requestRelease(ctx context.Context, name string, token int64, reason string, within time.Duration) (asked int, err error) {
	if within < 0 {
		return 0, invalidField("within", fmt.Sprintf("must not be negative, got %v", within))
	}
	request := &leaseholdv1.RequestReleaseRequest{Name: name, FencingToken: token, Reason: reason, Within: optionalDuration(within)}
	answer, err := ask(ctx, a, repeatsUnsent, request, leaseholdv1.AdminServiceClient.RequestRelease)
	return int(answer.GetAskedCount()), err
}

// EndSession ends a session, at whichever coordinator it is: takes all its locks from it, ends its waits and its stream, and tells its
// client. The id is as listings show it. If the call fails, the session may yet end: ask again.
func (a *Admin) EndSession(ctx context.Context, id string) (*SessionEnded, error) {
	request := &leaseholdv1.EndSessionRequest{SessionId: id}
	answer, err := ask(ctx, a, repeatsUnsent, request, leaseholdv1.AdminServiceClient.EndSession)
	return some(answer, sessionEndedOf), err
}

// CheckToken reports whether a fencing token is still the newest of its name, and the newest on record; 0 if none is.
func (a *Admin) CheckToken(ctx context.Context, name string, token int64) (isCurrent bool, newest int64, err error) {
	request := &leaseholdv1.CheckTokenRequest{Name: name, FencingToken: token}
	answer, err := ask(ctx, a, repeatsFreely, request, leaseholdv1.AdminServiceClient.CheckToken)
	return answer.GetCurrent(), answer.GetNewestToken(), err
}

// Status returns the status of the coordinator that answers. It answers from memory, even if it cannot reach the store.
func (a *Admin) Status(ctx context.Context) (*Status, error) {
	answer, err := ask(ctx, a, repeatsFreely, &leaseholdv1.GetStatusRequest{}, leaseholdv1.AdminServiceClient.GetStatus)
	return some(answer, statusOf), err
}

// WatchEvent is an item of Admin.Watch. Exactly one of its fields is set.
type WatchEvent struct {
	// Lock is part of a snapshot: a lock that is held, closed or waited for. It replaces any earlier state of its name.
	Lock *LockView
	// Ready says that the snapshot is complete: locks that were not in it are free.
	Ready bool
	// Event is something that happened.
	Event *LockEvent
	// Gap says, for people, why events were missed: forget the state of all locks. A snapshot follows.
	Gap string
}

// Watch yields what happens to all locks whose names begin with the prefix, over all coordinators: first a snapshot, then every event,
// until the loop or the context ends. Read it all the time: the coordinator keeps back what is not read, and drops it after a while, which
// is a gap.
//
// If the connection breaks or the coordinator goes away, it yields a gap and asks again, for as long as it takes. An error ends the
// sequence: the coordinator refuses to be watched, or does not know how, or the context has ended, with its cause.
func (a *Admin) Watch(ctx context.Context, prefix string) iter.Seq2[WatchEvent, error] {
	request := &leaseholdv1.WatchLocksRequest{Prefix: prefix}
	open := func(ctx context.Context, on channel) (grpc.ServerStreamingClient[leaseholdv1.WatchLocksResponse], error) {
		return leaseholdv1.NewAdminServiceClient(on).WatchLocks(ctx, request)
	}
	return func(yield func(WatchEvent, error) bool) {
		// One gap for each outage: there is nothing to forget twice.
		hasTold := false
		err := feed(ctx, a.calls, open, func(message *leaseholdv1.WatchLocksResponse) bool {
			event, isKnown := watchEvent(message)
			if !isKnown {
				return true
			}
			hasTold = event.Gap == ""
			return yield(event, nil)
		}, func(failure *Failure) bool {
			if !hasTold {
				return true
			}
			hasTold = false
			return yield(WatchEvent{Gap: "the stream broke: " + failure.Error()}, nil)
		})
		if err != nil {
			yield(WatchEvent{}, err)
		}
	}
}

// watchEvent returns the item for a message; false for one that this version does not know.
func watchEvent(message *leaseholdv1.WatchLocksResponse) (event WatchEvent, isKnown bool) {
	switch told := message.GetResponse().(type) {
	case *leaseholdv1.WatchLocksResponse_Lock:
		return WatchEvent{Lock: lockViewOf(told.Lock)}, true
	case *leaseholdv1.WatchLocksResponse_Ready:
		return WatchEvent{Ready: true}, true
	case *leaseholdv1.WatchLocksResponse_Event:
		return WatchEvent{Event: lockEventOf(told.Event)}, true
	case *leaseholdv1.WatchLocksResponse_Gap:
		gap := told.Gap.GetMessage()
		if gap == "" {
			gap = "the coordinator could not keep up"
		}
		return WatchEvent{Gap: gap}, true
	default:
		return WatchEvent{}, false
	}
}
