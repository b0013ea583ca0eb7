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

// retried are the reasons that docs/errors.md lists after which the same request may succeed later, here or elsewhere.
var retried = map[string]bool{
	"OPEN_TIMEOUT":        true,
	"REQUEST_TIMEOUT":     true,
	"TOO_MANY_ENDED":      true,
	"SESSION_SILENT":      true,
	reasonDraining:        true,
	"TOO_MANY_SESSIONS":   true,
	"TOO_MANY_LOCKS":      true,
	"TOO_MANY_REQUESTS":   true,
	"RATE_LIMITED":        true,
	"TOO_MANY_WAITERS":    true,
	"TOO_MANY_WATCHERS":   true,
	"STORE_UNAVAILABLE":   true,
	"STORE_INDETERMINATE": true,
	"NOT_REPLICATED":      true,
	"STORE_REFUSED":       true,
}
