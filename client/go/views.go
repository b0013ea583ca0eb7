package leasehold

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Mode is how a lock is held, or is to be held.
type Mode int

const (
	// ModeFree means that nobody holds the lock.
	ModeFree Mode = iota
	// ModeExclusive means one holder at a time.
	ModeExclusive
	// ModeShared means any number of shared holders at a time, and no other.
	ModeShared
	// ModeSemaphore means holders of permits, which together are within the limit.
	ModeSemaphore
)

// String returns the mode in lower case, such as "exclusive"; "free" for ModeFree.
func (m Mode) String() string {
	return nameOf([]string{"free", "exclusive", "shared", "semaphore"}, int(m))
}

// Holder is a holder of a lock, as others see it. The owner id is secret and never shown.
type Holder struct {
	// SessionID is the session that holds it; empty for a hold without a session, and for a foreign one.
	SessionID string
	// ClientName is the name that the client gave itself; empty if it gave none.
	ClientName string
	// Coordinator is the one through which it was granted or last confirmed; empty for a foreign holder.
	Coordinator string
	// Token is the fencing token of the grant; 0 for a foreign holder, which has none.
	Token int64
	// AcquiredAt is when it was granted, by the store's clock; zero for a foreign holder.
	AcquiredAt time.Time
	// TTL is the time left until the hold ends unless it is renewed; 0 if it never ends, as a foreign key without expiry.
	TTL time.Duration
	// Value is what the holder attached to its hold: at most 4 KiB. Listings have its first 64 bytes.
	Value []byte
	// Count is how many times the holder holds it: more than 1 only for reentrant holds; 0 for a foreign holder.
	Count int
	// IsForeign is set if a program that does not use Leasehold set the lock's key.
	IsForeign bool
	// Permits are those that it holds of a semaphore; 0 in other modes.
	Permits int64
	// Actor is the client's flow that holds it; 0 if it named none.
	Actor uint64
	// MaxHold is the longest time from AcquiredAt for which it may be held; 0 if there is no bound.
	MaxHold time.Duration
	// Peer is the network address that the session came from. Only Admin.GetLock tells it, at the coordinator that serves the session, to
	// those who may list that; empty otherwise.
	Peer string
}

// Waiter is a waiter for a lock, as others see it.
type Waiter struct {
	// SessionID is the session that waits; empty for a waiter without a session.
	SessionID string
	// ClientName is the name that the client gave itself; empty if it gave none.
	ClientName string
	// Coordinator is the one at which it waits.
	Coordinator string
	// WaitingSince is when it joined the queue, by the store's clock.
	WaitingSince time.Time
	// Position is its place in the queue: 1 is next.
	Position int64
	// Mode is how it wants to hold the lock.
	Mode Mode
	// Permits are those that it wants of a semaphore, at most if PermitsAtLeast is set; 0 in other modes.
	Permits int64
	// PermitsAtLeast is the fewest permits that it is content with; 0 if it waits for all.
	PermitsAtLeast int64
	// Actor is the client's flow that waits; 0 if it named none.
	Actor uint64
	// Number names the waiter among those of its lock, for Admin.ForceReleaseWaiter.
	Number uint64
	// Peer is the network address that the session came from, told as for a Holder.
	Peer string
}

// LockView is everything that can be seen of one lock.
type LockView struct {
	// Name is the lock's name.
	Name string
	// Mode is how it is held now.
	Mode Mode
	// Holders are its holders: at most 100 of them, those that expire first. HolderCount counts all.
	Holders     []Holder
	HolderCount int64
	// Waiters are its waiters, in the order in which they will be served: at most 100 of them, and none in listings. WaiterCount counts
	// all.
	Waiters     []Waiter
	WaiterCount int64
	// Token is the newest fencing token that was granted for this name; 0 if none is on record.
	Token int64
	// IsClosed is set while the lock stays closed after an unclean end (its lock-delay), and ClosedFor is the time left of that. After a
	// shared hold it is closed only to exclusive acquires; after a semaphore's hold, that hold's permits stay taken.
	IsClosed  bool
	ClosedFor time.Duration
	// LockDelay is that of the present hold, the longest of several; 0 if there is none.
	LockDelay time.Duration
	// Limit is the semaphore's, while it has holders or waiters; 0 for other locks. LimitRevision is its revision.
	Limit, LimitRevision int64
	// PermitsTaken are the semaphore's permits that are taken, including closed ones; 0 for other locks. More than the limit after that
	// was lowered, until enough of them are given back.
	PermitsTaken int64
}

