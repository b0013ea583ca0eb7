// Package k8s has a resource lock for client-go's leader election, which programs use in place of a Lease of the Kubernetes API. It works
// with the LeaderElector of client-go and with the manager of controller-runtime, inside a cluster or without one.
//
//	lock := k8s.New(client, "billing/controller", hostname)
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock:            lock,
//		LeaseDuration:   15 * time.Second,
//		RenewDeadline:   10 * time.Second,
//		RetryPeriod:     2 * time.Second,
//		ReleaseOnCancel: true,
//		Callbacks: leaderelection.LeaderCallbacks{
//			OnStartedLeading: lock.Leading(func(ctx context.Context, hold *leasehold.Hold) { … }),
//			OnStoppedLeading: func() { … },
//		},
//	})
//
// # Safety
//
// A LeaderElector asks for its lease every RetryPeriod, and leads on for RenewDeadline after the first answer that it does not like. The
// lock itself may be lost at any moment between, and if a proxy resets its connection, the coordinator learns of the loss up to a TTL
// before this process. Three things keep two electors from leading at once:
//
//   - Each term has a lock-delay of the session's TTL and LeaseDuration together: after a term that ended in any way other than a
//     release, nobody is elected for so long. Set LeaseDuration to RenewDeadline and RetryPeriod together at least, in whole seconds.
//   - Leading and Context stop the program at the moment of the loss, and not at the elector's next look. Without them, a process that was
//     stopped for longer than the lock-delay leads for RenewDeadline after it wakes up.
//   - Leading passes the hold, whose fencing token lets a resource refuse a leader that was paused and does not know yet. An operator's
//     force release also ends a lock-delay, so that the token alone covers it.
//
// Coordinated leader election is not supported: with it, an elector never leads.
package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/endings"
)

var (
	_ resourcelock.Interface = (*Lock)(nil)

	// leases is the resource that errors name, because electors and their logs expect one.
	leases = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
)

// Lock is a resourcelock.Interface whose lease is a lock of Leasehold. Use one for each elector, and don't share it between several that
// run at once. Its other methods may be called from any number of goroutines.
//
// The term of a leader ends when its elector releases it (ReleaseOnCancel), when it is lost, or when the elector has not renewed it for
// LeaseDuration. An elector that has stopped without a release therefore lets go of the lock after that time, as it would of a Lease,
// although its process lives on.
type Lock struct {
	client   *leasehold.Client
	name     string
	identity string
	options  options
	// gets counts calls of Get.
	gets atomic.Uint64

	mu sync.Mutex
	// term is the present one, also after its loss, until its elector must have stopped.
	term *term
	// contexts are those of Context.
	contexts endings.Contexts
}

// New makes a lock of this name: 1 to 512 bytes of UTF-8 without control characters. The identity says who leads, and must differ between
// the candidates. The client's identity needs the permissions acquire and inspect of the name, if the coordinator has permissions.
func New(client *leasehold.Client, name, identity string, opts ...Option) *Lock {
	l := &Lock{client: client, name: name, identity: identity}
	for _, o := range opts {
		o(&l.options)
	}
	return l
}

// Get returns the record of the present leader, and bytes that differ at each call while that is another candidate: an elector takes an
// unchanged record for an expired one, by its own clock, where Leasehold knows whether the leader holds its lock. Fails with NotFound if
// the lock is free, and with ErrLost if it is free because this elector lost it and may not have stopped yet.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	// It opens in the background, so that a Create that follows finds it open.
	_ = l.session()
	var lost error
	if t := l.current(); t != nil {
		if lost = t.hold.Err(); lost == nil {
			return l.answer(t.record)
		}
	}
	view, err := l.client.Admin().GetLock(ctx, l.name)
	if err != nil {
		return nil, nil, err
	}
	leader := l.leaderOf(view)
	switch {
	case leader != "":
		record := resourcelock.LeaderElectionRecord{HolderIdentity: leader, LeaseDurationSeconds: 1}
		if holder := firstHolder(view); holder != nil {
			_ = json.Unmarshal(holder.Value, &record)
		}
		record.HolderIdentity, record.LeaseDurationSeconds = leader, max(1, record.LeaseDurationSeconds)
		return l.answer(record)
	case lost != nil:
		return nil, nil, fmt.Errorf("the former term of this process has not ended: %w", lost)
	default:
		return nil, nil, apierrors.NewNotFound(leases, l.name)
	}
}

