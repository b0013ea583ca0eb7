package dev.leasehold.internal;

import dev.leasehold.internal.Endpoint.Candidate;
import dev.leasehold.internal.machine.Moments;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Order in which candidates are tried: each once in a round, at random, and those that failed lately last. */
final class Route {
    /** Time for which a candidate that failed is tried last. */
    private static final long TROUBLED = 10 * Moments.SECONDS;

    private final Random random;
    private final Map<Candidate, Long> failedAt = new HashMap<>();
    private boolean isSeveral;

    Route(int endpoints, Random random) {
        this.random = random;
        isSeveral = endpoints > 1;
    }

    /** Returns whether there is more than one to choose from. */
    boolean isSeveral() {
        return isSeveral;
    }

    /** Returns the candidates in the order in which to try them. */
    List<Candidate> round(List<Candidate> candidates, long now) {
        isSeveral |= candidates.size() > 1;
        failedAt.values().removeIf(at -> Moments.since(now, at) >= TROUBLED);
        List<Candidate> round = new ArrayList<>(candidates);
        // In a common order, all clients of a coordinator that goes away would move to the same one.
        Collections.shuffle(round, random);
        // Of those that failed, the one that failed longest ago comes first.
        round.sort(Comparator.comparingLong(candidate -> failedAt.getOrDefault(candidate, Long.MIN_VALUE)));
        return round;
    }

    /** Notes that a candidate could not be reached, did not serve, or is to be left. */
    void failed(Candidate which, long now) {
        failedAt.put(which, now);
    }
}
