package dev.leasehold;

import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.AdminServiceGrpc;
import dev.leasehold.v1.CheckTokenRequest;
import dev.leasehold.v1.CheckTokenResponse;
import dev.leasehold.v1.EndSessionRequest;
import dev.leasehold.v1.EndSessionResponse;
import dev.leasehold.v1.ForceReleaseRequest;
import dev.leasehold.v1.GetLockRequest;
import dev.leasehold.v1.GetStatusRequest;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.ListSessionsRequest;
import dev.leasehold.v1.ListSessionsResponse;
import dev.leasehold.v1.RequestReleaseRequest;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Operator's view of locks and sessions, with which to intervene. Its calls need no session. Each ends after ten seconds if no coordinator
 * answers, and fails with a {@link CallException} if none does or if one refuses. An interrupt ends the call while it runs. All methods may
 * be called from any thread.
 */
public final class Admin {
    private final Calls calls;

    Admin(Calls calls) {
        this.calls = calls;
    }

    /**
     * Result of {@link #checkToken}.
     *
     * @param isCurrent whether no newer token is on record for the name
     * @param newest newest token on record; 0 if none is
     */
    public record TokenCheck(boolean isCurrent, long newest) {}

    /**
     * Result of {@link #endSession}.
     *
     * @param isEnded false if no coordinator has such a session, and no lock names it
     * @param sessionCount number of sessions that coordinators have ended: more than 1 if others had resumed some of its locks; 0 if only
     *     what it left in the store was ended
     * @param holdCount number of holds that were ended
     * @param waiterCount number of waits that were ended
     */
    public record SessionEnd(boolean isEnded, int sessionCount, int holdCount, int waiterCount) {}

    /**
     * Returns all locks whose names begin with the prefix, which may be empty, without their waiters. A scan: unordered, and it may miss locks
     * that come or go meanwhile. The stream asks for a page at a time, while it is read, and then fails as the other calls do.
     */
    public Stream<LockView> listLocks(String prefix) {
        CallException.check(Checks.prefix(Checks.given(prefix, "prefix")));
        ListLocksRequest first = ListLocksRequest.newBuilder().setPrefix(prefix).build();
        return pages(
                token -> look(AdminServiceGrpc.getListLocksMethod(), first.toBuilder().setPageToken(token).build()),
                ListLocksResponse::getNextPageToken,
                page -> page.getLocksList().stream().map(Views::lock).toList());
    }

    /** Returns the sessions of the coordinator that answers, in the order of their ids. The stream reads a page at a time, as listLocks does. */
    public Stream<SessionView> listSessions() {
        return pages(
                token -> look(
                        AdminServiceGrpc.getListSessionsMethod(),
                        ListSessionsRequest.newBuilder().setPageToken(token).build()),
                ListSessionsResponse::getNextPageToken,
                page -> page.getSessionsList().stream().map(Views::session).toList());
    }

    /** Returns the items of all pages, each of which is asked for when the one before has been read. */
    private static <P, T> Stream<T> pages(Function<String, P> ask, Function<P, String> next, Function<P, List<T>> items) {
        return Stream.iterate(
                        new Page<>(List.<T>of(), ""),
                        Objects::nonNull,
                        before -> before.next == null ? null : Page.of(ask.apply(before.next), next, items))
                .flatMap(page -> page.items.stream());
    }

    /**
     * Page of a listing.
     *
     * @param items what is on it
     * @param next token of the next page; null on the last
     */
    private record Page<T>(List<T> items, String next) {
        static <P, T> Page<T> of(P answer, Function<P, String> next, Function<P, List<T>> items) {
            String token = next.apply(answer);
            return new Page<>(items.apply(answer), token.isEmpty() ? null : token);
        }
    }

    /** Returns the view of one lock: holders, token, TTL left, waiters in order. A free name is shown as free, not as an error. */
    public LockView getLock(String name) {
        checkName(name);
        GetLockRequest request = GetLockRequest.newBuilder().setName(name).build();
        return Views.lock(look(AdminServiceGrpc.getGetLockMethod(), request).getLock());
    }

    /**
     * Takes a lock from all its holders: notifies them, raises the token, and grants the next waiter.
     *
     * @return false if the name was free
     */
    public boolean forceRelease(String name) {
        checkName(name);
        return forceRelease(ForceReleaseRequest.newBuilder().setName(name));
    }

    /**
     * Takes a lock from the holder with this fencing token. Others keep theirs.
     *
     * @return false if there is no such holder
     */
    public boolean forceReleaseHolder(String name, long token) {
        checkName(name);
        CallException.check(Checks.token(token, "token"));
        return forceRelease(ForceReleaseRequest.newBuilder().setName(name).setFencingToken(token));
    }

