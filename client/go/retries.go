package leasehold

// Reasons of failures that the client acts on, as docs/errors.md lists them.
const (
	reasonSelfDeadlock    = "SELF_DEADLOCK"
	reasonUpgradeRefused  = "UPGRADE_REFUSED"
	reasonDeadlock        = "DEADLOCK"
	reasonForceReleased   = "FORCE_RELEASED"
	reasonLimitMismatch   = "LIMIT_MISMATCH"
	reasonDraining        = "DRAINING"
	reasonInvalidField    = "INVALID_FIELD"
	reasonSessionEnded    = "SESSION_ENDED"
	reasonMessageTooLarge = "MESSAGE_TOO_LARGE"
)

// retries says of each reason that docs/errors.md lists whether the same request may succeed later, here or elsewhere.
var retries = map[string]bool{
	reasonInvalidField:    false,
	"UNAUTHENTICATED":     false,
	"IDENTITY_EXPIRED":    false,
	"PERMISSION_DENIED":   false,
	"NOT_OPEN":            false,
	"ALREADY_OPEN":        false,
	"OPEN_TIMEOUT":        true,
	"REQUEST_TIMEOUT":     true,
	"UNKNOWN_REQUEST":     false,
	"REQUEST_ID_IN_USE":   false,
	reasonSelfDeadlock:    false,
	reasonUpgradeRefused:  false,
	reasonLimitMismatch:   false,
	"NOT_EXCLUSIVE":       false,
	"NOT_A_SEMAPHORE":     false,
	reasonDeadlock:        false,
	reasonForceReleased:   false,
	reasonSessionEnded:    false,
	"TOO_MANY_ENDED":      true,
	"REQUEST_REPEATED":    false,
	"LOCK_LOST":           false,
	"NOT_LEADER":          false,
	"SESSION_SILENT":      true,
	reasonDraining:        true,
	"TOO_MANY_SESSIONS":   true,
	"TOO_MANY_LOCKS":      true,
	"TOO_MANY_REQUESTS":   true,
	"RATE_LIMITED":        true,
	"TOO_MANY_WAITERS":    true,
	"TOO_MANY_WATCHERS":   true,
	"TOO_MANY_NAMES":      false,
	"PAGE_TOO_LARGE":      false,
	reasonMessageTooLarge: false,
	"STORE_UNAVAILABLE":   true,
	"STORE_INDETERMINATE": true,
	"NOT_REPLICATED":      true,
	"STORE_REFUSED":       true,
	"KEY_NOT_A_LOCK":      false,
	"NOT_OFFERED":         false,
	"STORE_GARBLED":       false,
}
