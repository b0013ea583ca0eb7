package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.v1.SessionDowngrade;
import dev.leasehold.v1.SessionReduce;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionSetValue;

/** Change of a hold, as its holder has asked for it. */
public final class Change {
    private enum Kind {
        VALUE,
        DOWNGRADE,
        REDUCE
    }

    private final Kind kind;
    private final ByteString value;
    private final int permits;
    /** Key of the grant. */
    long key;
    /** Number of the caller that waits; 0 for none. */
    long reply;

    String traceparent = "";

    private Change(Kind kind, ByteString value, int permits) {
        this.kind = kind;
        this.value = value;
        this.permits = permits;
    }

    /** Returns the change of the value that others see. */
    public static Change value(ByteString value) {
        return new Change(Kind.VALUE, value, 0);
    }

    /** Returns the change of an exclusive hold into a shared one. */
    public static Change downgrade() {
        return new Change(Kind.DOWNGRADE, ByteString.EMPTY, 0);
    }

    /** Returns the change that keeps this many permits and gives the others back. */
    public static Change reduce(int permits) {
        return new Change(Kind.REDUCE, ByteString.EMPTY, permits);
    }

    /** Returns the request for it. */
    SessionRequest.Builder message(Owned what) {
        SessionRequest.Builder request = SessionRequest.newBuilder().setTraceparent(traceparent);
        ByteString id = what.ids().confirmed();
        return switch (kind) {
            case VALUE -> request.setSetValue(
                    SessionSetValue.newBuilder().setName(what.name()).setOwnerId(id).setValue(value));
            case DOWNGRADE -> request.setDowngrade(
                    SessionDowngrade.newBuilder().setName(what.name()).setOwnerId(id));
            case REDUCE -> request.setReduce(
                    SessionReduce.newBuilder().setName(what.name()).setOwnerId(id).setPermits(permits));
        };
    }
}
