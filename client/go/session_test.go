package leasehold

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// offline returns a session whose machine has a stream, without any connection, which never dials.
func offline(t *testing.T) (*Session, *rig) {
	t.Helper()
	r := openRig(t)
	s := &Session{
		settings: &settings{options: options{log: slog.New(slog.DiscardHandler)}},
		ended:    make(chan struct{}),
		machine:  r.m,
		timer:    time.NewTimer(time.Hour),
		// As in a round of attempts, so that none begins.
		endRound: func() {},
		armed:    never,
		drains:   never,
	}
	return s, r
}

func TestAGrantThatComesJustWhenItsCallerGivesUpIsGivenBack(t *testing.T) {
	s, r := offline(t)
	now := clock.Now()
	// The machine's times are those of the clock here: the open was sent just now.
	r.m.stream.heartbeats = openingHeartbeats(now)
	r.m.stream.opened.silentFrom, r.m.stream.opened.nextHeartbeat = now, now.After(time.Minute)
	call := make(acquireCall, 1)
	r.m.acquire(now, 1, exclusiveSpec(1), call)
	r.want(r.seen(), "acquire 2 lock1")
	r.m.granted(now, 2, grants(0, grantedLock(1, 1, 1)))
	s.carryOut(now)
	// The grant is on its way to the caller, whose context ends.
	s.mu.Lock()
	held := len(r.m.holds.held)
	s.mu.Unlock()
	if held != 1 {
		t.Fatalf("%d holds", held)
	}
	s.abandon(1, call)
	if len(r.m.holds.held) != 0 || r.m.stream.inFlight[3].kind != inFlightRelease {
		t.Errorf("%d holds are left, and request 3 is %v", len(r.m.holds.held), r.m.stream.inFlight[3])
	}
}

func TestHeartbeatsOvertakeWhatIsNotSentYet(t *testing.T) {
	o := newOutbound()
	r := openRig(t)
	for range congested {
		o.push(r.m.stream.close())
	}
	room := o.full()
	if room == nil {
		t.Fatal("there is room for more")
	}
	old, newer := r.m.stream.heartbeat(at(1), time.Second), r.m.stream.heartbeat(at(2), time.Second)
	o.push(old)
	o.push(newer)
	if next := o.pop(); next != newer {
		t.Errorf("got %v, want the newest heartbeat", next)
	}
	select {
	case <-room:
		t.Error("there is room before anything was sent")
	default:
	}
	for range congested {
		if o.pop() == nil {
			t.Fatal("a request is missing")
		}
	}
	<-room
	if o.pop() != nil || o.full() != nil {
		t.Error("it is not empty")
	}
}

func TestASendersWaitEndsWithItsStream(t *testing.T) {
	o := newOutbound()
	sent := make(chan *leaseholdv1.SessionRequest)
	go func() {
		for next := o.next(); next != nil; next = o.next() {
			sent <- next
		}
		close(sent)
	}()
	request := openRig(t).m.stream.close()
	o.push(request)
	if next := <-sent; next != request {
		t.Errorf("got %v, want what was pushed", next)
	}
	o.end()
	if next, isOpen := <-sent; isOpen {
		t.Errorf("got %v after the end", next)
	}
}

func TestRequestsAreGatheredAsLongAsThatBringsCompany(t *testing.T) {
	o := newOutbound()
	gather := func() (atOnce int) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.gather()
		return o.atOnce
	}
	request := openRig(t).m.stream.close()
	for tries := 0; ; tries++ {
		go o.push(request)
		if gather() == 0 {
			break
		}
		// It was pushed before.
		if o.atOnce = 0; tries == 1_000 {
			t.Fatal("a request that was about to be pushed was not waited for")
		}
	}
	for _, want := range []int{1, 3, 7, 15, 31, mostAtOnce, mostAtOnce} {
		for atOnce := gather(); atOnce > 0; atOnce-- {
			if atOnce != want {
				t.Fatalf("%d requests are to be sent at once, want %d", atOnce, want)
			}
			want--
			gather()
		}
		if want != 0 {
			t.Fatalf("%d requests more should have been sent at once", want)
		}
	}
	o.push(openRig(t).m.stream.heartbeat(at(1), time.Second))
	if atOnce := gather(); atOnce != 0 {
		t.Error("a heartbeat waited for company")
	}
}

