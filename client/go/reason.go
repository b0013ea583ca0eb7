package leasehold

import leaseholdv1 "leasehold.dev/go/leasehold/v1"

// LostReason says why a lock is no longer held.
type LostReason int

const (
	// LostUnknown means that the coordinator said that the lock was no longer held, but not why.
	LostUnknown LostReason = iota
	// LostExpired means that the lease ran out before it was renewed: the coordinator or its store was out of reach, or this
	// process was paused. Decided by this process's own clock, or told by the coordinator, whichever came first.
	LostExpired
	// LostDeleted means that the lock was gone from the store before its time: its key was deleted, or the store lost data.
	LostDeleted
	// LostTaken means that another client's lock was found in its place.
	LostTaken
	// LostForced means that an operator force-released it.
	LostForced
	// LostSessionEnded means that the stream to the coordinator ended, and every hold of the session with it.
	LostSessionEnded
	// LostSessionClosed means that this process closed the session.
	LostSessionClosed
	// LostPermissionRevoked means that the coordinator does not allow this client to hold it any more.
	LostPermissionRevoked
	// LostUnauthenticated means that the client's token or certificate expired or was removed, and no newer one came in time.
	LostUnauthenticated
	// LostResumed means that another stream resumed it without a request of this session: a client that knew its owner id.
	LostResumed
	// LostMaxHold means that it was held for as long as it may be.
	LostMaxHold
	// lostReleased means that this process released it, which is no loss.
	lostReleased
)

// lostReasons has the name of each reason, and its description for people.
var lostReasons = [...]struct{ name, text string }{
	LostUnknown:           {"unknown", "the coordinator no longer holds it for us"},
	LostExpired:           {"expired", "its lease ran out before it was renewed"},
	LostDeleted:           {"deleted", "it was deleted from the store"},
	LostTaken:             {"taken", "another client's lock was found in its place"},
	LostForced:            {"forced", "it was force-released by an operator"},
	LostSessionEnded:      {"session_ended", "the stream to the coordinator ended"},
	LostSessionClosed:     {"session_closed", "the session was closed"},
	LostPermissionRevoked: {"permission_revoked", "this client is not allowed to hold it any more"},
	LostUnauthenticated:   {"unauthenticated", "the coordinator does not know this client any more, and no newer credentials came in time"},
	LostResumed:           {"resumed", "another stream resumed it"},
	LostMaxHold:           {"max_hold", "it was held for as long as it may be"},
	lostReleased:          {"released", "it was released"},
}

// words returns the name of the reason, and its description for people; those of LostUnknown for one that there is not.
func (r LostReason) words() (name, text string) {
	if r < 0 || int(r) >= len(lostReasons) {
		r = LostUnknown
	}
	return lostReasons[r].name, lostReasons[r].text
}

// String returns the reason in snake case, for example "session_ended".
func (r LostReason) String() string {
	name, _ := r.words()
	return name
}

// lostReasonOf has the reasons on the wire. One that this version does not know is LostUnknown.
var lostReasonOf = map[leaseholdv1.LostReason]LostReason{
	leaseholdv1.LostReason_LOST_REASON_EXPIRED:            LostExpired,
	leaseholdv1.LostReason_LOST_REASON_DELETED:            LostDeleted,
	leaseholdv1.LostReason_LOST_REASON_TAKEN:              LostTaken,
	leaseholdv1.LostReason_LOST_REASON_FORCED:             LostForced,
	leaseholdv1.LostReason_LOST_REASON_RESUMED:            LostResumed,
	leaseholdv1.LostReason_LOST_REASON_PERMISSION_REVOKED: LostPermissionRevoked,
	leaseholdv1.LostReason_LOST_REASON_MAX_HOLD:           LostMaxHold,
}

// State is the state of a hold.
type State int

const (
	// StateHeld means that the lock is held, by this process's own clock and all messages so far.
	StateHeld State = iota + 1
	// StateSuspended means that the stream to the coordinator broke and the session has a grace, or that the coordinator ended
	// it because the client's token or certificate expired. Don't act on the lock: it counts as not held, and is not lost yet.
	// It is held again if the session resumes it in time, with the same token, and otherwise lost.
	StateSuspended
	// StateLost means that the lock is not held any more. That is final.
	StateLost
	// StateReleased means that this process released it. That is final.
	StateReleased
)

// String returns the state in lower case.
func (s State) String() string {
	return nameOf([]string{"unknown", "held", "suspended", "lost", "released"}, int(s))
}
