package leasehold

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	shortestRequestKey, longestRequestKey = 16, 128
	ownerIDLength                         = 16
)

// DetachedRequest is a request for a lock that no session holds. Its settings return a changed copy. Nothing is sent before Acquire or Try.
type DetachedRequest struct {
	client *Client
	spec   acquireSpec
	ttl    time.Duration
	key    string
	hasKey bool
}

// DetachedLock requests the lock of this name without a session: nobody renews it but DetachedLock.Renew, and it outlives this process until
// its TTL has passed. Use it for what must outlast the process, such as "once in a period", and Lock for everything else.
func (c *Client) DetachedLock(name string) DetachedRequest {
	return DetachedRequest{client: c, spec: acquireSpec{locks: []LockSpec{Exclusive(name)}}}
}

// TTL sets the time for which the lock is held unless it is renewed: 1 s to 1 h unless the coordinator is configured otherwise. Renewals last
// as long. Default, also for 0: the coordinator's, 10 s.
func (r DetachedRequest) TTL(ttl time.Duration) DetachedRequest {
	r.ttl = ttl
	return r
}

// Wait sets the time to wait: 0 to 24 h. Default: not to wait.
func (r DetachedRequest) Wait(wait time.Duration) DetachedRequest {
	r.spec.setWait(wait)
	return r
}

// Value attaches a value to the hold for others to see: at most 4 KiB. Default: empty.
func (r DetachedRequest) Value(value []byte) DetachedRequest {
	r.spec.value = bytes.Clone(value)
	return r
}

// LockDelay sets the time for which the name stays closed if the TTL passes before a release: 0 to the maximum TTL. Default: 0.
func (r DetachedRequest) LockDelay(delay time.Duration) DetachedRequest {
	r.spec.lockDelay = delay
	return r
}

// Shared asks for a shared hold; see Request.Shared.
func (r DetachedRequest) Shared() DetachedRequest {
	r.spec.setShared()
	return r
}

// Permits asks for permits of the semaphore of that name and limit in place of a lock; see Semaphore.
func (r DetachedRequest) Permits(permits, limit int64) DetachedRequest {
	r.spec.locks = []LockSpec{Permits(r.spec.label(), permits, limit)}
	return r
}

// Key sets the request's key: 16 to 128 bytes, random and secret. Whoever asks with the same key takes over what an earlier request came to,
// with its token, for as long as that lasts. Default: another one for each call.
func (r DetachedRequest) Key(key string) DetachedRequest {
	r.key, r.hasKey = key, true
	return r
}

// Acquire acquires the lock. If a coordinator can't be reached, goes away, or its connection breaks before the answer, it asks at every
// other address under the same key, and takes over what an earlier attempt came to; all together take ten seconds longer than the wait at
// most.
//
// Fails with ErrBusy if the lock is not free, ErrTimedOut if it did not come free within the wait, ErrUnavailable if no coordinator answered,
// and otherwise as Request.Acquire does. If the context ends, the coordinator gives up the wait; a grant that crosses that is held until its
// TTL has passed.
func (r DetachedRequest) Acquire(ctx context.Context) (*DetachedLock, error) {
	name := r.spec.label()
	if failure := r.check(ctx); failure != nil {
		return nil, &AcquireError{Name: name, Kind: ErrInvalid, Cause: failure}
	}
	if r.client.hasClosed() {
		return nil, &AcquireError{Name: name, Kind: ErrClosed}
	}
	key := r.key
	if !r.hasKey {
		key = rand.Text()
	}
	answer, sentAt, err := r.ask(ctx, key)
	if errors.Is(err, ErrPermissionDenied) && !r.hasKey {
		// Where the permissions bound holds, a coordinator takes no key: a repeated request would extend the hold.
		answer, sentAt, err = r.ask(ctx, "")
	}
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		refused := acquireRefused(failure)
		refused.Name = name
		return nil, refused
	case errors.Is(err, ErrClosed):
		return nil, &AcquireError{Name: name, Kind: ErrClosed}
	case ctx.Err() != nil:
		return nil, &AcquireError{Name: name, Kind: ctx.Err(), Cause: context.Cause(ctx)}
	case err != nil:
		return nil, &AcquireError{Name: name, Kind: ErrUnavailable, Cause: err}
	}
	switch answer.GetOutcome() {
	case leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_GRANTED:
		lock := &DetachedLock{calls: r.client.calls, name: name, token: answer.GetFencingToken(), id: answer.GetOwnerId(), ttl: r.ttl}
		if lock.permits = int64(answer.GetPermits()); lock.permits == 0 {
			lock.permits = r.spec.locks[0].permits
		}
		lock.until = sentAt.After(duration(answer.GetTtl()))
		if lock.ValidFor() < duration(answer.GetTtl())/2 {
			// It waited: the TTL counts from the grant, which may have come just now, or a while ago.
			_ = lock.Renew(ctx)
		}
		return lock, nil
	case leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_BUSY, leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_TIMED_OUT:
		// A request that is repeated at the end of its wait does not wait.
		if r.spec.wait == 0 {
			return nil, &AcquireError{Name: name, Kind: ErrBusy, Holder: some(answer.GetHolder(), holderOf)}
		}
		return nil, &AcquireError{Name: name, Kind: ErrTimedOut, Wait: r.spec.wait, Holder: some(answer.GetHolder(), holderOf)}
	default:
		refused := acquireRefused(protocolFailure(fmt.Sprintf("the coordinator answered outcome %v", answer.GetOutcome())))
		refused.Name = name
		return nil, refused
	}
}

