package dev.leasehold.spring.integration;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.processes.Coordinator;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** Coordinator with two clients, as two processes have them. */
final class Clients implements AutoCloseable {
    final Coordinator coordinator;
    final LeaseholdClient one;
    final LeaseholdClient two;

    Clients() throws IOException {
        coordinator = Coordinator.start();
        one = LeaseholdClient.builder(coordinator.url()).build();
        two = LeaseholdClient.builder(coordinator.url()).build();
    }

    @Override
    public void close() {
        one.close();
        two.close();
        coordinator.close();
    }

    /** Waits for the next entry of a queue. */
    static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
        T value = queue.poll(60, TimeUnit.SECONDS);
        if (value == null) {
            throw new AssertionError("nothing came within a minute");
        }
        return value;
    }
}
