package dev.leasehold;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;

/**
 * Leader of an election, as others see it.
 *
 * @param token fencing token of the term; 0 for a holder that does not use Leasehold
 * @param value the leader's value
 * @param clientName name of its client
 * @param sessionId its session
 * @param coordinator its coordinator
 * @param electedAt time of its election, by the store's clock
 */
public record Leader(long token, byte[] value, String clientName, String sessionId, String coordinator, Instant electedAt) {
    static Leader of(dev.leasehold.v1.Leader wire) {
        return new Leader(
                wire.getFencingToken(),
                wire.getValue().toByteArray(),
                wire.getClientName(),
                wire.getSessionId(),
                wire.getCoordinator(),
                Instant.ofEpochSecond(wire.getElectedAt().getSeconds(), wire.getElectedAt().getNanos()));
    }

    /** Returns the value as a text in UTF-8. */
    public String text() {
        return new String(value, StandardCharsets.UTF_8);
    }

    /** Returns the leader with its value as a text. */
    @Override
    public String toString() {
        return "Leader[" + text() + ", token " + token + ", client " + clientName + "]";
    }

    /** Returns whether both are the same, in the same term and with the same value. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Leader leader && token == leader.token && Arrays.equals(value, leader.value);
    }

    @Override
    public int hashCode() {
        return Long.hashCode(token) * 31 + Arrays.hashCode(value);
    }
}
