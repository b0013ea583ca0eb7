package dev.leasehold;

import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Output.Granted;
import java.util.List;

/** Request for one lock, or for permits of a semaphore. */
public final class LockRequest extends Request<LockRequest, Hold> {
    LockRequest(Acquiring acquiring) {
        super(acquiring);
    }

    /**
     * Returns the lock for code that takes a {@link java.util.concurrent.locks.Lock}. Keep it: the threads of this process that share it are
     * told apart by it, and another one of the same name is another lock to the coordinator.
     */
    public LeaseholdLock asLock() {
        return new LeaseholdLock(this);
    }

    @Override
    LockRequest with(Acquiring changed) {
        return new LockRequest(changed);
    }

    @Override
    Hold granted(SessionDriver session, List<Granted> grants) {
        return new Hold(session, grants.get(0));
    }

    @Override
    List<Hold> holds(Hold granted) {
        return List.of(granted);
    }
}
