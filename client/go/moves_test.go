package leasehold

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// TestGuardsThroughAMove lives through the table of what streams say in each state of a client.
func TestGuardsThroughAMove(t *testing.T) {
	text, err := os.ReadFile("../../tests/clients/moves.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Codes map[string]codes.Code
		Rows  [][]string
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		for i, grace := range []int64{0, 7_000} {
			t.Run(strings.Join(append(row[:3:3], map[int64]string{0: "without", 7_000: "with"}[grace]), " "), func(t *testing.T) {
				m := newMove(t, grace, row[0])
				m.hear(row[1], strings.Fields(row[2]), table.Codes)
				m.wantState(50, 0, strings.ToLower(row[3+i]))
			})
		}
	}
}

// move is a session on its way to another stream.
type move struct {
	*rig
	streams map[string]uint64
	ids     map[string]string
}

// newMove returns a session that holds a lock, in this state of the table.
func newMove(t *testing.T, grace int64, state string) *move {
	r := holdingRig(t, grace)
	m := &move{rig: r, streams: map[string]uint64{"old": r.stream}, ids: map[string]string{"confirmed": "\x01", "unknown": "unknown"}}
	if state == "open" {
		return m
	}
	r.message(10, 0, drains())
	m.ask(20)
	if state == "asked" {
		return m
	}
	m.attemptFailed(30, fateKept)
	m.ids["tried"] = m.ids["next"]
	switch state {
	case "again":
		m.ask(40)
	case "stopped":
		r.m.streamEndedBy(at(40), m.streams["old"], nil)
	case "broken":
		r.m.streamEndedBy(at(40), m.streams["old"], transportFailure())
	}
	return m
}

func (m *move) ask(now int64) {
	m.connect(now)
	m.streams["next"], m.ids["next"] = m.stream, m.next()
}

func transportFailure() *Failure {
	return &Failure{Code: codes.Unavailable, transport: true}
}

// hear has a stream say this.
func (m *move) hear(on string, what []string, codes map[string]codes.Code) {
	m.t.Helper()
	lost := func() []*leaseholdv1.LostLock {
		reason, isKnown := leaseholdv1.LostReason_value["LOST_REASON_"+what[1]]
		if !isKnown || m.ids[what[2]] == "" {
			m.t.Fatalf("unexpected %q", what)
		}
		return []*leaseholdv1.LostLock{{Name: "lock1", OwnerId: []byte(m.ids[what[2]]), Reason: leaseholdv1.LostReason(reason)}}
	}
	switch what[0] {
	case "lost":
		m.say(on, &leaseholdv1.SessionLost{Locks: lost()})
	case "refused":
		opened := opensWith()
		opened.Refused = lost()
		m.say(on, opened)
	case "opened":
		m.say(on, opensWith(m.ids["tried"]))
	case "error":
		m.say(on, failsWith(codes[what[1]], what[1]))
	case "closed":
		m.say(on, &leaseholdv1.SessionClosed{})
	case "plain":
		m.end(on, nil)
	case "break":
		m.end(on, transportFailure())
	case "end":
		m.end(on, &Failure{Code: codes[what[1]], Reason: what[1]})
	default:
		m.t.Fatalf("unexpected %q", what)
	}
}

func (m *move) say(on string, response any) {
	if on == "overdue" {
		m.m.overdueMessage(at(50), wrap(m.t, 1, response))
	} else {
		m.messageOn(50, m.streams[on], 1, response)
	}
}

// end ends a stream, plainly or with this failure.
func (m *move) end(on string, failure *Failure) {
	why := &ConnectError{Endpoint: "http://test", kind: connectEnded}
	if failure != nil {
		why = connectFailed("http://test", failure)
	}
	switch on {
	case "old":
		m.m.streamEndedBy(at(50), m.streams[on], failure)
	case "next":
		m.attemptFailed(50, fateOf(why))
	case "overdue":
		m.m.overdueEnded(at(50), fateOf(why))
	default:
		m.t.Fatalf("unexpected stream %q", on)
	}
}

func TestAnOverdueStreamThatTheClientCutsHasEnded(t *testing.T) {
	m := newMove(t, 0, "asked")
	newConn := func() *conn { return &conn{isStarted: true, cut: func() {}, decided: make(chan *ConnectError, 1)} }
	s := &Session{machine: m.m, next: newConn()}
	s.next.number = m.stream
	for range mostOverdue {
		s.overdue = append(s.overdue, newConn())
	}
	m.attemptFailed(30, fateKept)
	m.wantState(30, 0, "held")
	s.hungUp(at(30), m.stream, &ConnectError{kind: connectTimedOut})
	m.wantState(30, 0, "session_ended")
}
