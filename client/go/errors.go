package leasehold

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Sentinel errors, for errors.Is. The errors that this package returns say more: see AcquireError, LostError, HoldError,
// ConnectError and Failure.
var (
	// ErrLost is the cause with which the contexts of a lost hold are cancelled, and what every LostError is.
	ErrLost = errors.New("leasehold: the lock is lost")
	// ErrSuspended is returned by checks of a hold that is suspended: don't act on the lock.
	ErrSuspended = errors.New("leasehold: the lock is suspended")
	// ErrReleased is returned for a hold that this process has released.
	ErrReleased = errors.New("leasehold: the lock was released")
	// ErrBusy means that another client holds the lock, or that others wait for it, and the request did not wait.
	ErrBusy = errors.New("leasehold: the lock is busy")
	// ErrTimedOut means that the lock did not come free within the wait of the request.
	ErrTimedOut = errors.New("leasehold: the lock did not come free in time")
	// ErrUnavailable means that no coordinator could be asked in time, or that it could not reach its store.
	ErrUnavailable = errors.New("leasehold: no coordinator could be reached, or its store")
	// ErrClosed means that this process has closed the session or the client, or is about to. It is the cause with which the contexts of
	// work are cancelled then: the lock is held on until the work has returned.
	ErrClosed = errors.New("leasehold: the session was closed")
	// ErrUnconfirmed means that a request about a hold had no answer in time: it may have been carried out.
	ErrUnconfirmed = errors.New("leasehold: the request was not confirmed")
	// ErrInvalid means that an argument, an option or a field of the request is out of bounds. Nothing else is touched.
	ErrInvalid = errors.New("leasehold: invalid request")
	// ErrUnauthenticated means that the coordinator does not know the client: it showed no certificate and no token, or none that
	// is valid.
	ErrUnauthenticated = errors.New("leasehold: the coordinator does not know this client")
	// ErrPermissionDenied means that the coordinator does not allow the request.
	ErrPermissionDenied = errors.New("leasehold: not allowed")
	// ErrLimitReached means that one of the coordinator's limits is reached.
	ErrLimitReached = errors.New("leasehold: a limit is reached")
	// ErrRefused means that the coordinator could not serve the request, for another reason.
	ErrRefused = errors.New("leasehold: the coordinator could not serve the request")
	// ErrSelfDeadlock means that the actor holds the lock already, or waits for it, and would have waited for itself. Use
	// Request.Reentrant to hold a lock more than once, and NewFlow for goroutines that ask side by side.
	ErrSelfDeadlock = errors.New("leasehold: the actor holds or awaits the lock already")
	// ErrAlreadyCandidate means that the session campaigns for the election already, or leads it.
	ErrAlreadyCandidate = errors.New("leasehold: the session is a candidate already")
	// ErrUpgradeRefused means that the actor holds the lock in a weaker way than it asks for: shared instead of exclusively, or
	// with fewer permits. Release it first, and ask anew.
	ErrUpgradeRefused = errors.New("leasehold: the actor holds the lock in a weaker way")
	// ErrLimitMismatch means that the semaphore has another limit of the same revision, or one that is less than the permits that
	// the request needs. AcquireError.Limit is the one in force.
	ErrLimitMismatch = errors.New("leasehold: the semaphore has another limit")
	// ErrDeadlock means that actors waited for one another in a circle, and the coordinator ended this wait. Release what the actor
	// holds, and begin anew.
	ErrDeadlock = errors.New("leasehold: the wait closed a deadlock")
	// ErrForceReleased means that an operator ended the wait.
	ErrForceReleased = errors.New("leasehold: an operator ended the wait")
)

// AcquireError is an acquire that failed.
type AcquireError struct {
	// Name is the lock's name; of several, all of them with commas in between.
	Name string
	// Kind is one of the sentinel errors: ErrBusy, ErrTimedOut, ErrUnavailable and so on. errors.Is finds it.
	Kind error
	// Wait is the wait of the request that timed out.
	Wait time.Duration
	// Holder is a holder of a lock that is busy or did not come free in time, if known.
	Holder *Holder
	// Limit is the semaphore's limit in force, with ErrLimitMismatch.
	Limit int64
	// Cause is a *Failure with the coordinator's answer, a *ConnectError, the cause of a cancelled context, or nil.
	Cause error
}

// Error describes the error.
func (e *AcquireError) Error() string {
	_, isAnswer := e.Cause.(*Failure)
	what := fmt.Sprintf("failed to acquire lock %s", shown(e.Name))
	switch {
	case e.Kind == ErrBusy:
		return fmt.Sprintf("lock %s is busy%s", shown(e.Name), by(e.Holder))
	case e.Kind == ErrTimedOut:
		return fmt.Sprintf("lock %s did not come free within %v%s", shown(e.Name), e.Wait, by(e.Holder))
	case e.Kind == ErrAlreadyCandidate:
		return fmt.Sprintf("failed to campaign for election %s: this session campaigns for it already, or leads it", shown(e.Name))
	case e.Kind == ErrClosed:
		return what + ": the session was closed"
	case e.Kind == ErrUnavailable && e.Cause == nil:
		return what + ": no coordinator answered"
	case e.Kind == ErrUnavailable && !isAnswer:
		return fmt.Sprintf("%s: no connection to a coordinator: %v", what, e.Cause)
	case e.Kind == ErrLimitMismatch:
		return fmt.Sprintf("failed to acquire permits of semaphore %s: its limit is %d: %v", shown(e.Name), e.Limit, e.Cause)
	case e.Cause != nil:
		return fmt.Sprintf("%s: %v", what, e.Cause)
	default:
		return fmt.Sprintf("%s: %v", what, e.Kind)
	}
}

