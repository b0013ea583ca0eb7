package leasehold

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// FieldViolation is a fault in one field of a request, in the coordinator's words.
type FieldViolation struct {
	// Field is the field's path in the request, for example "acquire.name".
	Field string
	// Description says what was wrong, and what is accepted.
	Description string
}

// Failure is a request that a coordinator could not serve, with its answer; or a call that reached no coordinator or whose
// connection broke. A failure on the lease stream and the failure of a single call look the same.
type Failure struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Reason is the machine-readable reason that docs/errors.md lists, for example "INVALID_FIELD". It is empty if there is none,
	// as in the answer of a proxy or after a broken connection.
	Reason string
	// Message says for people what happened, to what, and what to do.
	Message string
	// Violations are the invalid fields of the request.
	Violations []FieldViolation
	// Metadata are the details of the reason: for LIMIT_MISMATCH the "limit" in force.
	Metadata map[string]string
	// RetryAfter is how long to wait before asking again, if the coordinator named a time; otherwise 0.
	RetryAfter time.Duration
	// Endpoint is the URL of the coordinator that was asked; empty if that is not known, as for an answer on a session.
	Endpoint string

	// transport is set if the connection failed, rather than that somebody answered.
	transport bool
	// unsent is set if there was no connection that the request could have been sent on.
	unsent bool
	// distrust is set if the connection could not be encrypted, or what answers is no coordinator.
	distrust bool
}

// Error describes the failure.
func (f *Failure) Error() string {
	var text strings.Builder
	if f.transport && f.Endpoint != "" {
		fmt.Fprintf(&text, "the connection to the coordinator at %s failed: ", f.Endpoint)
	}
	if f.Message == "" {
		text.WriteString(f.Code.String())
	} else {
		text.WriteString(f.Message)
	}
	if f.Reason != "" {
		fmt.Fprintf(&text, " (%s)", f.Reason)
	}
	for _, violation := range f.Violations {
		// Coordinators say the violation in the message too when there is only one.
		if !strings.Contains(f.Message, violation.Description) {
			fmt.Fprintf(&text, "; %s: %s", violation.Field, violation.Description)
		}
	}
	return text.String()
}

// Is reports whether the target is the sentinel error that stands for this failure, such as ErrPermissionDenied.
func (f *Failure) Is(target error) bool {
	return target == f.sentinel()
}

// Retryable reports whether the same request may succeed later, here or at another coordinator, though nothing else changes.
func (f *Failure) Retryable() bool {
	if f.transport {
		return !f.distrust
	}
	if f.Reason != "" {
		return retried[f.Reason]
	}
	return f.Code == codes.Unavailable || f.Code == codes.ResourceExhausted || f.Code == codes.DeadlineExceeded
}

// sentinelOf has the errors that stand for failures, by their reasons, and sentinelOfCode by their codes.
var (
	sentinelOf = map[string]error{
		reasonSelfDeadlock:   ErrSelfDeadlock,
		reasonUpgradeRefused: ErrUpgradeRefused,
		reasonDeadlock:       ErrDeadlock,
		reasonForceReleased:  ErrForceReleased,
		reasonLimitMismatch:  ErrLimitMismatch,
	}
	sentinelOfCode = map[codes.Code]error{
		codes.Unauthenticated:   ErrUnauthenticated,
		codes.PermissionDenied:  ErrPermissionDenied,
		codes.ResourceExhausted: ErrLimitReached,
		codes.Unavailable:       ErrUnavailable,
		codes.InvalidArgument:   ErrInvalid,
	}
)

// sentinel returns the error that stands for this failure.
func (f *Failure) sentinel() error {
	if f.transport {
		return ErrUnavailable
	}
	return cmp.Or(sentinelOf[f.Reason], sentinelOfCode[f.Code], ErrRefused)
}

func (f *Failure) isDraining() bool {
	return f.Reason == reasonDraining
}

// isForMessage reports whether a stream ended because of a message that it was sent.
func (f *Failure) isForMessage() bool {
	return !f.transport && (f.Code == codes.InvalidArgument || f.Reason == reasonMessageTooLarge)
}

func (f *Failure) isUnauthenticated() bool {
	return f.Code == codes.Unauthenticated && !f.transport
}

// inGo replaces what coordinators call otherwise than this library does, in what they say to do.
var inGo = strings.NewReplacer("set `reentrant`", "use Reentrant()")

