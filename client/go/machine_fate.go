package leasehold

import "google.golang.org/grpc/codes"

// fate is what became of the holds and places that a stream which has not opened was asked to take over.
type fate int

const (
	// fateDeclined: nothing was taken over.
	fateDeclined fate = iota
	// fateKept: the coordinator may have taken them over, and keeps them until they expire.
	fateKept
	// fateDropped: the coordinator may have taken them over; it has noticed the end of the stream, and may have released them.
	fateDropped
	// fateEnded: an operator ended the session; what was to be taken over is lost, whatever the grace.
	fateEnded
)

// fateOf returns the fate after a stream that ended with this error.
func fateOf(err *ConnectError) fate {
	switch err.kind {
	case connectInvalid:
		return fateDeclined
	case connectTimedOut:
		// The connection is kept until there is another stream.
		return fateKept
	case connectUnreachable, connectEnded:
		return fateDropped
	}
	failure := failureIn(err)
	if failure == nil {
		return fateDropped
	}
	return fateOfAnswer(failure)
}

// fateOfAnswer returns the fate after a stream that was ended with this failure.
func fateOfAnswer(failure *Failure) fate {
	switch failure.Reason {
	case "":
		// A proxy in between answered, which passes nothing on with these.
		switch failure.Code {
		case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated,
			codes.Unimplemented, codes.ResourceExhausted:
			return fateDeclined
		default:
			return fateDropped
		}
	case reasonInvalidField, "NOT_OPEN", "UNKNOWN_REQUEST", "TOO_MANY_SESSIONS", "TOO_MANY_LOCKS", reasonDraining,
		"OPEN_TIMEOUT", "UNAUTHENTICATED", "PERMISSION_DENIED", "RATE_LIMITED", reasonMessageTooLarge:
		// The coordinator says these before it asks the store for anything.
		return fateDeclined
	case reasonSessionEnded:
		return fateEnded
	default:
		return fateKept
	}
}
