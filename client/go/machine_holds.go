package leasehold

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// owned is the identity of a hold at a coordinator.
type owned struct {
	name string
	ids  *ids
	// number is the hold's number here; 0 where there is none.
	number uint64
}

// guarded is one grant of a hold, with its lease.
type guarded struct {
	key       uint64
	lease     *lease
	lockDelay time.Duration
	// releaseAt is set once the deadline has passed, while as far as the session knows the coordinator still has the hold. It is given
	// back at this moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
	releaseAt moment
}

// hold is a coordinator's hold for this session, under one owner id.
type hold struct {
	owned owned
	// ids are those of owned.
	ids ids
	// guards are its grants, in the order of their keys; never none.
	guards []guarded
}

// guard returns the grant with this key, which the hold must have.
func (h *hold) guard(key uint64) *guarded {
	return &h.guards[slices.IndexFunc(h.guards, func(guard guarded) bool { return guard.key == key })]
}

// keyed is what the session knows of one grant: the number of its hold, which has it then, or why the coordinator does not have it any more.
type keyed struct {
	number uint64
	isLost bool
	reason LostReason
}

// holds are the locks that a session holds, from their grant until they are released. Those that an actor was granted again have
// several grants, which share an owner id: the coordinator loses them together, while each is given back for itself.
type holds struct {
	byKey map[uint64]keyed
	// held are the coordinator's holds, by the session's own numbers, which rise with their grants.
	held map[uint64]*hold
	// byOwner has their numbers by the owner ids under which they were last confirmed.
	byOwner map[ownerID]uint64
	lastKey uint64
	// checkAt is a lower bound: nothing needs to be done before it. Made exact whenever it has passed.
	checkAt moment
}

func newHolds() holds {
	return holds{
		byKey:   make(map[uint64]keyed),
		held:    make(map[uint64]*hold),
		byOwner: make(map[ownerID]uint64),
		checkAt: clock.Never,
	}
}

// inOrder returns the keys of a map in rising order, so that what the machine puts out does not depend on chance.
func inOrder[K cmp.Ordered, V any](all map[K]V) []K {
	return slices.Sorted(maps.Keys(all))
}

func (h *holds) insert(granted *lease, id []byte, lockDelay time.Duration, deadline moment) (key uint64) {
	h.lastKey++
	key = h.lastKey
	h.checkAt = min(h.checkAt, deadline)
	number, isKnown := h.byOwner[ownerID(id)]
	held := h.held[number]
	if !isKnown {
		// Keys are never used again, so that the first one can number the hold too.
		number = key
		held = &hold{ids: ids{confirmed: ownerID(id)}}
		held.owned = owned{name: granted.name, ids: &held.ids, number: number}
		h.held[number] = held
		h.byOwner[held.ids.confirmed] = number
	}
	held.guards = append(held.guards, guarded{key: key, lease: granted, lockDelay: lockDelay, releaseAt: clock.Never})
	h.byKey[key] = keyed{number: number}
	return key
}

// remove forgets a grant that is released. Returns its hold, or why there is nothing to release.
func (h *holds) remove(key uint64) (released owned, reason LostReason, isThere bool) {
	number, reason, isThere := h.numberOf(key)
	delete(h.byKey, key)
	if isThere {
		released = h.unlink(number, key)
	}
	return released, reason, isThere
}

// numberOf returns the number of the hold of this grant, or why there is none: lostReleased unless it was lost.
func (h *holds) numberOf(key uint64) (number uint64, reason LostReason, isThere bool) {
	known, isKnown := h.byKey[key]
	if isKnown && known.isLost {
		return 0, known.reason, false
	}
	return known.number, lostReleased, isKnown
}

// owned returns the name and the owner id of a hold, unless its grant has lost it.
func (h *holds) owned(key uint64, now moment) (found owned, reason LostReason, isThere bool) {
	number, reason, isThere := h.numberOf(key)
	if !isThere {
		return owned{}, reason, false
	}
	held := h.held[number]
	if reason, hasEnded := held.guard(key).lease.endReason(now); hasEnded {
		return owned{}, reason, false
	}
	return held.owned, 0, true
}

// lost handles the coordinator's message that it does not have this hold any more: every grant of it has lost it.
func (h *holds) lost(id []byte, now moment, reason LostReason) {
	if number, isKnown := h.byOwner[ownerID(id)]; isKnown {
		h.forget(number, now, reason)
	}
}

// ask handles the coordinator's message that an operator asks for the release of this lock: it concerns every grant of it.
func (h *holds) ask(id []byte, now moment, request ReleaseRequest) {
	number, isKnown := h.byOwner[ownerID(id)]
	if !isKnown {
		return
	}
	for _, guard := range h.held[number].guards {
		guard.lease.ask(now, request)
	}
}

// forget removes a hold that the coordinator does not have any more: every grant of it has lost it.
func (h *holds) forget(number uint64, now moment, reason LostReason) {
	held := h.held[number]
	if held == nil {
		return
	}
	delete(h.held, number)
	delete(h.byOwner, held.owned.ids.confirmed)
	for _, guard := range held.guards {
		first, didEnd := guard.lease.end(now, reason)
		if didEnd || first == lostReleased {
			first = reason
		}
		// One that had reported another end before keeps that.
		h.byKey[guard.key] = keyed{isLost: true, reason: first}
	}
}

// gone removes the hold of this grant, which the coordinator does not know. Returns the reason of the loss.
func (h *holds) gone(key uint64, now moment, reason LostReason) LostReason {
	if number, _, isThere := h.numberOf(key); isThere {
		h.forget(number, now, reason)
	}
	_, reason, _ = h.numberOf(key)
	return reason
}