// Try acquires the lock if it is free. Fails with ErrBusy if it is not. Ignores Wait.
func (r DetachedRequest) Try(ctx context.Context) (*DetachedLock, error) {
	return r.Wait(0).Acquire(ctx)
}

func (r DetachedRequest) check(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if r.client == nil {
		return errNoClient
	}
	if failure := r.spec.check(); failure != nil {
		return failure
	}
	if r.hasKey && (len(r.key) < shortestRequestKey || len(r.key) > longestRequestKey) {
		return invalidField("request_key", fmt.Sprintf("must have %d to %d bytes, got %d", shortestRequestKey, longestRequestKey, len(r.key)))
	}
	return checkTTL(r.ttl)
}

func checkTTL(ttl time.Duration) error {
	if ttl < 0 {
		return invalidField("ttl", fmt.Sprintf("TTL must not be negative, got %v", ttl))
	}
	return nil
}

// ask makes the call, and returns when what was answered was sent.
func (r DetachedRequest) ask(ctx context.Context, key string) (answer *leaseholdv1.AcquireResponse, sentAt moment, err error) {
	end := clock.Now().After(r.spec.wait)
	lock := r.spec.locks[0]
	rule := repeatsFreely
	if key == "" {
		// Another attempt could wait behind the first.
		rule = repeatsUnsent
	}
	answer, err = callFor(ctx, r.client.calls, rule, r.spec.wait, func(ctx context.Context, on channel) (*leaseholdv1.AcquireResponse, error) {
		sentAt = clock.Now()
		request := &leaseholdv1.AcquireRequest{
			Name: lock.name, Wait: wireDuration(end.Since(sentAt)), Value: r.spec.value, ClientName: r.client.calls.settings.session.clientName,
			Mode: lock.mode, Permits: uint32(lock.permits), Limit: uint32(lock.limit), RequestKey: key,
			Ttl: optionalDuration(r.ttl), LockDelay: optionalDuration(r.spec.lockDelay),
		}
		return leaseholdv1.NewLockServiceClient(on).Acquire(ctx, request)
	})
	return answer, sentAt, err
}

// DetachedLock is a lock that no session holds. Renew it well before ValidFor has passed; otherwise it ends, whatever this process does. It is
// not released when this process ends. All methods may be called from any number of goroutines.
type DetachedLock struct {
	calls   *calls
	name    string
	token   int64
	id      []byte
	permits int64
	ttl     time.Duration

	mu sync.Mutex
	// until is when it ends unless it is renewed.
	until moment
	// err says why it has ended; nil while it may be held.
	err error
}

// AttachDetachedLock takes a detached lock up by the token and the owner id that its grant gave, perhaps to another process. It asks nobody:
// the lock counts as held for no time until Renew has succeeded.
func (c *Client) AttachDetachedLock(name string, token int64, ownerID []byte) (*DetachedLock, error) {
	failure := checkText("name", name, 1, longestName)
	switch {
	case failure != nil:
	case token < 1:
		failure = invalidField("token", fmt.Sprintf("must be at least 1, got %d", token))
	case len(ownerID) != ownerIDLength:
		failure = invalidField("owner_id", fmt.Sprintf("must have %d bytes, got %d", ownerIDLength, len(ownerID)))
	}
	if failure != nil {
		return nil, &HoldError{Name: name, Kind: ErrInvalid, Cause: failure}
	}
	return &DetachedLock{calls: c.calls, name: name, token: token, id: bytes.Clone(ownerID), until: clock.Now()}, nil
}

