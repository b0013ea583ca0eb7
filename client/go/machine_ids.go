package leasehold

// mostTried is the number of ids of unanswered attempts that are remembered: as many as a coordinator takes. After that many the
// oldest go, because what they stood for is long over.
const mostTried = 64

// ownerID is an owner id or a ticket: secret, and never logged.
type ownerID string

// ids are the owner ids by which a coordinator may know a hold or a waiter, over the streams that it is resumed on.
type ids struct {
	// confirmed is the id under which it was last confirmed.
	confirmed ownerID
	// tried are the ids of later attempts to resume it that may have been carried out; the oldest first.
	tried []ownerID
	// next is the id of the attempt in progress; empty if there is none.
	next ownerID
}

func newIDs(confirmed []byte) *ids {
	return &ids{confirmed: ownerID(confirmed)}
}

// clone returns a copy that changes for itself.
func (i *ids) clone() *ids {
	return &ids{confirmed: i.confirmed, tried: append([]ownerID(nil), i.tried...), next: i.next}
}

// isAttempted reports whether an attempt is in progress.
func (i *ids) isAttempted() bool {
	return i.next != ""
}

// unanswered ends an attempt without an answer: the coordinator may have carried it out.
func (i *ids) unanswered() {
	if i.next != "" {
		i.tried = append(i.tried, i.next)
		i.next = ""
	}
	if surplus := len(i.tried) - mostTried; surplus > 0 {
		i.tried = append([]ownerID(nil), i.tried[surplus:]...)
	}
}

// declined ends an attempt that the coordinator declined.
func (i *ids) declined() {
	i.next = ""
}

// resumed ends an attempt that the coordinator carried out.
func (i *ids) resumed() {
	if i.next != "" {
		*i = ids{confirmed: i.next}
	}
}

// inDoubt reports whether a coordinator may know it by another id than the confirmed one.
func (i *ids) inDoubt() bool {
	return i.next != "" || len(i.tried) > 0
}

// all returns every id, in the order of the attempts.
func (i *ids) all() []ownerID {
	all := append([]ownerID{i.confirmed}, i.tried...)
	if i.next != "" {
		all = append(all, i.next)
	}
	return all
}

// nth returns the id at this place in the order of the attempts; empty if there are fewer. A hold that is under one of them was never
// under a later one before.
func (i *ids) nth(index int) ownerID {
	if all := i.all(); index < len(all) {
		return all[index]
	}
	return ""
}
