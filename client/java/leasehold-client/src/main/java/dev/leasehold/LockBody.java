package dev.leasehold;

/**
 * Work that runs while a lock is held.
 *
 * @param <H> what is held
 * @param <T> what it returns
 * @param <E> what it throws
 */
@FunctionalInterface
public interface LockBody<H, T, E extends Exception> {
    /** Does the work. It is interrupted if the lock is lost; while the lock is only suspended, {@link Grant#check} tells it not to act. */
    T call(H hold) throws E;

    /**
     * Work that returns nothing.
     *
     * @param <H> what is held
     * @param <E> what it throws
     */
    @FunctionalInterface
    interface Action<H, E extends Exception> {
        /** Does the work. */
        void run(H hold) throws E;
    }
}