    /**
     * Ends the wait of the waiter with this number, as {@link #getLock} shows it: its acquire fails with {@link ErrorKind#FORCE_RELEASED}.
     *
     * @return false if there is no such waiter
     */
    public boolean forceReleaseWaiter(String name, long number) {
        checkName(name);
        CallException.check(Checks.token(number, "number"));
        return forceRelease(ForceReleaseRequest.newBuilder().setName(name).setWaiterNumber(number));
    }

    private boolean forceRelease(ForceReleaseRequest.Builder request) {
        return change(AdminServiceGrpc.getForceReleaseMethod(), request.build()).getReleased();
    }

    /**
     * Asks the holders of a lock to release it; see {@link Grant#onReleaseRequest}. It changes nothing about the lock.
     *
     * @param reason reason for people, which may be empty
     * @param within time that the holders have: 1 s to 24 h, or zero for none
     * @return number of holds that were asked
     */
    public int requestRelease(String name, String reason, Duration within) {
        return requestReleaseOfHolder(name, 0, reason, within);
    }

    /** Asks the holder with this fencing token to release the lock, as {@link #requestRelease} asks all. */
    public int requestReleaseOfHolder(String name, long token, String reason, Duration within) {
        checkName(name);
        CallException.check(Checks.token(token, "token"));
        CallException.check(Checks.text(Checks.given(reason, "reason"), "reason"));
        CallException.check(Checks.within(Moments.nanos(Checks.given(within, "within"))));
        RequestReleaseRequest.Builder request =
                RequestReleaseRequest.newBuilder().setName(name).setFencingToken(token).setReason(reason);
        if (within.compareTo(Duration.ZERO) > 0) {
            request.setWithin(Moments.wire(Moments.nanos(within)));
        }
        return change(AdminServiceGrpc.getRequestReleaseMethod(), request.build()).getAskedCount();
    }

    /**
     * Ends a session, at whichever coordinator it is: takes all its locks from it, ends its waits and its stream, and tells its client. The id
     * is as listings show it. If the call fails, the session may yet end: ask again.
     */
    public SessionEnd endSession(String sessionId) {
        checkName(sessionId);
        EndSessionRequest request = EndSessionRequest.newBuilder().setSessionId(sessionId).build();
        EndSessionResponse answer = change(AdminServiceGrpc.getEndSessionMethod(), request);
        return new SessionEnd(answer.getEnded(), answer.getSessionCount(), answer.getHoldCount(), answer.getWaiterCount());
    }

    /** Returns whether a fencing token is still the newest of its name. */
    public TokenCheck checkToken(String name, long token) {
        checkName(name);
        CallException.check(Checks.token(token, "token"));
        CheckTokenRequest request = CheckTokenRequest.newBuilder().setName(name).setFencingToken(token).build();
        CheckTokenResponse answer = look(AdminServiceGrpc.getCheckTokenMethod(), request);
        return new TokenCheck(answer.getCurrent(), answer.getNewestToken());
    }

    /** Returns the status of the coordinator that answers. It answers from memory, even if it cannot reach the store. */
    public CoordinatorStatus status() {
        return Views.status(look(AdminServiceGrpc.getGetStatusMethod(), GetStatusRequest.getDefaultInstance()));
    }

    /**
     * Watches what happens to all locks whose names begin with the prefix, over all coordinators, until the watcher is closed: first a snapshot,
     * then every event. The listener is called on the client's executor, for one item after the other; what it throws is logged. It must keep
     * up: the coordinator keeps back what is not read, and drops it after a while, which is a {@link WatchItem.Gap}.
     *
     * <p>If the connection breaks or the coordinator goes away, the listener is told a gap, and the watcher asks again, for as long as it
     * takes.
     *
     * @param listener is told the items
     * @param failed is told why the watcher ended, if a coordinator refuses for good
     */
    public Watcher watch(String prefix, Consumer<WatchItem> listener, Consumer<LeaseholdException> failed) {
        CallException.check(Checks.encodable(Checks.given(prefix, "prefix"), "prefix"));
        return new Watcher(calls, prefix, Checks.given(listener, "listener"), Checks.given(failed, "failed"));
    }

    private static void checkName(String name) {
        CallException.check(Checks.name(Checks.given(name, "name")));
    }

    private <Q, A> A look(MethodDescriptor<Q, A> method, Q request) {
        return CallException.unwrapping(() -> calls.call(Calls.Rule.FREELY, method, request));
    }

    private <Q, A> A change(MethodDescriptor<Q, A> method, Q request) {
        return CallException.unwrapping(() -> calls.call(Calls.Rule.UNSENT, method, request));
    }
}