// session returns the session that holds the lock; nil once the client is closed.
func (l *Lock) session() *leasehold.Session {
	if l.options.session != nil {
		return l.options.session
	}
	return l.client.Session()
}

// answer returns a record, and bytes that no other answer has.
func (l *Lock) answer(record resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, []byte, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, err
	}
	raw = strconv.AppendUint(append(raw, '#'), l.gets.Add(1), 10)
	return &record, raw, nil
}

// leaderOf returns the identity of the candidate that has the lock; empty if it is free. It is never this one's, which has no term.
func (l *Lock) leaderOf(view *leasehold.LockView) string {
	holder := firstHolder(view)
	var record resourcelock.LeaderElectionRecord
	switch {
	case holder == nil && view.IsClosed:
		return "nobody: closed by a lock-delay"
	case holder == nil:
		return ""
	case json.Unmarshal(holder.Value, &record) == nil && record.HolderIdentity == l.identity:
		return l.identity + " (session " + holder.SessionID + ")"
	case record.HolderIdentity != "":
		return record.HolderIdentity
	case holder.IsForeign:
		return "a program that does not use Leasehold"
	case holder.ClientName != "":
		return "client " + holder.ClientName
	default:
		return "session " + holder.SessionID
	}
}

func firstHolder(view *leasehold.LockView) *leasehold.Holder {
	if holders := view.Holders; len(holders) > 0 {
		return &holders[0]
	}
	return nil
}

// Create acquires the lock without waiting, and begins a term. Fails with AlreadyExists if it is not free, or if the former term of this
// process has not ended, and with ErrUnavailable while the session is not open.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.identity {
		return fmt.Errorf("the record is that of %q, and the lock of %q", record.HolderIdentity, l.identity)
	}
	if l.current() != nil {
		return apierrors.NewAlreadyExists(leases, l.name)
	}
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	session := l.session()
	if session == nil {
		return leasehold.ErrClosed
	}
	info, isOpen := session.Info()
	if !isOpen {
		return leasehold.ErrUnavailable
	}
	lease := time.Duration(max(1, record.LeaseDurationSeconds)) * time.Second
	delay := info.TTL + lease
	if l.options.hasLockDelay {
		delay = l.options.lockDelay
	}
	// With an actor, a leader that asks for the lock with its context does not wait for itself.
	hold, err := session.Lock(l.name).Value(value).LockDelay(delay).Actor(leasehold.NewActor()).Try(ctx)
	if errors.Is(err, leasehold.ErrBusy) {
		return apierrors.NewAlreadyExists(leases, l.name)
	}
	if err != nil {
		return err
	}
	l.begin(hold, record, lease)
	return nil
}

// Update renews the term: it succeeds only while this process holds the lock, by its own clock. With an empty identity it releases the
// lock, after the function of Leading has returned; if the context ends before that, the release follows as soon as it has. It never
// acquires the lock.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	switch record.HolderIdentity {
	case "":
		return l.resign(ctx)
	case l.identity:
		return l.renew(record)
	default:
		return fmt.Errorf("the record is that of %q, and the lock of %q", record.HolderIdentity, l.identity)
	}
}

// RecordEvent passes an event of the elector to the function of WithEvents.
func (l *Lock) RecordEvent(event string) {
	if l.options.events != nil {
		l.options.events(l.identity + " " + event)
	}
}

// Identity returns the identity of this candidate.
func (l *Lock) Identity() string {
	return l.identity
}

// Describe returns a description for logs.
func (l *Lock) Describe() string {
	return "leasehold/" + l.name
}
