package dev.leasehold.internal.machine;

import static dev.leasehold.internal.machine.Rig.INTERVAL;
import static dev.leasehold.internal.machine.Rig.NO_WAIT;
import static dev.leasehold.internal.machine.Rig.TTL;
import static dev.leasehold.internal.machine.Rig.acks;
import static dev.leasehold.internal.machine.Rig.asksToMove;
import static dev.leasehold.internal.machine.Rig.at;
import static dev.leasehold.internal.machine.Rig.drains;
import static dev.leasehold.internal.machine.Rig.failsWith;
import static dev.leasehold.internal.machine.Rig.granted;
import static dev.leasehold.internal.machine.Rig.grants;
import static dev.leasehold.internal.machine.Rig.loses;
import static dev.leasehold.internal.machine.Rig.notGrantedAs;
import static dev.leasehold.internal.machine.Rig.opensInPlace;
import static dev.leasehold.internal.machine.Rig.opensWith;
import static dev.leasehold.internal.machine.Rig.owner;
import static dev.leasehold.internal.machine.Rig.queuedAs;
import static dev.leasehold.internal.machine.Rig.refuses;
import static dev.leasehold.internal.machine.Rig.releasedAs;
import static dev.leasehold.internal.machine.Rig.spec;
import static dev.leasehold.internal.machine.Rig.wire;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.Failure;
import dev.leasehold.internal.Failures;
import dev.leasehold.internal.machine.Machine.StreamEnd;
import dev.leasehold.v1.AcquireOutcome;
import dev.leasehold.v1.BoundedLock;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.LostReason;
import dev.leasehold.v1.SessionDowngraded;
import dev.leasehold.v1.SessionGranted;
import dev.leasehold.v1.SessionHeartbeatAck;
import dev.leasehold.v1.SessionOpen;
import dev.leasehold.v1.SessionOpened;
import dev.leasehold.v1.SessionResume;
import dev.leasehold.v1.SessionValueSet;
import io.grpc.Status;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Rules that hold in several cases, and for whatever may come. */
class MachineCasesTest {
    @ParameterizedTest
    @CsvSource({"5, 60000", "-1, 60000", "0, 1"})
    void deadlinesAreNotMovedByAnswersToUnknownHeartbeatsNorShortened(long sequence, long validFor) {
        Rig r = Rig.holding(0);
        r.ack(1_000, sequence, validFor);
        r.wantDeadline(1_000, 0, 9_900);
    }

    @Test
    void aLostHoldWithALockDelayIsGivenBackWhenThatHasPassed() {
        Rig r = Rig.open();
        r.ask(0, 1, spec(NO_WAIT, 0, false, 2_000, "lock1"));
        r.grant(0, 2, 1, 1, 0);
        r.tick(INTERVAL);
        r.want(r.ack(9_950, 1, 0), "");
        r.wantState(9_950, 0, "expired");
        assertTrue(r.tick(11_950).contains("of 1"));
    }

    private static void grantBounded(Rig r, long now, long endsIn) {
        r.acquire(now, 1, NO_WAIT);
        SessionGranted grant = grants(0, granted(1, 1, 1)).toBuilder()
                .addBounded(BoundedLock.newBuilder().setOwnerId(owner(1)).setEndsIn(wire(endsIn)))
                .build();
        r.want(r.message(now, 2, grant), "acquired 1");
    }

    @Test
    void aBoundEndsAHoldWhateverIsAnswered() {
        Rig r = Rig.open();
        grantBounded(r, 200, 11_000);
        r.wantDeadline(200, 0, 9_900);
        for (int beat = 1; beat < 4; beat++) {
            r.tick(INTERVAL * beat);
            r.ack(INTERVAL * beat + 1, beat, 9_900);
        }
        r.wantDeadline(9_100, 0, 11_000);
        r.want(r.tick(9_900), "");
        r.wantAlarm(11_000);
        assertTrue(r.tick(11_000).contains("of 1"));
        r.wantState(11_000, 0, "max_hold");
    }