func TestPausesGrowWithinTheirBoundsAndStartAnewAfterWhatLived(t *testing.T) {
	p := newPauses(50*time.Millisecond, 2*time.Second)
	for i := range 20 {
		pause := p.pause(0)
		least := min(50*time.Millisecond<<i, time.Second)
		if pause < least || pause > 2*least {
			t.Errorf("pause %d is %v, want %v to %v", i, pause, least, 2*least)
		}
	}
	// What ended as soon as it was open does not start them anew.
	p.opened(0)
	if pause := p.pause(at(1)); pause < time.Second {
		t.Errorf("the pause is %v", pause)
	}
	p.opened(0)
	if pause := p.pause(at(2_000)); pause > 100*time.Millisecond {
		t.Errorf("the pause is %v", pause)
	}
	// A coordinator's hint is kept to, within reason.
	for asked, most := range map[time.Duration]time.Duration{5 * time.Second: 7 * time.Second, 24 * time.Hour: 62 * time.Second} {
		if pause := p.pauseAsAsked(0, asked); pause < min(asked, longestAsked) || pause > most {
			t.Errorf("the pause is %v after %v was asked for", pause, asked)
		}
	}
}

// seeded returns a route whose order is the same for each seed.
func seeded(seed uint64) *route {
	return newRoute(1, rand.New(rand.NewPCG(seed, 0)).Shuffle)
}

// roundOf returns the addresses of a round over 1, 2 and 3.
func roundOf(r *route, now moment) (order string) {
	all := []candidate{{address: "1"}, {address: "2"}, {address: "3"}}
	for _, c := range r.round(all, now) {
		order += c.address
	}
	return order
}

func TestWhatFailedLatelyComesLast(t *testing.T) {
	r := seeded(1)
	r.failed(candidate{address: "1"}, at(1_000))
	r.failed(candidate{address: "2"}, at(2_000))
	for range 10 {
		if got := roundOf(r, at(3_000)); got != "312" {
			t.Errorf("got %s", got)
		}
	}
	// The first of the two has been long enough ago.
	if got := roundOf(r, at(11_000)); got[2:] != "2" {
		t.Errorf("got %s", got)
	}
	if got := len(roundOf(r, at(30_000))); got != 3 || !r.isSeveral {
		t.Errorf("got %d; several: %v", got, r.isSeveral)
	}
}

func TestClientsOfACoordinatorThatGoesAwaySpreadOverTheOthers(t *testing.T) {
	moves := map[string]int{}
	for seed := range uint64(600) {
		r := seeded(seed)
		from := roundOf(r, at(0))[:1]
		r.failed(candidate{address: from}, at(1_000))
		order := roundOf(r, at(1_000))
		if order[2:] != from {
			t.Fatalf("the one to leave, %s, is not the last of %s", from, order)
		}
		moves[from+order[:1]]++
	}
	counts := slices.Sorted(maps.Values(moves))
	if len(counts) != 6 || counts[5] >= 2*counts[0] {
		t.Errorf("got %v", moves)
	}
}

