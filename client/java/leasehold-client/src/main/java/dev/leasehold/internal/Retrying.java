package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.internal.machine.Moments;
import java.util.concurrent.TimeUnit;

/** Pauses of a thread that repeats what failed or ended. */
public final class Retrying {
    private final Pauses pauses;

    /** Begins with the shortest pause of these settings. */
    public Retrying(Settings settings) {
        this.pauses = new Pauses(settings.backoffMin(), settings.backoffMax());
    }

    /** Notes that it has succeeded. */
    public void opened() {
        pauses.opened(BootClock.now());
    }

    /** Makes the next pause, after this failure; null if there was none. */
    public void pause(Failure failure) throws InterruptedException {
        long asked = failure == null ? 0 : Moments.nanos(failure.retryAfter());
        TimeUnit.NANOSECONDS.sleep(pauses.pauseAsAsked(BootClock.now(), asked));
    }

    /** Makes the next pause, unless what ended had lived for a while. */
    public void pauseUnlessLived() throws InterruptedException {
        long now = BootClock.now();
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (!pauses.hasLived(now)) {
            TimeUnit.NANOSECONDS.sleep(pauses.pause(now));
        }
    }
}
