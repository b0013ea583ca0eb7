package dev.leasehold;

import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Moments;
import java.util.List;
import java.util.stream.Stream;

/** Methods by which clients and sessions begin requests. */
public abstract sealed class Entry permits LeaseholdClient, Session {
    final Calls calls;

    Entry(Calls calls) {
        this.calls = calls;
    }

    /** Returns the session to ask on; fails with {@link ErrorKind#CLOSED} if the client is closed. */
    abstract SessionDriver driver();

    abstract Candidacies candidacies();

    /** Requests the lock of this name: 1 to 512 bytes of UTF-8 without control characters, matched whole. */
    public LockRequest lock(String name) {
        return new LockRequest(one(LockSpec.exclusive(name)));
    }

    private Acquiring one(LockSpec spec) {
        return Acquiring.of(this::driver, false, List.of(spec), calls.settings().longestWait());
    }

    /**
     * Requests exclusive holds of several locks, all together or none: 1 to 64 of different names, unless the coordinator takes more or
     * fewer.
     */
    public MultiLockRequest locks(String... names) {
        return locks(Stream.of(Checks.given(names, "names")).map(LockSpec::exclusive).toList());
    }

    /**
     * Requests several locks, each in a mode of its own, all together or none: 1 to 64 of different names, unless the coordinator takes more
     * or fewer.
     */
    public MultiLockRequest locks(List<LockSpec> specs) {
        return new MultiLockRequest(Acquiring.of(this::driver, true, Checks.given(specs, "specs"), calls.settings().longestWait()));
    }

    /** Returns the semaphore of this name with limit permits: 1 to 1000000. */
    public Semaphore semaphore(String name, int limit) {
        LockSpec spec = LockSpec.semaphore(name, limit);
        return new Semaphore(one(spec), spec);
    }

    /** Returns the election of this name. */
    public Election election(String name) {
        Acquiring forever = Acquiring.of(this::driver, false, List.of(LockSpec.exclusive(name)), Moments.NEVER);
        return new Election(forever, this::candidacies, calls);
    }
}
