package leasehold

import (
	"slices"
	"strings"
	"time"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// LockSpec is one lock of several that a request asks for together, with its mode. Made by Exclusive, Shared and Permits.
type LockSpec struct {
	name    string
	mode    leaseholdv1.LockMode
	permits int64
	// atLeast is the fewest permits to be content with; only if isRange is set.
	atLeast  int64
	isRange  bool
	limit    int64
	revision int64
	// misuse says what was asked for that its mode does not have; empty for nothing.
	misuse string
}

// Exclusive is an exclusive hold of the lock of this name.
func Exclusive(name string) LockSpec {
	return LockSpec{name: name, mode: leaseholdv1.LockMode_LOCK_MODE_EXCLUSIVE}
}

// Shared is a shared hold of the lock of this name: together with other shared holders, and never with an exclusive one.
func Shared(name string) LockSpec {
	return LockSpec{name: name, mode: leaseholdv1.LockMode_LOCK_MODE_SHARED}
}

// Permits is a number of permits, 1 to limit, of the semaphore of this name and limit.
func Permits(name string, permits, limit int64) LockSpec {
	return LockSpec{name: name, mode: leaseholdv1.LockMode_LOCK_MODE_SEMAPHORE, permits: permits, limit: limit}
}

// AtLeast accepts fewer permits: at least this many, 1 to those asked for. The request fails with ErrInvalid in other modes.
func (s LockSpec) AtLeast(permits int64) LockSpec {
	s.atLeast, s.isRange = permits, true
	return s.ofPermits()
}

// LimitRevision sets the revision of the decision for a semaphore's limit; see Semaphore.LimitRevision. The request fails with
// ErrInvalid in other modes.
func (s LockSpec) LimitRevision(revision int64) LockSpec {
	s.revision = revision
	return s.ofPermits()
}

// ofPermits notes the misuse of what only permits have.
func (s LockSpec) ofPermits() LockSpec {
	if s.mode != leaseholdv1.LockMode_LOCK_MODE_SEMAPHORE {
		s.misuse = "only the permits of a semaphore have a range and a limit"
	}
	return s
}

// shared asks for a shared hold instead of an exclusive one.
func (s LockSpec) shared() LockSpec {
	if s.mode == leaseholdv1.LockMode_LOCK_MODE_SEMAPHORE {
		s.misuse = "permits of a semaphore can't be shared"
		return s
	}
	s.mode = leaseholdv1.LockMode_LOCK_MODE_SHARED
	return s
}

// Name returns the lock's name.
func (s LockSpec) Name() string {
	return s.name
}

// inSameMode reports whether one mode describes both.
func (s LockSpec) inSameMode(other LockSpec) bool {
	s.name, other.name = "", ""
	return s == other
}

// acquireSpec is one acquire, without its caller, as long as it takes and over reconnects.
type acquireSpec struct {
	locks []LockSpec
	// several is set for an acquire of several names, though there be only one.
	several bool
	// waits is set if the wait has a bound.
	waits bool
	// wait is the longest wait, if it has a bound: 0 for none.
	wait      time.Duration
	value     []byte
	lockDelay time.Duration
	// maxHold is the longest time for which each lock may be held, if that is bounded.
	maxHold   time.Duration
	isBounded bool
	actor     uint64
	reentrant bool
	trace     string
}

func (s *acquireSpec) isTry() bool {
	return s.waits && s.wait == 0
}

// label returns the names, for messages to people.
func (s *acquireSpec) label() string {
	return strings.Join(each(s.locks, LockSpec.Name), ", ")
}

// isOf reports whether these locks are the ones asked for, each once and in the same order.
func (s *acquireSpec) isOf(locks []*leaseholdv1.GrantedLock) bool {
	isIt := func(asked LockSpec, lock *leaseholdv1.GrantedLock) bool { return asked.name == lock.GetName() }
	return len(locks) > 0 && slices.EqualFunc(s.locks, locks, isIt)
}

// message returns the request, with the rest of the wait.
func (s *acquireSpec) message(wait time.Duration) *leaseholdv1.SessionAcquire {
	asked := &leaseholdv1.SessionAcquire{
		Value: s.value, Actor: s.actor, Reentrant: s.reentrant, LockDelay: optionalDuration(s.lockDelay), MaxHold: optionalDuration(s.maxHold),
	}
	if s.waits {
		asked.Wait = wireDuration(wait)
	}
	for _, lock := range s.locks {
		if !lock.inSameMode(s.locks[0]) {
			asked.Locks = each(s.locks, func(lock LockSpec) *leaseholdv1.LockSpec {
				return &leaseholdv1.LockSpec{
					Name: lock.name, Mode: lock.mode, Permits: uint32(lock.permits), Limit: uint32(lock.limit),
					LimitRevision: uint32(lock.revision), PermitsAtLeast: uint32(lock.atLeast),
				}
			})
			return asked
		}
	}
	// Coordinators of every version know one mode for all.
	if len(s.locks) > 0 {
		lock := s.locks[0]
		asked.Mode, asked.Permits, asked.Limit = lock.mode, uint32(lock.permits), uint32(lock.limit)
		asked.LimitRevision, asked.PermitsAtLeast = uint32(lock.revision), uint32(lock.atLeast)
		asked.Name = lock.name
	}
	if s.several {
		asked.Name, asked.Names = "", each(s.locks, LockSpec.Name)
	}
	return asked
}
