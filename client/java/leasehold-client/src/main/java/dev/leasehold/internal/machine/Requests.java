package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.Failure;
import dev.leasehold.LostReason;
import dev.leasehold.internal.machine.Output.HoldResult;
import dev.leasehold.v1.SessionRelease;
import dev.leasehold.v1.SessionRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Releases and changes of holds. The session repeats a release that the coordinator could not serve.
 *
 * <p>Of a hold that has several grants, every release but the last only counts down, which no coordinator needs a store for: it can't fail.
 * So what is repeated is the last release of a hold, done already or not, and takes nothing from anybody.
 */
final class Requests {
    private final Machine machine;
    private final Replies replies = new Replies();
    /** Releases that no stream could be asked for so far, and those to be repeated. */
    private List<Release> releases = new ArrayList<>();

    private List<Change> changes = new ArrayList<>();

    Requests(Machine machine) {
        this.machine = machine;
    }

    boolean hasUnsent() {
        return !releases.isEmpty() || !changes.isEmpty();
    }

    boolean hasUnsentReleases() {
        return !releases.isEmpty();
    }

    List<Release> unsentReleases() {
        return releases;
    }

    long alarm() {
        long alarm = replies.firstDue();
        // While none can be sent there may be as many as there were holds, and none has a time of its own.
        if (machine.takesChanges()) {
            for (Release release : releases) {
                alarm = Math.min(alarm, release.retryAt);
            }
        }
        return alarm;
    }

    /** Handles the release of a grant: once for each grant, even a lost one. */
    void release(long now, long key, String traceparent, Consumer<HoldResult> call) {
        long reply = replies.add(now, call);
        Holds.Found found = machine.holds.remove(key);
        if (!found.isThere()) {
            reply(reply, HoldResult.lost(found.reason()));
            return;
        }
        send(new Release(found.owned(), reply, traceparent));
        machine.leaveIfDrained(now);
    }

    /** Gives back what nobody here holds. */
    void giveBack(Owned owned) {
        send(Release.of(owned));
    }

    /** Gives back what nobody here holds any more, because its deadline has passed. */
    void giveBackExpired(Owned owned) {
        Release release = Release.of(owned);
        release.isExpired = true;
        send(release);
    }

    /** Sends a release. A hold that was granted three times is released three times. */
    private void send(Release asked) {
        if (!machine.takesChanges()) {
            putOff(asked);
            return;
        }
        ByteString id = asked.owned.ids().nth(asked.index);
        if (id == null) {
            return;
        }
        machine.send(
                machine.stream,
                SessionRequest.newBuilder()
                        .setRequestId(machine.stream.numberRequest(new InFlight.Releasing(asked)))
                        .setTraceparent(asked.traceparent)
                        .setRelease(SessionRelease.newBuilder()
                                .setName(asked.owned.name())
                                .setOwnerId(id)
                                .setExpired(asked.isExpired))
                        .build());
        asked.isExpired = false;
    }

    /** Keeps it for the next stream, if there may be anything left to give back then. */
    void putOff(Release asked) {
        if (machine.stream != null || machine.canResume() || asked.owned.ids().isInDoubt()) {
            releases.add(asked);
        } else {
            reply(asked.reply, HoldResult.UNCONFIRMED);
        }
    }

    void released(long now, InFlight request, boolean wasReleased) {
        if (!(request instanceof InFlight.Releasing releasing)) {
            return;
        }
        Release asked = releasing.release();
        if (!wasReleased && asked.owned.ids().nth(asked.index + 1) != null) {
            asked.index++;
            asked.isRepeated = true;
            send(asked);
            return;
        }
        HoldResult result = HoldResult.DONE;
        if (!wasReleased && !asked.isRepeated) {
            // Nor is it held for other grants of the same hold.
            machine.holds.forget(asked.owned.number(), now, LostReason.UNKNOWN);
            result = HoldResult.lost(LostReason.UNKNOWN);
        }
        reply(asked.reply, result);
        machine.leaveIfDrained(now);
    }

    void releaseFailed(long now, Release asked, Failure failure) {
        long reply = asked.reply;
        asked.reply = 0;
        // Nobody else would give it back, and the coordinator goes on renewing it.
        if (failure.isRetryable()) {
            long pause = Math.max(asked.retryIn, Math.min(Moments.nanos(failure.retryAfter()), Release.RETRY_MAX));
            asked.retryAt = Moments.after(now, pause);
            asked.retryIn = Math.min(asked.retryIn * 2, Release.RETRY_MAX);
            releases.add(asked);
        } else {
            machine.log(System.Logger.Level.WARNING, "a release of lock \"" + asked.owned.name() + "\" was refused: " + failure);
        }
        reply(reply, HoldResult.refused(failure));
    }