// failureOf returns the failure of a request on a lease stream.
func failureOf(answer *leaseholdv1.SessionFailure) *Failure {
	return &Failure{
		Code:       codes.Code(answer.GetCode()),
		Reason:     answer.GetReason(),
		Message:    inGo.Replace(answer.GetMessage()),
		Metadata:   answer.GetMetadata(),
		RetryAfter: duration(answer.GetRetryAfter()),
		Violations: each(answer.GetFieldViolations(), violationOf),
	}
}

// wireViolation is a violation in either kind of answer.
type wireViolation interface {
	GetField() string
	GetDescription() string
}

func violationOf[V wireViolation](v V) FieldViolation {
	return FieldViolation{v.GetField(), v.GetDescription()}
}

// failureFrom returns the failure of a call or a stream that ended with this error, of the coordinator at the endpoint.
func failureFrom(endpoint string, err error) *Failure {
	var known *Failure
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, io.EOF) {
		return &Failure{Code: codes.Unavailable, Message: "the coordinator ended the stream", Endpoint: endpoint}
	}
	answer := status.Convert(err)
	if unencodable, isThat := strings.CutPrefix(answer.Message(), "grpc: error while marshaling: "); isThat {
		// gRPC says "internal", as of a fault that is not the caller's.
		return &Failure{
			Code: codes.InvalidArgument, Reason: reasonInvalidField, Endpoint: endpoint, Message: "the request can't be encoded: " + unencodable,
		}
	}
	failure := &Failure{Code: answer.Code(), Message: answer.Message(), Endpoint: endpoint}
	for _, detail := range answer.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason, failure.Metadata = detail.GetReason(), detail.GetMetadata()
		case *errdetails.BadRequest:
			failure.Violations = each(detail.GetFieldViolations(), violationOf)
		case *errdetails.RetryInfo:
			failure.RetryAfter = duration(detail.GetRetryDelay())
		}
	}
	if httpStatus, isHTTP := strings.CutPrefix(failure.Message, "unexpected HTTP status code received from server: "); isHTTP {
		httpStatus, _, _ = strings.Cut(httpStatus, ";")
		failure.Message = fmt.Sprintf("what answers there is no coordinator, or a proxy in between: HTTP status %s; %s", httpStatus, checkPort)
	}
	failure.transport = failure.Reason == "" && isTransport(answer)
	return failure
}

// isTransport reports whether a status without a reason is that of a broken connection. Coordinators give a reason with every
// status. What a proxy answers, without one, can't be told from a broken connection where the code is Unavailable, and means the
// same.
func isTransport(answer *status.Status) bool {
	switch answer.Code() {
	case codes.Unavailable, codes.Unknown, codes.Canceled, codes.DeadlineExceeded:
		return true
	case codes.Internal:
		// HTTP/2 streams that were reset, and connections that spoke something else.
		return strings.Contains(answer.Message(), "RST_STREAM") || strings.Contains(answer.Message(), "transport")
	default:
		return false
	}
}

// forceReleased returns the failure of a wait that an operator ended, as the coordinator reports it to the stream that has it.
func forceReleased() *Failure {
	return &Failure{Code: codes.Aborted, Reason: reasonForceReleased, Message: "an operator ended the wait"}
}

// protocolFailure returns the failure for a coordinator that broke the protocol.
func protocolFailure(message string) *Failure {
	return &Failure{Code: codes.Internal, Message: message}
}

// invalidField returns what a coordinator would answer to a mistake that it can't see.
func invalidField(field, description string) *Failure {
	return &Failure{
		Code:       codes.InvalidArgument,
		Reason:     reasonInvalidField,
		Message:    field + ": " + description,
		Violations: []FieldViolation{{field, description}},
	}
}

// duration returns a duration of the wire: 0 if it is not set or negative, and the longest one if it is longer than that.
func duration(wire *durationpb.Duration) time.Duration {
	if wire == nil {
		return 0
	}
	// AsDuration saturates.
	return max(0, wire.AsDuration())
}

// wireDuration returns a duration for the wire; negative ones count as 0.
func wireDuration(d time.Duration) *durationpb.Duration {
	return durationpb.New(max(0, d))
}

// optionalDuration returns a duration for the wire where 0 stands for none.
func optionalDuration(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}
