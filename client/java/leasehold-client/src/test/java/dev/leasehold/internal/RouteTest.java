package dev.leasehold.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.internal.Endpoint.Candidate;
import dev.leasehold.internal.machine.Moments;
import java.net.InetSocketAddress;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Choice of the coordinator that a session tries next. */
class RouteTest {
    private static final List<Candidate> ALL = IntStream.range(1, 4)
            .mapToObj(port -> new Candidate(Endpoint.parse("127.0.0.1").get(0), new InetSocketAddress("127.0.0.1", port)))
            .toList();

    private static List<Candidate> round(Route route, long seconds) {
        return route.round(ALL, seconds * Moments.SECONDS);
    }

    @Test
    void whatFailedLatelyComesLast() {
        Route route = new Route(1, new Random(1));
        route.failed(ALL.get(0), Moments.SECONDS);
        route.failed(ALL.get(1), 2 * Moments.SECONDS);
        for (int again = 0; again < 10; again++) {
            assertEquals(List.of(ALL.get(2), ALL.get(0), ALL.get(1)), round(route, 3));
        }
        // The first of the two has been long enough ago.
        assertEquals(ALL.get(1), round(route, 11).get(2));
        assertEquals(Set.copyOf(ALL), Set.copyOf(round(route, 30)));
        assertTrue(route.isSeveral());
    }

    @Test
    void clientsOfACoordinatorThatGoesAwaySpreadOverTheOthers() {
        Map<List<Candidate>, Integer> moves = new HashMap<>();
        for (int seed = 0; seed < 600; seed++) {
            Route route = new Route(1, new Random(seed));
            Candidate left = round(route, 0).get(0);
            route.failed(left, Moments.SECONDS);
            List<Candidate> order = round(route, 1);
            assertEquals(left, order.get(2));
            moves.merge(List.of(left, order.get(0)), 1, Integer::sum);
        }
        assertEquals(6, moves.size());
        assertTrue(Collections.max(moves.values()) < 2 * Collections.min(moves.values()), moves::toString);
    }
}
