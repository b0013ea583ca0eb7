/** Number of the last actor. It counts over all sessions of this process, so that an actor used in another session is a new one there. */
let last = 0;

/**
 * Sequential flow inside a client, such as the handling of one request, that does one thing after the other: the unit of reentrancy and of
 * deadlocks. A request without an actor has no relation to any other request, not even of the same session. With one:
 *
 * - the actor can hold a lock more than once, with `reentrant`, where two flows that share a client still exclude each other;
 * - the coordinator refuses a request for a lock that the actor holds already (`self_deadlock`) instead of waiting for itself;
 * - if actors wait for one another in a circle, the coordinator ends one of the waits (`deadlock`).
 *
 * All that holds only as long as the flow that has it waits for one thing at a time: don't share one among flows that run side by side. It
 * counts within one session. With another session, it is another actor.
 */
export class Actor {
  /** Number of the actor, which listings and descriptions of deadlocks show. */
  readonly number: number = ++last;
}
