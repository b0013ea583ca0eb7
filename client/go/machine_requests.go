package leasehold

import (
	"slices"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Releases and changes of holds. The session repeats a release that the coordinator could not serve.
//
// Of a hold that has several grants, every release but the last only counts down, which no coordinator needs a store for: it can't
// fail. So what is repeated is the last release of a hold, done already or not, and takes nothing from anybody.

// release handles the release of a grant: once for each grant, even a lost one.
func (m *machine) release(now moment, key uint64, trace string, call holdCall) {
	m.expire(now)
	reply := m.expect(now, call)
	what, reason, isThere := m.holds.remove(key)
	if !isThere {
		m.reply(reply, holdResult{outcome: holdLost, reason: reason})
		return
	}
	asked := newRelease(what, reply)
	asked.trace = trace
	m.sendRelease(asked)
	m.leaveIfDrained(now)
}

// sendRelease sends a release. A hold that was granted three times is released three times.
func (m *machine) sendRelease(asked *release) {
	if !m.takesChanges() {
		m.putOff(asked)
		return
	}
	id := asked.owned.ids.nth(asked.index)
	if id == "" {
		return
	}
	m.send(m.stream, &leaseholdv1.SessionRequest{
		RequestId:   m.stream.numberRequest(inFlight{kind: inFlightRelease, release: asked}),
		Traceparent: asked.trace,
		Request: &leaseholdv1.SessionRequest_Release{
			Release: &leaseholdv1.SessionRelease{Name: asked.owned.name, OwnerId: []byte(id), Expired: asked.expired},
		},
	})
	asked.expired = false
}

// putOff keeps it for the next stream, if there may be anything left to give back then.
func (m *machine) putOff(asked *release) {
	if m.stream != nil || m.resumeUntil != never || asked.owned.ids.inDoubt() {
		m.unsentReleases = append(m.unsentReleases, asked)
	} else {
		m.reply(asked.reply, holdResult{outcome: holdUnconfirmed})
	}
}

func (m *machine) released(now moment, id uint64, wasReleased bool) {
	request := m.answered(id)
	if request.kind != inFlightRelease {
		return
	}
	asked := request.release
	if !wasReleased && asked.owned.ids.nth(asked.index+1) != "" {
		asked.index++
		asked.again = true
		m.sendRelease(asked)
		return
	}
	var result holdResult
	if !wasReleased && !asked.again {
		// Nor is it held for other grants of the same hold.
		m.holds.forget(asked.owned.number, now, LostUnknown)
		result = holdResult{outcome: holdLost, reason: LostUnknown}
	}
	m.reply(asked.reply, result)
	m.leaveIfDrained(now)
}

func (m *machine) releaseFailed(now moment, asked *release, failure *Failure) {
	reply := asked.reply
	asked.reply = nil
	// Nobody else would give it back, and the coordinator goes on renewing it.
	if failure.Retryable() {
		asked.retryAt = now.After(max(asked.retryIn, min(failure.RetryAfter, retryMax)))
		asked.retryIn = min(asked.retryIn*2, retryMax)
		m.unsentReleases = append(m.unsentReleases, asked)
	} else {
		m.log.Warn("a release was refused", "lock", asked.owned.name, "error", failure)
	}
	m.reply(reply, holdResult{outcome: holdRefused, failure: failure})
}

func (m *machine) repeatReleases(now moment) {
	for _, asked := range m.takeReleases(func(asked *release) bool { return asked.retryAt <= now }) {
		asked.retryAt = never
		m.sendRelease(asked)
	}
}

// takeReleases removes those of the releases that are not sent, and returns them.
func (m *machine) takeReleases(which func(*release) bool) (taken []*release) {
	m.unsentReleases = slices.DeleteFunc(m.unsentReleases, func(asked *release) bool {
		isTaken := which(asked)
		if isTaken {
			taken = append(taken, asked)
		}
		return isTaken
	})
	return taken
}

// leaveIfDrained closes the session at a coordinator that goes away, unless there is something that could move: a hold, a place in a
// queue, or a request without its answer.
func (m *machine) leaveIfDrained(now moment) {
	s := m.stream
	if s == nil || !s.draining || s.isClosing() || !s.isHeard() || m.next != nil {
		return
	}
	if len(m.unsentReleases) > 0 || len(m.holds.held) > 0 || m.isUnsettled() {
		return
	}
	for _, request := range s.inFlight {
		if request.kind == inFlightAcquire {
			return
		}
	}
	m.sendClose(now)
}

// change handles the request of a holder to change its hold.
func (m *machine) change(now moment, asked *change, call holdCall) {
	m.expire(now)
	asked.reply = m.expect(now, call)
	m.sendChange(now, asked)
}

// sendChange asks for a change, now or on the next stream.
func (m *machine) sendChange(now moment, asked *change) {
	what, reason, isThere := m.holds.owned(asked.key, now)
	switch {
	case !isThere:
		m.reply(asked.reply, holdResult{outcome: holdLost, reason: reason})
	case m.takesChanges():
		request := asked.message(what)
		request.RequestId = m.stream.numberRequest(inFlight{kind: inFlightChange, change: asked})
		m.send(m.stream, request)
	default:
		// For the stream that takes it over, if there is one in time.
		m.unsentChanges = append(m.unsentChanges, asked)
	}
}

func (m *machine) changed(now moment, id uint64, wasChanged bool) {
	request := m.answered(id)
	if request.kind != inFlightChange {
		return
	}
	var result holdResult
	if !wasChanged {
		result = holdResult{outcome: holdLost, reason: m.holds.gone(request.change.key, now, LostUnknown)}
	}
	m.reply(request.change.reply, result)
}