// EventKind is what happened to a lock.
type EventKind int

const (
	// EventUnknown is a kind that this version does not know.
	EventUnknown EventKind = iota
	// EventGranted: Holder holds the lock now.
	EventGranted
	// EventQueued: Waiter waits for it now.
	EventQueued
	// EventWithdrawn: Waiter gave up, its session ended, or it needs more permits than a limit that was lowered.
	EventWithdrawn
	// EventReleased: a hold was released, or its session or its bound ended. Holder held it.
	EventReleased
	// EventExpired: a hold expired, up to a second before the event. Holder held it.
	EventExpired
	// EventLost: a hold was missing from the store before its time, see Reason. Holder held it.
	EventLost
	// EventForced: an operator took a hold away, of Holder, or ended a wait, of Waiter.
	EventForced
	// EventValueChanged: Holder changed its value, and has the new one.
	EventValueChanged
	// EventDowngraded: Holder made its exclusive hold a shared one.
	EventDowngraded
	// EventLimitChanged: an acquire replaced the limit of a semaphore, or its revision: Limit and LimitRevision.
	EventLimitChanged
	// EventPermitsReduced: Holder gave some of its permits back, and has those that it kept.
	EventPermitsReduced
	// EventReleaseRequested: an operator asked Holder to release the lock, which holds it still.
	EventReleaseRequested
)

// String returns the kind in snake case, such as "value_changed".
func (k EventKind) String() string {
	return nameOf([]string{"unknown", "granted", "queued", "withdrawn", "released", "expired", "lost", "forced", "value_changed",
		"downgraded", "limit_changed", "permits_reduced", "release_requested"}, int(k))
}

// LockEvent is something that happened to a lock.
type LockEvent struct {
	// Kind is what happened.
	Kind EventKind
	// Name is the lock's name.
	Name string
	// Time is when it happened, by the store's clock, also if the coordinator noticed it later.
	Time time.Time
	// Token is that of the hold in question; 0 for events of waiters and foreign holders.
	Token int64
	// Holder is the hold in question, as last seen; nil for events of waiters.
	Holder *Holder
	// Waiter is the waiter in question; nil for events of holds.
	Waiter *Waiter
	// Reason is why a hold was lost; LostUnknown in other events.
	Reason LostReason
	// Mode is how the lock is held after this, HolderCount and WaiterCount by how many, and for how many wait.
	Mode                     Mode
	HolderCount, WaiterCount int64
	// ClosedFor is for how long the lock is closed after this, if it ended uncleanly; 0 if it is not.
	ClosedFor time.Duration
	// Limit and LimitRevision are the semaphore's after EventLimitChanged; 0 in other events.
	Limit, LimitRevision int64
}

// SessionView is what operators see of a session.
type SessionView struct {
	// ID is the session's id, as Admin.EndSession takes it.
	ID string
	// ClientName is the name that the client gave itself.
	ClientName string
	// Peer is the network address that it came from.
	Peer string
	// Coordinator is the one that serves it.
	Coordinator string
	// TTL is that of everything it holds.
	TTL time.Duration
	// OpenedAt is when it was opened, by the coordinator's wall clock.
	OpenedAt time.Time
	// SinceHeartbeat is the time since its last heartbeat was received. An idle session sends few.
	SinceHeartbeat time.Duration
	// HoldCount is how many locks it holds, WaiterCount how many acquires it has waiting.
	HoldCount, WaiterCount int
	// Metadata is that of WithSessionMetadata.
	Metadata map[string]string
	// Identity is the one that opened it, such as "cert:billing"; empty if callers need none.
	Identity string
}

// SessionEnded is the result of Admin.EndSession.
type SessionEnded struct {
	// Ended is false if no coordinator has such a session, and no lock names it.
	Ended bool
	// SessionCount is how many sessions were ended: more than 1 if others had resumed some of its locks; 0 if its coordinator is gone.
	SessionCount int
	// HoldCount and WaiterCount are how many holds and waits were ended.
	HoldCount, WaiterCount int
}