func TestDefaultNamesAreBoundedAndHaveNoControlCharacters(t *testing.T) {
	for want, got := range map[string]string{
		"billing@vm/7":    clientName("billing", "vm", 7),
		"bil?l@unknown/7": clientName("b\n\u007f\u0085il\xffl", "", 7),
		strings.Repeat("é", 16) + "@" + strings.Repeat("h", 64) + "/7": clientName(strings.Repeat("é", 300), strings.Repeat("h", 300), 7),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestEndpointsAreCompletedAsPeopleWriteThem(t *testing.T) {
	for given, want := range map[string]string{
		"127.0.0.1:7420":          "http://127.0.0.1:7420",
		"localhost":               "http://localhost:7420",
		"[::1]":                   "http://[::1]:7420",
		"https://locks.example/":  "https://locks.example:7420",
		"HTTP://locks.example:99": "http://locks.example:99",
	} {
		got, err := parseEndpoint(given)
		if err != nil || got.url != want {
			t.Errorf("%q became %q (%v), want %q", given, got.url, err, want)
		}
	}
	for _, given := range []string{
		"", "not a url", "http://", "ftp://locks.example", "http://locks.example:x", "http://me:secret@locks.example",
		"a:0", "a/path", "a?query", "a/#fragment",
	} {
		if got, err := parseEndpoint(given); err == nil {
			t.Errorf("%q became %q", given, got.url)
		}
	}
	several, err := parseEndpoints("a, https://b ,c:1")
	if err != nil || len(several) != 3 || several[1].url != "https://b:7420" {
		t.Errorf("got %v (%v)", several, err)
	}
}

func TestDetailsOfAStatusAreRead(t *testing.T) {
	detail := func(name, message string) *anypb.Any {
		return &anypb.Any{TypeUrl: "type.googleapis.com/google.rpc." + name, Value: []byte(message)}
	}
	// As they are on the wire: a reason, a domain and metadata; a field violation; a pause.
	answer := status.FromProto(&statuspb.Status{Code: int32(codes.FailedPrecondition), Message: "no", Details: []*anypb.Any{
		detail("ErrorInfo", "\x0a\x0eLIMIT_MISMATCH\x12\x09leasehold\x1a\x0a\x0a\x05limit\x12\x013"),
		detail("BadRequest", "\x0a\x08\x0a\x01a\x12\x03bad"),
		detail("RetryInfo", "\x0a\x02\x08\x05"),
		// What can't be decoded, or is not known, is left out.
		detail("ErrorInfo", "\x0a\xff"),
		detail("Newer", "\x0a\x00"),
	}})
	failure := failureFrom("http://a", answer.Err())
	if failure.Code != codes.FailedPrecondition || failure.Reason != "LIMIT_MISMATCH" || failure.Metadata["limit"] != "3" {
		t.Errorf("got %q %v", failure.Reason, failure.Metadata)
	}
	if len(failure.Violations) != 1 || failure.Violations[0] != (FieldViolation{"a", "bad"}) {
		t.Errorf("got %v", failure.Violations)
	}
	if failure.RetryAfter != 5*time.Second {
		t.Errorf("got %v", failure.RetryAfter)
	}
}

func TestAnObserverNeverGoesBackAndSaysWhatItMayHaveMissed(t *testing.T) {
	leads := func(token int64, value string) *leaseholdv1.ObserveResponse {
		return &leaseholdv1.ObserveResponse{Leader: &leaseholdv1.Leader{FencingToken: token, Value: []byte(value)}}
	}
	nobody := &leaseholdv1.ObserveResponse{}
	skipping := leads(12, "a")
	skipping.Skipped = true
	var view leaderView
	for i, step := range []struct {
		// told is what the coordinator says; nil for a broken stream.
		told *leaseholdv1.ObserveResponse
		// want is the token that is yielded; -1 for nothing.
		want    int64
		skipped bool
	}{
		{nil, -1, false},
		{leads(5, "a"), 5, false},
		{leads(5, "a"), -1, false},
		{leads(5, "b"), 5, false},
		{leads(4, "z"), -1, false},
		{nobody, 0, false},
		{leads(4, "z"), -1, false},
		{leads(7, "a"), 7, false},
		// A holder that does not use Leasehold has no token.
		{leads(0, ""), 0, false},
		{leads(6, "z"), -1, false},
		{nil, -1, false},
		{leads(9, "a"), 9, true},
		{nobody, 0, false},
		// What looks as before is not yielded again, and may hide what was in between.
		{nil, -1, false},
		{nobody, -1, false},
		{leads(10, "a"), 10, true},
		{skipping, 12, true},
	} {
		if step.told == nil {
			view.interrupted()
			continue
		}
		change, isChange := view.told(step.told)
		if isChange != (step.want >= 0) || isChange && (leaderToken(change) != step.want || change.Skipped != step.skipped) {
			t.Errorf("step %d: got %v (%v)", i, change, isChange)
		}
	}
}

func leaderToken(change LeaderChange) int64 {
	if change.Leader == nil {
		return 0
	}
	return change.Leader.Token
}