    @ParameterizedTest
    @CsvSource({"0, 10900", "20000, 10900", "6000, 7000"})
    void aBoundStaysOrComesCloserWhenTheHoldIsResumed(long told, long want) {
        Rig r = Rig.open();
        grantBounded(r, 0, 11_000);
        r.connect(1_000);
        SessionOpened.Builder opened = opensWith(r.next()).toBuilder();
        if (told > 0) {
            opened.getResumedBuilder(0).setEndsIn(wire(told));
        }
        r.message(1_000, 1, opened.build());
        r.wantDeadline(1_000, 0, want);
    }

    private static SessionHeartbeatAck allowsRest() {
        return acks(1, 9_900).toBuilder().setNextWithin(wire(30_000)).build();
    }

    private static Rig resting() {
        Rig r = Rig.open();
        r.tick(INTERVAL);
        r.message(INTERVAL + 10, 0, allowsRest());
        return r;
    }

    @Test
    void aRestEndsByItself() {
        Rig r = resting();
        r.wantAlarm(INTERVAL + 30_000);
        r.want(r.tick(INTERVAL + 30_000 - 1), "");
        r.want(r.tick(INTERVAL + 30_000), "heartbeat 2");
        r.tick(INTERVAL + 30_000 + TTL - 1);
        r.want(r.tick(INTERVAL + 30_000 + TTL), "hang up");
    }

    @Test
    void aHeartbeatGoesBeforeTheAcquireThatEndsARest() {
        Rig r = resting();
        r.want(r.acquire(20_000, 1, NO_WAIT), "heartbeat 2", "acquire 4 lock1");
        r.want(r.tick(20_000 + INTERVAL), "heartbeat 3");
        r = resting();
        r.want(r.acquire(INTERVAL + 100, 1, NO_WAIT), "acquire 3 lock1");
        r.want(r.tick(2 * INTERVAL), "heartbeat 2");
    }

    @Test
    void aSessionThatWaitsDoesNotRest() {
        Rig r = Rig.open();
        r.tick(INTERVAL);
        r.acquire(INTERVAL + 5, 1, NO_WAIT);
        r.message(INTERVAL + 10, 0, allowsRest());
        r.want(r.tick(2 * INTERVAL), "heartbeat 2");
    }

    @Test
    void grantsThatNobodyWaitsForAreGivenBack() {
        Rig r = Rig.open();
        r.acquire(0, 1, NO_WAIT);
        r.want(r.cancel(1, 1), "cancel 2");
        r.want(r.grant(2, 2, 1, 1, 0), "release 4 of 1");
        r = Rig.open();
        r.want(r.grant(2, 99, 1, 1, 0), "release 2 of 1");
        // Another lock.
        r = Rig.open();
        r.acquire(0, 1, NO_WAIT);
        r.want(r.grant(2, 2, 5, 1, 0), "release 3 of 1", "failed 1 refused");
        // Too late.
        r = Rig.open();
        r.acquire(0, 1, 60_000);
        r.acquire(0, 2, 0);
        r.want(r.grant(9_900, 2, 1, 1, 0), "release 4 of 1", "acquire 5 lock1 for 50100");
        r.want(r.grant(9_900, 3, 2, 2, 0), "release 6 of 2", "failed 2 unavailable");
        // For an unknown heartbeat.
        r = Rig.open();
        r.acquire(0, 1, 0);
        r.want(r.grant(1, 2, 1, 1, 9), "release 3 of 1", "failed 1 unavailable");
    }

    @Test
    void aChangeThatFindsNoHoldEndsIt() {
        Rig r = Rig.holding(0);
        r.want(r.change(2, 0, Change.value(ByteString.EMPTY), 70), "set value 3");
        r.want(r.change(2, 0, Change.downgrade(), 71), "downgrade 4");
        r.want(r.change(2, 0, Change.reduce(1), 72), "reduce 5 to 1");
        r.want(r.message(3, 3, SessionValueSet.newBuilder().setValueSet(true).build()), "done 70");
        r.want(r.message(3, 4, SessionDowngraded.getDefaultInstance()), "done 71 lost");
        r.wantState(3, 0, "unknown");
    }

