package dev.leasehold.internal;

import dev.leasehold.ClientMetrics;
import java.util.List;
import java.util.function.Consumer;

/** Receivers of a client's metrics. What one of them throws is logged, and does not disturb the client. */
public final class Measures {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    private final List<ClientMetrics> receivers;

    /** Makes the receivers of a client: none, one or several. */
    public Measures(List<ClientMetrics> receivers) {
        this.receivers = List.copyOf(receivers);
    }

    /** Returns whether there is none. */
    boolean isEmpty() {
        return receivers.isEmpty();
    }

    /** Tells all receivers. No mutex of the library may be held. */
    public void tell(Consumer<ClientMetrics> what) {
        for (ClientMetrics receiver : receivers) {
            try {
                what.accept(receiver);
            } catch (RuntimeException e) {
                LOG.log(System.Logger.Level.WARNING, "metrics failed to record what the client did", e);
            }
        }
    }
}
