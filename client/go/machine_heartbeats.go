package leasehold

// heartbeatsRemembered is the number of heartbeats remembered. Answers about older ones extend nothing; at one every third of a TTL
// this is far more than a lease can last.
const heartbeatsRemembered = 64

// heartbeats are those of one stream. The open is number 0.
type heartbeats struct {
	first  uint64
	sentAt []moment
}

// openingHeartbeats begins with the open, sent now.
func openingHeartbeats(now moment) heartbeats {
	return heartbeats{sentAt: []moment{now}}
}

// lastSent returns when the newest heartbeat was sent.
func (h *heartbeats) lastSent() moment {
	return h.sentAt[len(h.sentAt)-1]
}

// note notes that the next heartbeat is sent now, and numbers it. To be called before it can be on the wire: a time noted too early
// shortens a lease by a little, one noted too late would let it outlive the lock.
func (h *heartbeats) note(now moment) uint64 {
	h.sentAt = append(h.sentAt, now)
	if len(h.sentAt) > heartbeatsRemembered {
		h.sentAt = h.sentAt[1:]
		h.first++
	}
	return h.first + uint64(len(h.sentAt)) - 1
}

// at returns when this heartbeat was sent; false if it never was, or too long ago to matter.
func (h *heartbeats) at(sequence uint64) (sentAt moment, isKnown bool) {
	if sequence < h.first || sequence-h.first >= uint64(len(h.sentAt)) {
		return 0, false
	}
	return h.sentAt[sequence-h.first], true
}
