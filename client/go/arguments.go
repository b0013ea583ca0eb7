package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Bounds of the protocol, as the comments of its fields say them. What a coordinator's settings bound, only it can check.
const (
	longestName       = 512
	longestClientName = 256
	longestKey        = 64
	longestText       = 256
	longestValue      = 4 << 10
	mostMetadata      = 16
	// mostNames is the most that a coordinator can be set to take; few take as many.
	mostNames     = 1000
	mostPermits   = 1_000_000
	longestWait   = 24 * time.Hour
	shortestBound = time.Second
	longestBound  = 365 * 24 * time.Hour
	// longestTrace is more than any traceparent has.
	longestTrace = 256
	// longestHeader is the most that W3C Baggage asks everybody to pass on.
	longestHeader = 8 << 10
	// longestShown is the most bytes of a name that a message to people shows.
	longestShown = 600
)

var (
	errNoContext = invalidField("ctx", "must not be nil")
	errNoWork    = invalidField("work", "must not be nil")
	errNoClient  = invalidField("client", "must not be nil: a client or a session makes requests")
)

// checkContext refuses a nil context, which would panic only after something was noted.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	return nil
}

// check returns what is out of bounds in the request; nil if nothing is. A request that can't be sent as it is must not come near the
// stream, which it would end.
func (s *acquireSpec) check() *Failure {
	switch {
	case len(s.locks) == 0:
		return invalidField("acquire.names", "must not be empty")
	case len(s.locks) > mostNames:
		return invalidField("acquire.names", fmt.Sprintf("must be at most %d, got %d", mostNames, len(s.locks)))
	case s.waits && (s.wait < 0 || s.wait > longestWait):
		return invalidField("acquire.wait", fmt.Sprintf("Wait must be 0 to 24 h, got %v", s.wait))
	case s.lockDelay < 0:
		return invalidField("acquire.lock_delay", fmt.Sprintf("LockDelay must not be negative, got %v", s.lockDelay))
	case s.isBounded && (s.maxHold < shortestBound || s.maxHold > longestBound):
		return invalidField("acquire.max_hold", fmt.Sprintf("MaxHold must be 1 s to 365 days, got %v", s.maxHold))
	case s.reentrant && s.actor == 0:
		return invalidField("acquire.reentrant", "Reentrant needs an Actor, or the context of work under a lock")
	}
	if failure := checkValue("acquire.value", s.value); failure != nil {
		return failure
	}
	for _, lock := range s.locks {
		if failure := lock.check(); failure != nil {
			return failure
		}
	}
	for at, lock := range s.locks {
		if slices.ContainsFunc(s.locks[:at], func(before LockSpec) bool { return before.name == lock.name }) {
			return invalidField("acquire.names", fmt.Sprintf("%s is named twice", shown(lock.name)))
		}
	}
	return nil
}

// check returns what is out of bounds in the description of a lock.
func (s LockSpec) check() *Failure {
	if failure := checkText("acquire.name", s.name, 1, longestName); failure != nil {
		return failure
	}
	if s.misuse != "" {
		return invalidField("acquire.mode", s.misuse)
	}
	switch s.mode {
	case leaseholdv1.LockMode_LOCK_MODE_EXCLUSIVE, leaseholdv1.LockMode_LOCK_MODE_SHARED:
		return nil
	case leaseholdv1.LockMode_LOCK_MODE_SEMAPHORE:
	default:
		return invalidField("acquire.mode", "must be set: make it by Exclusive, Shared or Permits")
	}
	// 0 must not reach the coordinator, which would take it for the default.
	switch {
	case s.limit < 1 || s.limit > mostPermits:
		return invalidField("acquire.limit", fmt.Sprintf("must be 1 to %d, got %d", mostPermits, s.limit))
	case s.permits < 1 || s.permits > s.limit:
		return invalidField("acquire.permits", fmt.Sprintf("must be 1 to the limit of %d, got %d", s.limit, s.permits))
	case s.isRange && (s.atLeast < 1 || s.atLeast > s.permits):
		return invalidField("acquire.permits_at_least", fmt.Sprintf("must be 1 to %d, got %d", s.permits, s.atLeast))
	case s.revision < 0 || s.revision > math.MaxUint32:
		return invalidField("acquire.limit_revision", fmt.Sprintf("must be 0 to %d, got %d", math.MaxUint32, s.revision))
	}
	return nil
}

// check returns what is out of bounds in the options of a session.
func (o *sessionOptions) check() *Failure {
	switch {
	case o.ttl < 0:
		return invalidField("open.ttl", fmt.Sprintf("WithTTL must not be negative, got %v", o.ttl))
	case o.grace < 0:
		return invalidField("open.disconnect_grace", fmt.Sprintf("WithGrace must not be negative, got %v", o.grace))
	case o.closeTimeout < 0:
		return invalidField("close", fmt.Sprintf("WithCloseTimeout must not be negative, got %v", o.closeTimeout))
	case len(o.metadata) > mostMetadata:
		return invalidField("open.metadata", fmt.Sprintf("WithSessionMetadata may be used at most %d times, got %d", mostMetadata, len(o.metadata)))
	}
	for key, value := range o.metadata {
		if len(key) < 1 || len(key) > longestKey || len(value) > longestText || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return invalidField("open.metadata", fmt.Sprintf("WithSessionMetadata: keys must have 1 to %d bytes of UTF-8, and values at most %d", longestKey, longestText))
		}
	}
	return checkText("open.client_name", o.clientName, 0, longestClientName)
}

// checkText checks a text that has a length and no control characters.
func checkText(field, text string, least, most int) *Failure {
	switch {
	case len(text) < least:
		return invalidField(field, "must not be empty")
	case len(text) > most:
		return invalidField(field, fmt.Sprintf("must have at most %d bytes, got %d", most, len(text)))
	case !utf8.ValidString(text):
		return invalidField(field, "must be UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return invalidField(field, "must not contain control characters")
	}
	return nil
}

func checkValue(field string, value []byte) *Failure {
	if len(value) > longestValue {
		return invalidField(field, fmt.Sprintf("must have at most %d bytes, got %d", longestValue, len(value)))
	}
	return nil
}

// check returns what is out of bounds in a change.
func (c *change) check() *Failure {
	switch {
	case c.kind == changeReduce && (c.permits < 1 || c.permits > mostPermits):
		return invalidField("reduce.permits", fmt.Sprintf("must be 1 to %d, got %d", mostPermits, c.permits))
	case c.kind == changeValue:
		return checkValue("set_value.value", c.value)
	}
	return nil
}

// invalidSetting returns the error of options that can't work.
func invalidSetting(text string) *ConnectError {
	return &ConnectError{Cause: errors.New(text)}
}

// shown quotes a name for people, shortened if it is longer than any that is accepted.
func shown(name string) string {
	if len(name) > longestShown {
		name = strings.ToValidUTF8(name[:longestShown], "") + "…"
	}
	return strconv.Quote(name)
}