// Name returns the lock's name.
func (l *DetachedLock) Name() string { return l.name }

// Token returns the fencing token; see Hold.Token.
func (l *DetachedLock) Token() int64 { return l.token }

// Permits returns how many permits of a semaphore were granted; 0 for other locks, and for one that was attached.
func (l *DetachedLock) Permits() int64 { return l.permits }

// OwnerID returns the owner id: the right to renew and to release the lock, for another process. Secret: keep it out of logs.
func (l *DetachedLock) OwnerID() []byte { return bytes.Clone(l.id) }

// String returns the lock's name, its token and the time for which it is valid.
func (l *DetachedLock) String() string {
	return fmt.Sprintf("detached lock %s, token %d, valid for %v", shown(l.name), l.token, l.ValidFor().Round(time.Millisecond))
}

// GoString returns what String does.
func (l *DetachedLock) GoString() string { return l.String() }

// ValidFor returns the time left until the lock may be another client's, by this process's own clock; 0 once that has passed.
func (l *DetachedLock) ValidFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0
	}
	return l.until.Since(clock.Now())
}

// Check returns nil while the lock is held, by this process's own clock, and otherwise a LostError or ErrReleased. A force release shows at
// the next renewal. A lock whose TTL has passed may be held on, as Renew finds out.
func (l *DetachedLock) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.until <= clock.Now() {
		return &LostError{Name: l.name, Token: l.token, Reason: LostExpired}
	}
	return l.err
}

// Renew extends the hold to a full TTL from now, that of the request. If no coordinator answers, it is repeated at all of them for at most ten
// seconds. Returns a LostError if the lock was lost, and a HoldError if no coordinator could renew it: it then lasts for as long as before,
// and perhaps longer.
func (l *DetachedLock) Renew(ctx context.Context) error {
	return l.RenewFor(ctx, l.ttl)
}

// RenewFor renews as Renew does, for this TTL: 0 for the coordinator's default.
func (l *DetachedLock) RenewFor(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return &HoldError{Name: l.name, Kind: ErrInvalid, Cause: err}
	}
	request := &leaseholdv1.RenewRequest{Name: l.name, OwnerId: l.id, Ttl: optionalDuration(ttl)}
	var sentAt moment
	answer, err := call(ctx, l.calls, repeatsFreely, func(ctx context.Context, on channel) (*leaseholdv1.RenewResponse, error) {
		sentAt = clock.Now()
		return leaseholdv1.NewLockServiceClient(on).Renew(ctx, request)
	})
	if err != nil {
		return l.failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !answer.GetRenewed() && l.err == nil {
		l.err = &LostError{Name: l.name, Token: l.token, Reason: LostUnknown}
	}
	if l.err == nil {
		l.until = sentAt.After(duration(answer.GetTtl()))
	}
	return l.err
}

// Release releases the lock and hands it to the next waiter. If no coordinator answers, it is repeated at all of them for at most ten
// seconds. Returns a LostError if there was nothing to release, and a HoldError if no coordinator could release it: call it again, or the
// lock ends with its TTL. Releasing it again does nothing.
func (l *DetachedLock) Release(ctx context.Context) error {
	l.mu.Lock()
	isReleased := errors.Is(l.err, ErrReleased)
	l.mu.Unlock()
	if isReleased {
		return nil
	}
	attempts := 0
	answer, err := call(ctx, l.calls, repeatsFreely, func(ctx context.Context, on channel) (*leaseholdv1.ReleaseResponse, error) {
		attempts++
		return leaseholdv1.NewLockServiceClient(on).Release(ctx, &leaseholdv1.ReleaseRequest{Name: l.name, OwnerId: l.id})
	})
	if err != nil {
		return l.failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A repeated one finds nothing if the first was carried out.
	if !answer.GetReleased() && attempts == 1 {
		if l.err == nil {
			l.err = &LostError{Name: l.name, Token: l.token, Reason: LostUnknown}
		}
		return l.err
	}
	l.err = ErrReleased
	return nil
}

// failed returns the error of a call about the lock.
func (l *DetachedLock) failed(err error) error {
	failed := &HoldError{Name: l.name, Kind: ErrUnconfirmed, Cause: err}
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		failed.Kind = failure.sentinel()
	case errors.Is(err, ErrClosed):
		failed.Kind = ErrClosed
	}
	return failed
}