// Status is the status of a coordinator. Callers without the permission "inspect" on every lock see no store, no counts, no limits and no
// certificates.
type Status struct {
	// Coordinator is its id, as listings show it, and Version its version.
	Coordinator, Version string
	// Uptime is the time since it started.
	Uptime time.Duration
	// IsServing says whether it serves. Reason says why not, for people, or what its store has refused in the last minute.
	IsServing bool
	Reason    string
	// IsDraining is set while it waits for its clients to leave, because it was asked to stop.
	IsDraining bool
	// Store is the URL of its store without passwords, and IsStoreUp whether it reaches it; empty and nil if they are not shown.
	Store     string
	IsStoreUp *bool
	// SessionCount, HoldCount and WaiterCount are how many sessions it has, locks these hold, and acquires of theirs wait; nil if they
	// are not shown.
	SessionCount, HoldCount, WaiterCount *uint64
	// Time is its wall clock when it answered.
	Time time.Time
	// Identity is the caller's, such as "token:ci"; empty if callers need none.
	Identity string
	// Permissions are what the caller may do.
	Permissions []Permission
	// MinTTL, DefaultTTL and MaxTTL are the TTLs that it grants, and that of callers that ask for none.
	MinTTL, DefaultTTL, MaxTTL time.Duration
	// KeyPrefix is that of the Redis keys of locks, and MinReplicas how many replicas must acknowledge a grant; nil if they are not shown.
	KeyPrefix   *string
	MinReplicas *uint32
	// Limits are its limits, and how much of each is in use.
	Limits []Limit
	// Certificates are those in force.
	Certificates []Certificate
}

// Permission is what a caller may do.
type Permission struct {
	// Permission is "acquire", "inspect" or "administer".
	Permission string
	// Locks and Elections are prefixes of the names that it is for; the empty prefix stands for every name.
	Locks, Elections []string
}

// Limit is a limit of a coordinator.
type Limit struct {
	// Name is the setting, such as "max-sessions"; or "open-files".
	Name string
	// Used is how much of the limit is in use.
	Used, Limit uint64
}

// Certificate is a certificate of a coordinator.
type Certificate struct {
	// Purpose is "server" (the gRPC port), "admin" (the admin port) or "store" (to identify itself to Redis).
	Purpose string
	// Expires is when the first certificate of its chain expires.
	Expires time.Time
}

// Leader is the leader of an election, as others see it.
type Leader struct {
	// Token is the fencing token of its term; 0 for a holder that does not use Leasehold.
	Token int64
	// Value is what it proclaims: at most 4 KiB.
	Value []byte
	// ClientName is the name that it gave itself; empty if it gave none.
	ClientName string
	// SessionID is the session that leads; empty for a holder without one.
	SessionID string
	// Coordinator is the one through which it was elected or last confirmed.
	Coordinator string
	// ElectedAt is when it was elected, by the store's clock.
	ElectedAt time.Time
}

func nameOf(names []string, index int) string {
	if index < 0 || index >= len(names) {
		return "unknown"
	}
	return names[index]
}

// timeOf returns a time of the wire; zero if it is not set.
func timeOf(wire *timestamppb.Timestamp) time.Time {
	if wire == nil {
		return time.Time{}
	}
	return wire.AsTime()
}

// each returns a list of what becomes of each item; nil of none.
func each[A, B any](items []A, convert func(A) B) (list []B) {
	for _, item := range items {
		list = append(list, convert(item))
	}
	return list
}

// allOf converts a list of the wire.
func allOf[W, T any](wire []*W, from func(*W) *T) []T {
	return each(wire, func(one *W) T { return *from(one) })
}

// some converts what may not be set on the wire.
func some[W, T any](wire *W, from func(*W) *T) *T {
	if wire == nil {
		return nil
	}
	return from(wire)
}

func holderOf(h *leaseholdv1.Holder) *Holder {
	return &Holder{
		SessionID: h.GetSessionId(), ClientName: h.GetClientName(), Coordinator: h.GetCoordinator(), Token: h.GetFencingToken(),
		AcquiredAt: timeOf(h.GetAcquiredAt()), TTL: duration(h.GetTtl()), Value: h.GetValue(), Count: int(h.GetHoldCount()),
		IsForeign: h.GetForeign(), Permits: int64(h.GetPermits()), Actor: h.GetActor(), MaxHold: duration(h.GetMaxHold()),
		Peer: h.GetPeer(),
	}
}

func waiterOf(w *leaseholdv1.Waiter) *Waiter {
	return &Waiter{
		SessionID: w.GetSessionId(), ClientName: w.GetClientName(), Coordinator: w.GetCoordinator(),
		WaitingSince: timeOf(w.GetWaitingSince()), Position: int64(w.GetPosition()), Mode: Mode(w.GetMode()), Permits: int64(w.GetPermits()),
		PermitsAtLeast: int64(w.GetPermitsAtLeast()), Actor: w.GetActor(), Number: w.GetNumber(), Peer: w.GetPeer(),
	}
}