    /** Sends what is to be repeated now, and tells callers that have waited for too long that their request is not confirmed. */
    void tick(long now) {
        for (Consumer<HoldResult> call = replies.takeDue(now); call != null; call = replies.takeDue(now)) {
            machine.put(new Output.HoldDone(call, HoldResult.UNCONFIRMED));
        }
        List<Release> due = new ArrayList<>();
        releases.removeIf(asked -> asked.retryAt <= now && due.add(asked));
        for (Release asked : due) {
            asked.retryAt = Moments.NEVER;
            send(asked);
        }
    }

    /** Handles the request of a holder to change its hold. */
    void change(long now, Change asked, Consumer<HoldResult> call) {
        asked.reply = replies.add(now, call);
        sendChange(now, asked);
    }

    /** Asks for a change, now or on the next stream. */
    private void sendChange(long now, Change asked) {
        Holds.Found found = machine.holds.owned(asked.key, now);
        if (!found.isThere()) {
            reply(asked.reply, HoldResult.lost(found.reason()));
        } else if (machine.takesChanges()) {
            SessionRequest.Builder request = asked.message(found.owned());
            request.setRequestId(machine.stream.numberRequest(new InFlight.Changing(asked)));
            machine.send(machine.stream, request.build());
        } else {
            // For the stream that takes it over, if there is one in time.
            changes.add(asked);
        }
    }

    void changed(long now, InFlight request, boolean wasChanged) {
        if (request instanceof InFlight.Changing changing) {
            long key = changing.change().key;
            reply(
                    changing.change().reply,
                    wasChanged ? HoldResult.DONE : HoldResult.lost(machine.holds.gone(key, now, LostReason.UNKNOWN)));
        }
    }

    void changeFailed(Change asked, Failure failure) {
        reply(asked.reply, HoldResult.refused(failure));
    }

    /** Sends all that could not be asked so far, except what is to be repeated later. */
    void sendUnsent(long now) {
        List<Change> unsent = changes;
        changes = new ArrayList<>();
        unsent.forEach(asked -> sendChange(now, asked));
        List<Release> anew = new ArrayList<>();
        releases.removeIf(asked -> asked.retryAt == Moments.NEVER && anew.add(asked));
        anew.forEach(this::send);
    }

    /**
     * Keeps what this stream was asked about holds, and has not answered, for the next one. Returns the acquires that it has not answered,
     * in the order in which they were asked.
     */
    List<Long> putOffUnanswered(LeaseStream stream) {
        List<Release> kept = new ArrayList<>();
        List<Release> repeated = new ArrayList<>();
        for (Release asked : releases) {
            if (asked.retryAt == Moments.NEVER) {
                kept.add(asked);
            } else {
                asked.anew();
                repeated.add(asked);
            }
        }
        List<Long> acquires = new ArrayList<>();
        for (Map.Entry<Long, InFlight> entry : stream.inFlight.entrySet()) {
            if (entry.getValue() instanceof InFlight.Acquire request) {
                acquires.add(request.acquire());
            } else if (entry.getValue() instanceof InFlight.Releasing request) {
                request.release().anew();
                kept.add(request.release());
            } else if (entry.getValue() instanceof InFlight.Changing request) {
                changes.add(request.change());
            }
        }
        stream.inFlight.clear();
        kept.addAll(repeated);
        releases = kept;
        return acquires;
    }

    /** Fails all outstanding changes and releases of the last stream, except releases of holds that another stream may have. */
    void giveUpUnsent() {
        changes.forEach(asked -> reply(asked.reply, HoldResult.UNCONFIRMED));
        changes.clear();
        for (Release asked : releases) {
            reply(asked.reply, HoldResult.UNCONFIRMED);
            asked.reply = 0;
        }
        releases.removeIf(asked -> machine.isEnding() || !asked.owned.ids().isInDoubt());
    }

    /** Settles the releases from before the stream opened: the resume carried them out, or they are still to be sent. */
    void settleUnsent(Map<Long, Moving.Outcome> outcomes, boolean hasMoved) {
        List<Release> unsent = releases;
        releases = new ArrayList<>();
        for (Release asked : unsent) {
            Moving.Outcome became = outcomes.get(asked.owned.number());
            if (became != null && asked.isCounted) {
                reply(asked.reply, became.isLost() ? HoldResult.lost(became.reason()) : HoldResult.DONE);
                continue;
            }
            if (became != null && !became.isLost()) {
                // It is known by what is its own now.
                asked.owned.ids().resumed();
            } else if (became == null) {
                // It was not to be taken over: the end of the stream before gives it back too, whichever is first.
                asked.isRepeated |= hasMoved;
            }
            asked.isCounted = false;
            asked.index = 0;
            releases.add(asked);
        }
    }

    /** Answers, unless nobody waits, or the caller was already told that its request was not confirmed in time. */
    private void reply(long number, HoldResult result) {
        Consumer<HoldResult> call = number == 0 ? null : replies.take(number);
        if (call != null) {
            machine.put(new Output.HoldDone(call, result));
        }
    }
}