// Unwrap returns the sentinel error and the cause.
func (e *AcquireError) Unwrap() []error {
	return pair(e.Kind, e.Cause)
}

// Failure returns the coordinator's answer, if that is the cause.
func (e *AcquireError) Failure() *Failure {
	return failureIn(e.Cause)
}

// Retryable reports whether the same request may succeed later, though nothing else changes.
func (e *AcquireError) Retryable() bool {
	switch e.Kind {
	case ErrBusy, ErrTimedOut:
		return true
	case ErrUnavailable:
		var connect *ConnectError
		return !errors.As(e.Cause, &connect) || connect.Retryable()
	}
	failure := e.Failure()
	return failure != nil && failure.Retryable()
}

// by describes the holder of a lock that is not free.
func by(holder *Holder) string {
	switch {
	case holder == nil:
		return ""
	case holder.IsForeign:
		return ": held by a program that does not use Leasehold"
	case holder.ClientName != "":
		return fmt.Sprintf(": held by %q", holder.ClientName)
	case holder.SessionID != "":
		return ": held by session " + holder.SessionID
	default:
		return ": held by a caller without a session"
	}
}

// LostError is the loss of a lock. It is ErrLost.
type LostError struct {
	// Name is the lock's name.
	Name string
	// Token is the fencing token of the hold.
	Token int64
	// Reason says why it was lost.
	Reason LostReason
}

// Error describes the loss.
func (e *LostError) Error() string {
	_, reason := e.Reason.words()
	return fmt.Sprintf("lost lock %q: %s", e.Name, reason)
}

// Is reports whether the target is ErrLost, or the same loss.
func (e *LostError) Is(target error) bool {
	same, isLost := target.(*LostError)
	return target == ErrLost || isLost && *same == *e
}

// HoldError is a request about a hold that failed for another reason than a loss.
type HoldError struct {
	// Name is the lock's name.
	Name string
	// Kind is ErrUnconfirmed, or the sentinel error that stands for the coordinator's answer. errors.Is finds it.
	Kind error
	// Cause is a *Failure with the coordinator's answer, or nil.
	Cause error
}

// Error describes the error.
func (e *HoldError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("the request about lock %q failed: %v: %v", e.Name, e.Kind, e.Cause)
	}
	return fmt.Sprintf("the request about lock %q failed: %v; it may have been carried out", e.Name, e.Kind)
}

// Unwrap returns the sentinel error and the cause.
func (e *HoldError) Unwrap() []error {
	return pair(e.Kind, e.Cause)
}

// ConnectError is a coordinator at which no session could be opened.
type ConnectError struct {
	// Endpoint is the coordinator's URL; empty if options can't be used, whatever the coordinator.
	Endpoint string
	// Cause is a *Failure with the coordinator's answer or the failed connection, or an error of the settings.
	Cause error

	kind connectKind
	// after is how long an attempt took that did not come to an answer.
	after time.Duration
}

// connectKind says what became of an attempt to open a session.
type connectKind int

const (
	// connectInvalid: the settings can't work, and nothing was sent.
	connectInvalid connectKind = iota
	// connectUnreachable: the connection could not be made, or broke.
	connectUnreachable
	// connectTimedOut: no answer came in time.
	connectTimedOut
	// connectEnded: the coordinator ended the stream without a word.
	connectEnded
	// connectRefused: the coordinator refused.
	connectRefused
)

// Error describes the error.
func (e *ConnectError) Error() string {
	switch {
	case e.Endpoint == "":
		return fmt.Sprintf("leasehold: the settings can't be used: %v", e.Cause)
	case e.kind == connectTimedOut:
		return fmt.Sprintf("failed to open a session at %s: no answer within %v", e.Endpoint, e.after.Round(time.Millisecond))
	case e.kind == connectEnded:
		return fmt.Sprintf("failed to open a session at %s: the stream ended before the session was open", e.Endpoint)
	default:
		return fmt.Sprintf("failed to open a session at %s: %v", e.Endpoint, e.Cause)
	}
}

// Unwrap returns the sentinel error that stands for it, and the cause.
func (e *ConnectError) Unwrap() []error {
	switch e.kind {
	case connectInvalid:
		return pair(ErrInvalid, e.Cause)
	case connectRefused:
		return []error{e.Cause}
	default:
		return pair(ErrUnavailable, e.Cause)
	}
}

// Retryable reports whether the same attempt may succeed later.
func (e *ConnectError) Retryable() bool {
	switch e.kind {
	case connectInvalid:
		return false
	case connectTimedOut, connectEnded:
		return true
	default:
		failure := failureIn(e.Cause)
		return failure == nil || failure.Retryable()
	}
}

// isAnswer reports whether a coordinator answered.
func (e *ConnectError) isAnswer() bool {
	return e.kind == connectRefused
}

// connectFailed returns the error of a stream that broke, or was refused, before the session was open.
func connectFailed(endpoint string, failure *Failure) *ConnectError {
	kind := connectRefused
	if failure.transport {
		kind = connectUnreachable
	}
	return &ConnectError{Endpoint: endpoint, Cause: failure, kind: kind}
}

// pair returns the errors that are set.
func pair(one, other error) []error {
	return slices.DeleteFunc([]error{one, other}, func(err error) bool { return err == nil })
}

// failureIn returns the failure among the causes of an error; nil if there is none.
func failureIn(err error) (failure *Failure) {
	errors.As(err, &failure)
	return failure
}

// retryAfter returns the time that a coordinator asked for before the next attempt; 0 for none.
func retryAfter(err error) time.Duration {
	if failure := failureIn(err); failure != nil {
		return failure.RetryAfter
	}
	return 0
}
