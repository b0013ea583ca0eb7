package dev.leasehold.internal.machine;

import static dev.leasehold.internal.machine.Rig.at;
import static dev.leasehold.internal.machine.Rig.drains;
import static dev.leasehold.internal.machine.Rig.failsWith;
import static dev.leasehold.internal.machine.Rig.opensWith;
import static dev.leasehold.internal.machine.Rig.owner;
import static dev.leasehold.internal.machine.Rig.refuses;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import dev.leasehold.Failure;
import dev.leasehold.internal.Failures;
import dev.leasehold.v1.LostLock;
import dev.leasehold.v1.LostReason;
import dev.leasehold.v1.SessionClosed;
import dev.leasehold.v1.SessionLost;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Guards through a move, in every cell of the table that all libraries share. */
class MovesTest {
    private static final JsonObject TABLE = read();
    private static final Failure BROKEN = Failures.connection(Failure.Origin.BROKEN, "http://test", "broken");

    private static JsonObject read() {
        try {
            return JsonParser.parseString(Files.readString(Path.of("../../../tests/clients/moves.json")))
                    .getAsJsonObject();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    static Stream<Arguments> cells() {
        List<Arguments> cells = new ArrayList<>();
        TABLE.getAsJsonArray("rows").forEach(row -> {
            JsonArray cell = row.getAsJsonArray();
            for (int graced = 0; graced < 2; graced++) {
                cells.add(Arguments.of(
                        cell.get(0).getAsString(),
                        cell.get(1).getAsString(),
                        cell.get(2).getAsString(),
                        graced * 7_000,
                        cell.get(3 + graced).getAsString()));
            }
        });
        return cells.stream();
    }

    @ParameterizedTest
    @MethodSource("cells")
    void aGuardThroughAMove(String client, String on, String arrives, long grace, String state) {
        Move move = new Move(grace, client);
        move.hear(on, arrives.split(" "));
        move.rig.wantState(50, 0, state.toLowerCase(Locale.ROOT));
    }

    /** A session in a state of the table. */
    private static final class Move {
        final Rig rig;
        final Map<String, Long> streams = new HashMap<>();
        final Map<String, ByteString> ids = new HashMap<>(Map.of("confirmed", owner(1), "unknown", owner(2)));

        Move(long grace, String client) {
            rig = Rig.holding(grace);
            streams.put("old", rig.stream);
            if (client.equals("open")) {
                return;
            }
            rig.message(10, 0, drains());
            ask(20);
            if (client.equals("asked")) {
                return;
            }
            rig.attemptFailed(30, Fate.KEPT);
            ids.put("tried", ids.get("next"));
            switch (client) {
                case "deaf" -> {
                    // That is all.
                }
                case "again" -> ask(40);
                case "stopped" -> rig.m.streamEndedBy(at(40), streams.get("old"), null);
                case "broken" -> rig.m.streamEndedBy(at(40), streams.get("old"), BROKEN);
                default -> throw new AssertionError(client);
            }
        }

        private void ask(long now) {
            rig.connect(now);
            streams.put("next", rig.stream);
            ids.put("next", rig.next());
        }

        void hear(String on, String[] what) {
            switch (what[0]) {
                case "lost" -> {
                    LostLock lost = LostLock.newBuilder()
                            .setName("lock1")
                            .setOwnerId(ids.get(what[2]))
                            .setReason(reason(what[1]))
                            .build();
                    say(on, SessionLost.newBuilder().addLocks(lost).build());
                }
                case "refused" -> say(on, refuses(ids.get(what[2]), reason(what[1])));
                case "opened" -> say(on, opensWith(ids.get("tried")));
                case "error" -> say(on, failsWith(code(what[1]), what[1]));
                case "closed" -> say(on, SessionClosed.getDefaultInstance());
                case "end" -> end(on, Failures.answer(code(what[1]), what[1], ""));
                case "break" -> end(on, BROKEN);
                case "plain" -> end(on, null);
                default -> throw new AssertionError(what[0]);
            }
        }

        private void say(String on, Object response) {
            if (on.equals("overdue")) {
                rig.m.overdueMessage(at(50), Rig.response(1, response));
            } else {
                rig.messageOn(50, streams.get(on), 1, response);
            }
        }

        /** Ends a stream: with this failure, or plainly (null). */
        private void end(String on, Failure failure) {
            Fate fate = Fate.of(failure == null ? ConnectFailure.ended("http://test") : ConnectFailure.of("http://test", failure));
            switch (on) {
                case "old" -> rig.m.streamEndedBy(at(50), streams.get(on), failure);
                case "next" -> rig.attemptFailed(50, fate);
                case "overdue" -> rig.m.overdueEnded(at(50), fate);
                default -> throw new AssertionError(on);
            }
        }
    }

    private static LostReason reason(String name) {
        return LostReason.valueOf("LOST_REASON_" + name);
    }

    private static Status.Code code(String reason) {
        int code = TABLE.getAsJsonObject("codes").get(reason).getAsInt();
        return Status.fromCodeValue(code).getCode();
    }
}
