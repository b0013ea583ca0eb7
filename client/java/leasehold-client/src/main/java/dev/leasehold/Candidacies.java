package dev.leasehold;

import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.machine.Lease;
import java.util.HashMap;
import java.util.Map;

/**
 * Elections for which a session campaigns, or which it leads: at most one candidacy each, since a second one would wait behind the first.
 */
final class Candidacies {
    /** Candidacy of one election; its term is null until it is elected. */
    final class Candidacy {
        private final String election;
        private Lease term;

        private Candidacy(String election) {
            this.election = election;
        }

        /** Notes the leadership. */
        void elected(Lease granted) {
            synchronized (all) {
                term = granted;
            }
        }

        /** Ends it. After a loss the session may have begun another one, which stays. */
        void end() {
            synchronized (all) {
                all.remove(election, this);
            }
        }
    }

    private final Map<String, Candidacy> all = new HashMap<>();

    /** Begins a candidacy; null if the session has one that waits, leads or is suspended. */
    Candidacy begin(String election) {
        synchronized (all) {
            Candidacy former = all.get(election);
            if (former != null && (former.term == null || former.term.at(BootClock.now()).isAlive())) {
                return null;
            }
            Candidacy begun = new Candidacy(election);
            all.put(election, begun);
            return begun;
        }
    }
}
