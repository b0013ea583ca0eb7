package dev.leasehold;

import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Output.Granted;
import java.util.List;

/**
 * Request for several locks, which are granted all together or not at all. The order of the names does not matter for deadlocks: requests
 * for several names never block one another for good. Errors name all of the locks, with commas in between.
 */
public final class MultiLockRequest extends Request<MultiLockRequest, Holds> {
    MultiLockRequest(Acquiring acquiring) {
        super(acquiring);
    }

    @Override
    MultiLockRequest with(Acquiring changed) {
        return new MultiLockRequest(changed);
    }

    @Override
    Holds granted(SessionDriver session, List<Granted> grants) {
        return new Holds(grants.stream().map(one -> new Hold(session, one)).toList());
    }

    @Override
    List<Hold> holds(Holds granted) {
        return granted;
    }
}