func lockViewOf(v *leaseholdv1.LockView) *LockView {
	return &LockView{
		Name: v.GetName(), Mode: Mode(v.GetMode()), Holders: allOf(v.GetHolders(), holderOf), HolderCount: int64(v.GetHolderCount()),
		Waiters: allOf(v.GetWaiters(), waiterOf), WaiterCount: int64(v.GetWaiterCount()), Token: v.GetFencingToken(),
		IsClosed: v.GetClosedFor() != nil, ClosedFor: duration(v.GetClosedFor()), LockDelay: duration(v.GetLockDelay()),
		Limit: int64(v.GetLimit()), LimitRevision: int64(v.GetLimitRevision()), PermitsTaken: int64(v.GetPermitsTaken()),
	}
}

func lockEventOf(e *leaseholdv1.LockEvent) *LockEvent {
	return &LockEvent{
		Kind: EventKind(e.GetKind()), Name: e.GetName(), Time: timeOf(e.GetTime()), Token: e.GetFencingToken(),
		Holder: some(e.GetHolder(), holderOf), Waiter: some(e.GetWaiter(), waiterOf), Reason: lostReasonOf[e.GetReason()], Mode: Mode(e.GetMode()),
		HolderCount: int64(e.GetHolderCount()), WaiterCount: int64(e.GetWaiterCount()), ClosedFor: duration(e.GetClosedFor()),
		Limit: int64(e.GetLimit()), LimitRevision: int64(e.GetLimitRevision()),
	}
}

func sessionViewOf(s *leaseholdv1.SessionView) *SessionView {
	return &SessionView{
		ID: s.GetSessionId(), ClientName: s.GetClientName(), Peer: s.GetPeer(), Coordinator: s.GetCoordinator(), TTL: duration(s.GetTtl()),
		OpenedAt: timeOf(s.GetOpenedAt()), SinceHeartbeat: duration(s.GetSinceHeartbeat()), HoldCount: int(s.GetHoldCount()),
		WaiterCount: int(s.GetWaiterCount()), Metadata: s.GetMetadata(), Identity: s.GetIdentity(),
	}
}

func sessionEndedOf(e *leaseholdv1.EndSessionResponse) *SessionEnded {
	return &SessionEnded{e.GetEnded(), int(e.GetSessionCount()), int(e.GetHoldCount()), int(e.GetWaiterCount())}
}

func statusOf(s *leaseholdv1.GetStatusResponse) *Status {
	status := &Status{
		Coordinator: s.GetCoordinator(), Version: s.GetVersion(), Uptime: duration(s.GetUptime()), IsServing: s.GetServing(),
		Reason: s.GetReason(), IsDraining: s.GetDraining(), Store: s.GetStore(), SessionCount: s.SessionCount, HoldCount: s.HoldCount,
		WaiterCount: s.WaiterCount, Time: timeOf(s.GetTime()), Identity: s.GetIdentity(), MinTTL: duration(s.GetMinTtl()),
		DefaultTTL: duration(s.GetDefaultTtl()), MaxTTL: duration(s.GetMaxTtl()), KeyPrefix: s.KeyPrefix, MinReplicas: s.MinReplicas,
		Permissions: allOf(s.GetPermissions(), func(p *leaseholdv1.PermissionView) *Permission {
			return &Permission{p.GetPermission(), slices.Clone(p.GetLocks()), slices.Clone(p.GetElections())}
		}),
		Limits: allOf(s.GetLimits(), func(l *leaseholdv1.LimitView) *Limit { return &Limit{l.GetName(), l.GetUsed(), l.GetLimit()} }),
		Certificates: allOf(s.GetCertificates(), func(c *leaseholdv1.CertificateView) *Certificate {
			return &Certificate{c.GetPurpose(), timeOf(c.GetExpires())}
		}),
	}
	if state := s.GetStoreState(); state != leaseholdv1.StoreState_STORE_STATE_UNSPECIFIED {
		isUp := state == leaseholdv1.StoreState_STORE_STATE_UP
		status.IsStoreUp = &isUp
	}
	return status
}

func leaderOf(l *leaseholdv1.Leader) *Leader {
	return &Leader{
		Token: l.GetFencingToken(), Value: l.GetValue(), ClientName: l.GetClientName(), SessionID: l.GetSessionId(),
		Coordinator: l.GetCoordinator(), ElectedAt: timeOf(l.GetElectedAt()),
	}
}
