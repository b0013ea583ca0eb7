package dev.leasehold;

import com.google.protobuf.Timestamp;
import dev.leasehold.internal.Named;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.GetStatusResponse;
import dev.leasehold.v1.LockMode;
import dev.leasehold.v1.StoreState;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/** Views of locks, sessions and coordinators, made of the messages of the wire. */
final class Views {
    private Views() {}

    private static Duration duration(com.google.protobuf.Duration wire) {
        return Duration.ofNanos(Moments.nanos(wire));
    }

    private static Instant instant(Timestamp wire) {
        return Instant.ofEpochSecond(wire.getSeconds(), wire.getNanos());
    }

    private static Optional<LockSpec.Mode> mode(LockMode wire) {
        return Optional.ofNullable(Named.value(wire, "LOCK_MODE_", LockSpec.Mode.class, null));
    }

    static Holder holder(dev.leasehold.v1.Holder wire) {
        return new Holder(
                wire.getSessionId(),
                wire.getClientName(),
                wire.getCoordinator(),
                wire.getFencingToken(),
                wire.hasAcquiredAt() ? Optional.of(instant(wire.getAcquiredAt())) : Optional.empty(),
                wire.hasTtl() ? Optional.of(duration(wire.getTtl())) : Optional.empty(),
                wire.getValue().toByteArray(),
                wire.getHoldCount(),
                wire.getForeign(),
                wire.getPermits(),
                wire.getActor(),
                wire.hasMaxHold() ? Optional.of(duration(wire.getMaxHold())) : Optional.empty(),
                wire.getPeer());
    }

    private static Waiter waiter(dev.leasehold.v1.Waiter wire) {
        return new Waiter(
                wire.getSessionId(),
                wire.getClientName(),
                wire.getCoordinator(),
                instant(wire.getWaitingSince()),
                wire.getPosition(),
                mode(wire.getMode()),
                wire.getPermits(),
                wire.getPermitsAtLeast(),
                wire.getActor(),
                wire.getNumber(),
                wire.getPeer());
    }

    static LockView lock(dev.leasehold.v1.LockView wire) {
        return new LockView(
                wire.getName(),
                mode(wire.getMode()),
                wire.getHoldersList().stream().map(Views::holder).toList(),
                wire.getHolderCount(),
                wire.getWaitersList().stream().map(Views::waiter).toList(),
                wire.getWaiterCount(),
                wire.getFencingToken(),
                duration(wire.getClosedFor()),
                duration(wire.getLockDelay()),
                wire.getLimit(),
                wire.getPermitsTaken(),
                wire.getLimitRevision());
    }

    static LockEvent event(dev.leasehold.v1.LockEvent wire) {
        boolean hasReason = wire.getReason() != dev.leasehold.v1.LostReason.LOST_REASON_UNSPECIFIED;
        return new LockEvent(
                Named.value(wire.getKind(), "LOCK_EVENT_KIND_", LockEvent.Kind.class, LockEvent.Kind.UNKNOWN),
                wire.getName(),
                instant(wire.getTime()),
                wire.getFencingToken(),
                wire.hasHolder() ? Optional.of(holder(wire.getHolder())) : Optional.empty(),
                wire.hasWaiter() ? Optional.of(waiter(wire.getWaiter())) : Optional.empty(),
                hasReason ? Optional.of(Named.reason(wire.getReason())) : Optional.empty(),
                mode(wire.getMode()),
                wire.getHolderCount(),
                wire.getWaiterCount(),
                duration(wire.getClosedFor()),
                wire.getLimit(),
                wire.getLimitRevision());
    }

    static SessionView session(dev.leasehold.v1.SessionView wire) {
        return new SessionView(
                wire.getSessionId(),
                wire.getClientName(),
                wire.getPeer(),
                wire.getCoordinator(),
                duration(wire.getTtl()),
                instant(wire.getOpenedAt()),
                duration(wire.getSinceHeartbeat()),
                wire.getHoldCount(),
                wire.getWaiterCount(),
                wire.getMetadataMap(),
                wire.getIdentity());
    }

    static CoordinatorStatus status(GetStatusResponse wire) {
        return new CoordinatorStatus(
                wire.getCoordinator(),
                wire.getVersion(),
                duration(wire.getUptime()),
                wire.getServing(),
                wire.getReason(),
                wire.getStore(),
                wire.getStoreState() == StoreState.STORE_STATE_UNSPECIFIED
                        ? Optional.empty()
                        : Optional.of(wire.getStoreState() == StoreState.STORE_STATE_UP),
                wire.hasSessionCount() ? OptionalLong.of(wire.getSessionCount()) : OptionalLong.empty(),
                wire.hasHoldCount() ? OptionalLong.of(wire.getHoldCount()) : OptionalLong.empty(),
                wire.hasWaiterCount() ? OptionalLong.of(wire.getWaiterCount()) : OptionalLong.empty(),
                instant(wire.getTime()),
                wire.getDraining(),
                wire.getIdentity(),
                wire.getPermissionsList().stream()
                        .map(of -> new CoordinatorStatus.Permission(
                                of.getPermission(), List.copyOf(of.getLocksList()), List.copyOf(of.getElectionsList())))
                        .toList(),
                duration(wire.getMinTtl()),
                duration(wire.getDefaultTtl()),
                duration(wire.getMaxTtl()),
                wire.hasKeyPrefix() ? Optional.of(wire.getKeyPrefix()) : Optional.empty(),
                wire.hasMinReplicas() ? OptionalInt.of(wire.getMinReplicas()) : OptionalInt.empty(),
                wire.getLimitsList().stream()
                        .map(of -> new CoordinatorStatus.Limit(of.getName(), of.getUsed(), of.getLimit()))
                        .toList(),
                wire.getCertificatesList().stream()
                        .map(of -> new CoordinatorStatus.Certificate(of.getPurpose(), instant(of.getExpires())))
                        .toList());
    }
}
