package dev.leasehold.internal;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.leasehold.Failure;
import dev.leasehold.Failure.Origin;
import dev.leasehold.FieldViolation;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.SessionFailure;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Failures made of what comes over the wire. */
public final class Failures {
    private Failures() {}

    /** Returns the failure of a request on a lease stream. */
    public static Failure of(SessionFailure answer) {
        List<FieldViolation> violations = new ArrayList<>();
        answer.getFieldViolationsList()
                .forEach(violation -> violations.add(new FieldViolation(violation.getField(), violation.getDescription())));
        return new Failure(
                Origin.ANSWER,
                Status.fromCodeValue(answer.getCode()).getCode(),
                answer.getReason(),
                answer.getMessage(),
                violations,
                answer.getMetadataMap(),
                Duration.ofNanos(Moments.nanos(answer.getRetryAfter())),
                "");
    }

    /** Returns an answer without details. */
    public static Failure answer(Status.Code code, String reason, String message) {
        return new Failure(Origin.ANSWER, code, reason, message, List.of(), Map.of(), Duration.ZERO, "");
    }

    /** Returns what a coordinator would answer to a mistake that it can't see. */
    public static Failure invalidField(String field, String description) {
        return new Failure(
                Origin.ANSWER,
                Status.Code.INVALID_ARGUMENT,
                "INVALID_FIELD",
                field + ": " + description,
                List.of(new FieldViolation(field, description)),
                Map.of(),
                Duration.ZERO,
                "");
    }

    /** Returns the failure of a connection. */
    public static Failure connection(Origin origin, String endpoint, String message) {
        return new Failure(origin, Status.Code.UNAVAILABLE, "", message, List.of(), Map.of(), Duration.ZERO, endpoint);
    }

    /** Returns the failure of a call or a stream that ended with this status, of the coordinator at the endpoint. */
    public static Failure of(String endpoint, Status status, Metadata trailers) {
        String reason = "";
        Map<String, String> metadata = Map.of();
        List<FieldViolation> violations = new ArrayList<>();
        Duration retryAfter = Duration.ZERO;
        com.google.rpc.Status details = StatusProto.fromStatusAndTrailers(status, trailers);
        for (com.google.protobuf.Any detail : details == null ? List.<com.google.protobuf.Any>of() : details.getDetailsList()) {
            try {
                if (detail.is(ErrorInfo.class)) {
                    ErrorInfo info = detail.unpack(ErrorInfo.class);
                    reason = info.getReason();
                    metadata = info.getMetadataMap();
                } else if (detail.is(BadRequest.class)) {
                    detail.unpack(BadRequest.class)
                            .getFieldViolationsList()
                            .forEach(one -> violations.add(new FieldViolation(one.getField(), one.getDescription())));
                } else if (detail.is(RetryInfo.class)) {
                    retryAfter = Duration.ofNanos(Moments.nanos(detail.unpack(RetryInfo.class).getRetryDelay()));
                }
            } catch (InvalidProtocolBufferException e) {
                // A detail that can't be read is as good as none.
                continue;
            }
        }
        boolean isBroken = reason.isEmpty() && isTransport(status);
        return new Failure(
                isBroken ? Origin.BROKEN : Origin.ANSWER,
                status.getCode(),
                reason,
                message(status),
                violations,
                metadata,
                retryAfter,
                endpoint);
    }

    /** Returns the words of a status, with those of its cause where they say more. */
    static String message(Status status) {
        String message = status.getDescription() == null ? "" : status.getDescription();
        for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
            if (cause.getMessage() != null && !message.contains(cause.getMessage())) {
                message = message.isEmpty() ? cause.getMessage() : message + ": " + cause.getMessage();
            }
        }
        return message;
    }

    /**
     * Returns whether a status without a reason is that of a broken connection. Coordinators give a reason with every status. What a proxy
     * answers, without one, can't be told from a broken connection where the code is UNAVAILABLE, and means the same.
     */
    private static boolean isTransport(Status status) {
        return switch (status.getCode()) {
            case UNAVAILABLE, UNKNOWN, CANCELLED, DEADLINE_EXCEEDED -> true;
            // HTTP/2 streams that were reset, and connections that spoke something else.
            case INTERNAL -> message(status).contains("RST_STREAM") || message(status).contains("HTTP/2");
            default -> false;
        };
    }
}