    @Test
    void requestsWithoutAnAnswerInTimeAreUnconfirmedAndGoOn() {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, NO_WAIT);
        r.grant(0, 3, 2, 2, 0);
        r.change(1_000, 1, Change.downgrade(), 90);
        r.release(2_000, 0, 80);
        Map<Long, String> steps = Map.of(10_999L, "", 11_000L, "done 90 unconfirmed", 11_999L, "", 12_000L, "done 80 unconfirmed");
        for (long now : List.of(10_999L, 11_000L, 11_999L, 12_000L)) {
            r.ack(now, 0, 60_000);
            String seen = r.tick(now);
            String want = steps.get(now);
            assertTrue(want.isEmpty() ? !seen.contains("done") : seen.contains(want), "at " + now + ": " + seen);
        }
        // The answers come after all, to nobody.
        r.want(r.message(12_100, 4, SessionDowngraded.newBuilder().setDowngraded(true).build()), "");
        r.want(r.message(12_100, 5, releasedAs(true)), "");
    }

    @Test
    void anActorAsksAnewOnlyWhenWhatItAbandonedIsAnswered() {
        Map<Object, String[]> answers = Map.of(
                notGrantedAs(AcquireOutcome.ACQUIRE_OUTCOME_CANCELLED), new String[] {"acquire 4 lock2"},
                grants(0, granted(1, 1, 1)), new String[] {"release 4 of 1", "acquire 5 lock2"},
                failsWith(Status.Code.UNAVAILABLE, "STORE_UNAVAILABLE"), new String[] {"acquire 4 lock2"});
        answers.forEach((answer, want) -> {
            Rig r = Rig.open();
            r.ask(0, 1, spec(NO_WAIT, 5, false, 0, "lock1"));
            r.want(r.cancel(1, 1), "cancel 2");
            r.want(r.ask(2, 2, spec(NO_WAIT, 5, false, 0, "lock2")), "");
            r.want(r.message(3, 2, answer), want);
        });
    }

    private static Rig holdingTwice(long grace) {
        Rig r = new Rig(grace);
        r.reopen(0);
        for (int i = 0; i < 2; i++) {
            r.ask(0, i + 1, spec(NO_WAIT, 5, true, 0, "lock1"));
            r.message(0, i + 2, grants(0, granted(1, 1, i + 1)));
        }
        return r;
    }

    @Test
    void reentrantHoldsAreReleasedOneByOneAndLostTogether() {
        Rig r = holdingTwice(0);
        r.want(r.release(1, 0, 80), "release 4 of 1");
        r.wantState(1, 1, "held");
        r.want(r.message(2, 4, releasedAs(true)), "done 80");
        r.want(r.release(3, 1, 81), "release 5 of 1");
        r.want(r.message(4, 5, releasedAs(true)), "done 81");

        r = holdingTwice(0);
        r.message(1, 0, loses(1, LostReason.LOST_REASON_TAKEN));
        r.wantState(1, 0, "taken");
        r.wantState(1, 1, "taken");

        r = holdingTwice(0);
        r.release(1, 0, 80);
        r.want(r.message(2, 4, releasedAs(false)), "done 80 lost");
        r.wantState(2, 1, "unknown");
        r.want(r.release(3, 1, 0), "");

        // Given back as often as granted.
        r = holdingTwice(0);
        r.tick(INTERVAL);
        r.want(r.ack(9_900, 1, 9_900), "release 5 of 1", "release 6 of 1");
    }

    @Test
    void anUnansweredReleaseIsCountedInTheResume() {
        Rig r = holdingTwice(4_000);
        r.release(10, 1, 80);
        r.want(r.ended(20, StreamEnd.LEFT), "");
        r.connect(30);
        assertEquals(1, r.resumes.get(0).getHold().getHoldCount());
        r.want(r.message(40, 1, opensWith(r.next())), "opened", "done 80");
    }

    @Test
    void aDrainIsLeftWithWhatIsHeldWhenWhatWasAskedIsAnswered() {
        Rig r = Rig.holding(0);
        long former = r.stream;
        r.acquire(10, 2, 0);
        r.message(20, 0, drains());
        assertTrue(r.m.wantsConnection());
        // The try is on its way: its answer is waited for.
        r.want(r.connect(30), "");
        r.want(r.messageOn(40, former, 3, notGrantedAs(AcquireOutcome.ACQUIRE_OUTCOME_BUSY)), "failed 2 busy", "open");
        assertEquals(1, r.resumes.size());
        assertEquals(owner(1), r.resumes.get(0).getOwnerId());
        assertEquals(0, r.resumes.get(0).getTriedOwnerIdsCount());
        ByteString next = r.next();
        // From now on the former says nothing that counts.
        r.messageOn(50, former, 0, acks(0, 60_000));
        r.messageOn(50, former, 0, loses(1, LostReason.LOST_REASON_RESUMED));
        r.wantState(60, 0, "held");
        r.want(r.message(70, 1, opensWith(next)), "close", "opened");
        r.messageOn(80, former, 0, loses(1, LostReason.LOST_REASON_RESUMED));
        r.wantDeadline(80, 0, 9_940);
    }

    @Test
    void aDrainWaitsForAnswersForAWhileOnly() {
        Rig r = Rig.holding(0);
        r.acquire(10, 2, 0);
        r.message(20, 0, drains());
        r.want(r.connect(30), "");
        assertFalse(r.tick(1_029).contains("open"));
        assertTrue(r.tick(1_030).endsWith("open"));
        assertEquals(1, r.resumes.size());
    }

    @Test
    void triedIdsAreNamedToTheNextCoordinatorAndAllAreReleased() {
        Rig r = Rig.holding(0);
        r.message(10, 0, drains());
        r.connect(20);
        ByteString first = r.next();
        r.attemptFailed(30, Fate.KEPT);
        r.wantState(30, 0, "held");
        r.connect(40);
        assertEquals(List.of(first), r.resumes.get(0).getTriedOwnerIdsList());
        ByteString second = r.next();
        assertNotEquals(first, second);
        assertEquals(16, second.size());
        r.attemptFailed(50, Fate.KEPT);
        r.release(60, 0, 80);
        r.want(r.connect(70), "open");
        assertEquals(List.of(), r.resumes);
        r.want(r.message(80, 1, opensWith()), "close", "opened", "release 2 of 1");
        r.want(r.message(90, 2, releasedAs(false)), "release 3 of " + first.toStringUtf8());
        r.want(r.message(90, 3, releasedAs(false)), "release 4 of " + second.toStringUtf8());
        r.want(r.message(90, 4, releasedAs(true)), "done 80");
    }

    @Test
    void theOldestTriedIdsAreForgottenAndTheConfirmedOneNever() {
        OwnerIds known = new OwnerIds(owner(0));
        for (int n = 0; n < OwnerIds.MOST_TRIED + 2; n++) {
            known.attempt(ByteString.copyFromUtf8("" + n));
            known.unanswered();
        }
        assertEquals(OwnerIds.MOST_TRIED, known.tried().size());
        assertEquals(owner(0), known.nth(0));
        assertEquals("2", known.nth(1).toStringUtf8());
    }

    @ParameterizedTest
    @CsvSource({"0, session_ended", "4000, suspended"})
    void anAttemptWhoseEndTheCoordinatorMayHaveHeardCountsAsTheEndOfTheStream(long grace, String want) {
        Rig r = Rig.holding(grace);
        r.message(10, 0, drains());
        r.connect(20);
        r.attemptFailed(30, Fate.DROPPED);
        r.wantState(30, 0, want);
        assertNotNull(r.m.stream);
    }

    @Test
    void noGraceHelpsWhereAnOperatorEndedTheSession() {
        Rig r = Rig.holding(4_000);
        r.message(10, 0, drains());
        r.connect(20);
        r.attemptFailed(30, Fate.ENDED);
        r.wantState(30, 0, "session_ended");

        r = Rig.holding(10_000);
        r.ended(1_000, StreamEnd.BY_OPERATOR);
        r.wantState(1_000, 0, "session_ended");
        r.connect(1_100);
        assertEquals(List.of(), r.resumes);
    }

    @Test
    void answersInPartsAreTakenTogether() {
        Rig r = Rig.holding(4_000);
        r.acquire(0, 2, NO_WAIT);
        r.grant(0, 3, 2, 2, 0);
        r.ended(1_000, StreamEnd.LEFT);
        r.connect(1_100);
        ByteString one = r.next(0);
        ByteString two = r.next(1);
        r.want(r.message(1_200, 1, opensWith(one).toBuilder().setMore(true).build()), "");
        r.wantState(1_200, 0, "suspended");
        r.want(r.message(1_200, 1, opensWith(two)), "opened");
        r.wantState(1_200, 0, "held");
        r.wantState(1_200, 1, "held");
    }

    @Test
    void aPlaceIsTakenAlongAndAskedForAnewIfItIsRefused() {
        Rig r = Rig.open();
        r.acquire(0, 1, 5_000);
        r.message(10, 2, queuedAs("ticket"));
        r.ended(1_000, StreamEnd.LEFT);
        r.connect(1_100);
        SessionResume resume = r.resumes.get(0);
        assertEquals("ticket", resume.getOwnerId().toStringUtf8());
        assertEquals(2, resume.getWait().getAcquireRequestId());
        assertEquals(wire(3_900), resume.getWait().getWait());
        ByteString next = r.next();
        r.want(r.message(1_200, 1, opensInPlace(next)), "opened");
        // By its new ticket from now on.
        r.ended(1_300, StreamEnd.LEFT);
        r.connect(1_400);
        assertEquals(next, r.resumes.get(0).getOwnerId());
        r.want(r.message(1_500, 1, opensWith()), "opened", "acquire 3 lock1 for 3500");
    }

    @ParameterizedTest
    @CsvSource({"LOST_REASON_FORCED, failed 1 force released", "LOST_REASON_PERMISSION_REVOKED, failed 1 permission denied"})
    void aPlaceThatIsRefusedForGoodFails(LostReason reason, String want) {
        Rig r = Rig.open();
        r.acquire(0, 1, NO_WAIT);
        r.message(10, 2, queuedAs("ticket"));
        r.ended(20, StreamEnd.LEFT);
        r.connect(30);
        r.want(r.message(40, 1, refuses(r.next(), reason)), want, "opened");
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1_000})
    void aStoppedCoordinatorLeavesHoldsHeldUntilTheirDeadlines(long grace) {
        Rig r = Rig.holding(grace);
        r.message(1_000, 0, drains());
        r.tick(1_000);
        r.ack(1_010, 1, 9_900);
        r.want(r.ended(6_000, StreamEnd.STOPPED), "");
        r.wantState(9_000, 0, "held");
        assertTrue(r.m.isOrphaned(at(9_000)));
        r.want(r.connectFailed(9_000, true), "");
        r.connect(9_100);
        r.want(r.message(9_200, 1, opensWith(r.next())), "opened");
        r.wantDeadline(9_200, 0, 19_000);
    }

    @ParameterizedTest
    @CsvSource({
        "nothing, ANSWER, UNAVAILABLE, DRAINING, STOPPED, held",
        "drains, , , , STOPPED, held",
        "nothing, , , , LEFT, session_ended",
        "asks to move, , , , LEFT, session_ended",
        "drains, BROKEN, UNAVAILABLE, '', LEFT, session_ended",
        "nothing, ANSWER, UNAUTHENTICATED, IDENTITY_EXPIRED, DISOWNED, suspended",
        "nothing, ANSWER, DEADLINE_EXCEEDED, SESSION_SILENT, LEFT, session_ended",
    })
    void theEndOfAStreamIsJudgedByItsStatus(
            String said, Failure.Origin origin, Status.Code code, String reason, StreamEnd want, String state) {
        Rig r = Rig.holding(0);
        if (!said.equals("nothing")) {
            r.message(10, 0, said.equals("drains") ? drains() : asksToMove());
        }
        Failure failure = origin == null
                ? null
                : origin == Failure.Origin.ANSWER
                        ? Failures.answer(code, reason, "")
                        : Failures.connection(origin, "http://test", "");
        assertEquals(want, r.m.streamEndedBy(at(20), r.stream, failure));
        r.wantState(20, 0, state);
    }

    @ParameterizedTest
    @CsvSource({"RESOURCE_EXHAUSTED, MESSAGE_TOO_LARGE", "INVALID_ARGUMENT, INVALID_FIELD", "INTERNAL, ''"})
    void aRequestOnWhichAStreamBrokeIsNotSentAgain(Status.Code code, String reason) {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, Moments.NEVER);
        r.m.streamEndedBy(at(20), r.stream, Failures.answer(code, reason, ""));
        assertTrue(r.seen().contains("failed 2"));
        r.want(r.connect(30), "open");
        assertTrue(!r.message(30, 1, opensWith()).contains("acquire"));
    }

    @Test
    void waitsFailWhenNoCoordinatorKnowsTheClient() {
        Rig r = Rig.open();
        r.acquire(0, 2, NO_WAIT);
        r.ended(10, StreamEnd.DISOWNED);
        Failure failure = Failures.answer(Status.Code.UNAUTHENTICATED, "UNAUTHENTICATED", "");
        r.m.connectFailed(at(20), ConnectFailure.of("http://test", failure));
        r.want(r.seen(), "failed 2 unauthenticated");
    }

    @ParameterizedTest
    @CsvSource({
        "INVALID_ARGUMENT, INVALID_FIELD, DECLINED",
        "UNAVAILABLE, DRAINING, DECLINED",
        "DEADLINE_EXCEEDED, OPEN_TIMEOUT, DECLINED",
        "UNAVAILABLE, STORE_INDETERMINATE, KEPT",
        "UNAVAILABLE, NOT_REPLICATED, KEPT",
        "ABORTED, SESSION_ENDED, ENDED",
        "PERMISSION_DENIED, '', DECLINED",
        "UNAVAILABLE, '', DROPPED",
    })
    void onlyWhatIsSaidBeforeAnythingIsDoneDeclinesAResume(Status.Code code, String reason, Fate want) {
        assertEquals(want, Fate.of(ConnectFailure.of("http://test", Failures.answer(code, reason, ""))));
    }

    @Test
    void aResumeOfMoreThanAMiBGoesInParts() {
        Rig r = Rig.open();
        int count = 9_000;
        for (int i = 0; i < count; i++) {
            String name = String.format("%0500d", i);
            r.ask(0, i + 1, spec(NO_WAIT, 0, false, 0, name));
            GrantedLock lock = GrantedLock.newBuilder()
                    .setName(name)
                    .setOwnerId(ByteString.copyFromUtf8(String.format("owner%011d", i)))
                    .setFencingToken(7)
                    .setHoldCount(1)
                    .build();
            r.message(0, i + 2, grants(0, lock));
        }
        r.ended(10, StreamEnd.STOPPED);
        r.m.connected(at(20), "http://test");
        List<Output> outputs = r.m.takeOutputs();
        int resumed = 0;
        for (int i = 0; i < outputs.size(); i++) {
            Output.Send send = (Output.Send) outputs.get(i);
            SessionOpen open = send.request().getOpen();
            assertTrue(open.getSerializedSize() <= (1 << 20) + 1_000);
            assertEquals(i < outputs.size() - 1, open.getMore());
            assertEquals(1, send.request().getRequestId());
            resumed += open.getResumeCount();
        }
        assertTrue(outputs.size() > 1);
        assertEquals(count, resumed);
    }

    /** Counts of the answers to each caller. */
    private static final class Answers {
        final Map<String, Integer> counts = new HashMap<>();

        void note(long seed, String seen) {
            for (String word : seen.split("; ")) {
                String[] fields = word.split(" ");
                if (List.of("acquired", "failed", "done").contains(fields[0])) {
                    int count = counts.merge(fields[1], 1, Integer::sum);
                    assertEquals(1, count, "seed " + seed + ": answers to caller " + fields[1]);
                }
            }
        }
    }

    /**
     * Feeds the machine with whatever may come, and checks what must hold whatever comes: no request id is used twice, every caller is answered
     * exactly once, and nothing is held when the session has ended.
     */
    @Test
    void whateverComesEveryCallerIsAnsweredOnceAndNothingOutlivesTheSession() {
        for (long seed = 0; seed < 300; seed++) {
            Random random = new Random(seed);
            Rig r = new Rig(random.nextInt(3) * 2_000L);
            Answers answers = new Answers();
            int asked = 0;
            long now = 0;
            for (int step = 0; step < 400; step++) {
                now += random.nextInt(800);
                long id = random.nextInt(30);
                long stream = r.stream - random.nextInt(2);
                // A caller reads the clock before it waits for its turn.
                long early = now - random.nextInt(3);
                String seen = "";
                switch (random.nextInt(18)) {
                    case 0, 1 -> seen = r.m.wantsConnection() ? r.connect(now) : "";
                    case 2 -> {
                        SessionOpened opened = r.resumes.isEmpty() ? opensWith() : opensWith(r.next(r.resumes.size() - 1));
                        seen = r.message(now, 1, opened);
                    }
                    case 3, 4, 5 -> {
                        long wait = random.nextBoolean() ? random.nextInt(3) * 1_000L : NO_WAIT;
                        seen = r.ask(early, ++asked, spec(wait, random.nextInt(3), false, 0, "lock" + random.nextInt(3)));
                    }
                    case 6, 7 -> {
                        GrantedLock lock = granted(random.nextInt(3), random.nextInt(200), 1);
                        seen = r.messageOn(now, stream, id, grants(random.nextInt(3), lock));
                    }
                    case 8 -> seen = r.messageOn(now, stream, id, queuedAs("ticket"));
                    case 9 -> seen = r.messageOn(now, stream, id, releasedAs(random.nextBoolean()));
                    case 10 -> seen = r.messageOn(now, stream, 0, random.nextBoolean() ? drains() : asksToMove());
                    case 11 -> seen = r.ended(now, random.nextBoolean() ? StreamEnd.LEFT : StreamEnd.values()[random.nextInt(4)]);
                    case 12 -> seen = r.attemptFailed(now, Fate.values()[random.nextInt(4)]);
                    case 13 -> seen = r.leases.isEmpty() ? "" : r.release(early, random.nextInt(r.leases.size()), ++asked);
                    case 14 -> seen = r.messageOn(now, stream, id, failsWith(Status.Code.UNAVAILABLE, "STORE_UNAVAILABLE"));
                    case 15 -> seen = r.messageOn(now, stream, 0, loses(random.nextInt(200), LostReason.LOST_REASON_TAKEN));
                    case 16 -> {
                        r.m.staysAfterRound(at(now));
                        seen = r.seen();
                    }
                    default -> seen = r.leases.isEmpty()
                            ? ""
                            : r.change(now, random.nextInt(r.leases.size()), Change.downgrade(), ++asked);
                }
                answers.note(seed, seen);
                answers.note(seed, r.tick(now));
            }
            answers.note(seed, r.close(now));
            answers.note(seed, r.tick(now + Machine.CLOSE_TIMEOUT / Moments.MILLIS));
            // From then on nobody ticks it.
            for (int index = 0; index < r.leases.size(); index++) {
                answers.note(seed, r.change(now, index, Change.downgrade(), ++asked));
                answers.note(seed, r.release(now, index, ++asked));
                assertFalse(r.leases.get(index).lease().at(at(now)).isAlive(), "seed " + seed);
            }
            assertEquals(asked, answers.counts.size(), "seed " + seed + ": callers answered");
        }
    }
}