// extend extends every hold after the answer to a heartbeat: all are good until then at least.
func (h *holds) extend(to moment) {
	for _, held := range h.held {
		for _, guard := range held.guards {
			guard.lease.extend(to)
		}
	}
}

// expire ends the holds that have passed their deadlines. Returns those to give back now, in the order of their grants.
func (h *holds) expire(now moment) (over []owned) {
	if now < h.checkAt {
		return nil
	}
	h.checkAt = clock.Never
	var keys []uint64
	for _, held := range h.held {
		for i := range held.guards {
			guard := &held.guards[i]
			next := guard.releaseAt
			if next == clock.Never {
				deadline, isAlive := guard.lease.alive(now)
				if isAlive {
					next = deadline
				} else if reason, _ := guard.lease.endReason(now); reason == lostReleased {
					// Its release is on the way to the session.
					continue
				} else {
					guard.releaseAt = now.After(guard.lockDelay)
					next = guard.releaseAt
				}
			}
			if now < next {
				h.checkAt = min(h.checkAt, next)
			} else {
				keys = append(keys, guard.key)
			}
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		number := h.byKey[key].number
		reason, _ := h.held[number].guard(key).lease.endReason(now)
		h.byKey[key] = keyed{isLost: true, reason: reason}
		over = append(over, h.unlink(number, key))
	}
	return over
}

// endAll ends all holds with the session.
func (h *holds) endAll(now moment, reason LostReason) {
	for _, number := range inOrder(h.held) {
		h.forget(number, now, reason)
	}
	h.checkAt = clock.Never
}

// endWithStream ends all holds with the stream.
func (h *holds) endWithStream(now moment) {
	for _, number := range inOrder(h.held) {
		h.end(number, now, LostSessionEnded)
	}
}

// lostInDoubt ends the holds that a coordinator has lost which may have had them under any of their ids.
func (h *holds) lostInDoubt(now moment, lost map[ownerID]LostReason) {
	for _, number := range inOrder(h.held) {
		for _, id := range h.held[number].owned.ids.all() {
			if reason, isLost := lost[id]; isLost {
				h.end(number, now, reason)
				break
			}
		}
	}
}

// end ends a hold. One that an attempt to resume may have moved to another stream is still to be given back there.
func (h *holds) end(number uint64, now moment, reason LostReason) {
	held := h.held[number]
	if !held.owned.ids.inDoubt() {
		h.forget(number, now, reason)
		return
	}
	for _, guard := range held.guards {
		guard.lease.end(now, reason)
	}
	h.checkAt = now
}

// suspend suspends what is held, because the stream has ended; see lease.suspend.
func (h *holds) suspend(now, until moment) {
	for _, held := range h.held {
		for _, guard := range held.guards {
			guard.lease.suspend(now, until)
		}
		// Deadlines may have come closer: they are looked at anew.
		h.checkAt = now
	}
}

// attemptDropped handles the end of a stream that was asked to resume holds: those whose ids say so may have been on it.
func (h *holds) attemptDropped(now moment, grace time.Duration, mayHaveMoved func(*ids) bool) {
	for _, held := range h.held {
		if !mayHaveMoved(held.owned.ids) {
			continue
		}
		for _, guard := range held.guards {
			if grace == 0 {
				guard.lease.end(now, LostSessionEnded)
			} else {
				guard.lease.suspend(now, now.After(grace))
			}
			h.checkAt = now
		}
	}
}

// resumable calls f with the holds that another stream could take over: those that at least one grant has not lost.
func (h *holds) resumable(now moment, f func(*hold, *leaseholdv1.ResumedHold)) {
	for _, number := range inOrder(h.held) {
		held := h.held[number]
		for _, guard := range held.guards {
			if _, isAlive := guard.lease.alive(now); isAlive {
				f(held, &leaseholdv1.ResumedHold{
					FencingToken: guard.lease.token,
					HoldCount:    uint32(len(held.guards)),
				})
				break
			}
		}
	}
}

// resumed notes that another stream has resumed this hold.
func (h *holds) resumed(number uint64, now, deadline, endsAt moment) {
	held := h.held[number]
	if held == nil {
		return
	}
	delete(h.byOwner, held.owned.ids.confirmed)
	held.owned.ids.resumed()
	h.byOwner[held.owned.ids.confirmed] = number
	for _, guard := range held.guards {
		guard.lease.resume(now, deadline, endsAt)
	}
	// Deadlines may have come closer: they are looked at anew.
	h.checkAt = min(h.checkAt, now)
}

// firstDeadline returns the first deadline of all that is held or suspended; Never if nothing is.
func (h *holds) firstDeadline(now moment) moment {
	first := clock.Never
	for _, held := range h.held {
		for _, guard := range held.guards {
			if deadline, isAlive := guard.lease.alive(now); isAlive {
				first = min(first, deadline)
			}
		}
	}
	return first
}

// unlink removes a grant from its hold, because the coordinator does not hold it for this grant any more. Returns the hold.
func (h *holds) unlink(number, key uint64) (released owned) {
	held := h.held[number]
	held.guards = slices.DeleteFunc(held.guards, func(guard guarded) bool { return guard.key == key })
	if len(held.guards) > 0 {
		released = held.owned
		released.ids = held.owned.ids.clone()
		return released
	}
	delete(h.held, number)
	delete(h.byOwner, held.owned.ids.confirmed)
	return held.owned
}
