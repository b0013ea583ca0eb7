//go:build linux

// Command driver lets the conformance runner test this library: it carries out what the runner asks for on stdin, by the library's public
// interface, and reports on stdout what the library says. docs/conformance.md describes the lines. It contains no rule of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/clock"
)

// request is one line of the runner.
type request struct {
	ID        uint64   `json:"id"`
	Op        string   `json:"op"`
	As        string   `json:"as"`
	On        string   `json:"on"`
	H         string   `json:"h"`
	Of        uint64   `json:"of"`
	MS        int64    `json:"ms"`
	Value     string   `json:"value"`
	Message   string   `json:"message"`
	Election  string   `json:"election"`
	Names     []string `json:"names"`
	Mode      string   `json:"mode"`
	Permits   *int64   `json:"permits"`
	Limit     *int64   `json:"limit"`
	WaitMS    *int64   `json:"wait_ms"`
	LockDelay int64    `json:"lock_delay_ms"`
	Actor     string   `json:"actor"`
	Reentrant bool     `json:"reentrant"`
	CleanupMS int64    `json:"cleanup_ms"`
	FailWith  string   `json:"fail_with"`

	Endpoints        []string `json:"endpoints"`
	ClientName       *string  `json:"client_name"`
	TTLMS            int64    `json:"ttl_ms"`
	GraceMS          int64    `json:"grace_ms"`
	ConnectTimeoutMS int64    `json:"connect_timeout_ms"`
	BackoffMinMS     int64    `json:"backoff_min_ms"`
	BackoffMaxMS     int64    `json:"backoff_max_ms"`
	TLS              struct {
		CA         string `json:"ca"`
		Cert       string `json:"cert"`
		Key        string `json:"key"`
		ServerName string `json:"server_name"`
	} `json:"tls"`
	TokenFile string `json:"token_file"`
}

type object map[string]any

// member is a hold or a leadership.
type member interface {
	Name() string
	Token() int64
	Check() error
	Err() error
	State() leasehold.State
	Changed(context.Context, leasehold.State) leasehold.State
}

// handle is what the runner calls by a name: holds, a leadership, or a body.
type handle struct {
	members []member
	holds   leasehold.Holds
	term    *leasehold.Term
	// end gives the holds or the leadership up.
	end func(context.Context) error
	// done is where a body that runs is told to end: with nil, or its own error.
	done chan error
}

// bodyError is a body's own error.
type bodyError struct{ message string }

func (e *bodyError) Error() string { return e.message }

// fault is a fault of the driver, or what it can't do.
type fault struct{ kind, message string }

func (f *fault) Error() string { return f.message }

var (
	// errFinished ends a campaign whose leader has finished.
	errFinished = errors.New("finished")
	// errCancelled is the runner's cancel.
	errCancelled = errors.New("cancelled")

	output sync.Mutex
	stdout = bufio.NewWriter(os.Stdout)

	mu      sync.Mutex
	clients = map[string]*leasehold.Client{}
	handles = map[string]*handle{}
	actors  = map[string]leasehold.Actor{}
	cancels = map[uint64]context.CancelCauseFunc{}
)

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			reply(r.ID, nil, &fault{"internal", "malformed request: " + err.Error()})
			continue
		}
		begin(&r)
	}
}

// begin begins a request. Those that end at once are carried out before the next line is read.
func begin(r *request) {
	ctx, cancel := context.WithCancelCause(context.Background())
	switch r.Op {
	case "connect", "acquire", "release", "set_value", "downgrade", "body", "campaign", "proclaim", "resign", "lead", "observe", "close":
		mu.Lock()
		cancels[r.ID] = cancel
		mu.Unlock()
		go func() {
			answer, err := carryOut(ctx, r)
			mu.Lock()
			delete(cancels, r.ID)
			mu.Unlock()
			if context.Cause(ctx) == errCancelled && err != nil && errors.Is(err, context.Canceled) {
				err = errCancelled
			}
			if answer != nil || err != nil {
				reply(r.ID, answer, err)
			}
			cancel(nil)
			watchStates(r)
		}()
	default:
		answer, err := carryOut(ctx, r)
		reply(r.ID, answer, err)
		cancel(nil)
	}
}

func carryOut(ctx context.Context, r *request) (object, error) {
	mu.Lock()
	c, h := clients[r.On], handles[r.H]
	mu.Unlock()
	switch r.Op {
	case "acquire", "body", "campaign", "lead", "observe", "close":
		if c == nil {
			return nil, &fault{"internal", "there is no client " + r.On}
		}
	case "release", "set_value", "downgrade", "state", "proclaim", "resign", "finish", "fail", "block_ms":
		if h == nil {
			return nil, &fault{"internal", "there is no handle " + r.H}
		}
	}
	switch r.Op {
	case "hello":
		return object{"protocol": 1, "library": "go", "version": leasehold.Version, "capabilities": []string{
			"cancel", "cancel_body", "suspended_event", "cleanup", "fail_with", "backoff", "tls", "clock", "skew_clock", "block",
		}}, nil
	case "connect":
		return connect(ctx, r)
	case "acquire":
		holds, err := acquire(ctx, c, r)
		stamp := boot()
		if err != nil {
			return nil, err
		}
		h := &handle{holds: holds, end: holds.Release}
		list := []object{}
		for _, hold := range holds {
			h.members = append(h.members, hold)
			list = append(list, object{"name": hold.Name(), "token": text(hold.Token()), "count": hold.Count()})
		}
		keep(r.As, h)
		return object{"holds": list, "boot_ns": stamp}, nil
	case "cancel":
		mu.Lock()
		defer mu.Unlock()
		if cancel := cancels[r.Of]; cancel != nil {
			cancel(errCancelled)
		}
		return object{}, nil
	case "body":
		return body(ctx, c, r)
	case "campaign":
		election := c.Election(r.Election).Value([]byte(r.Value))
		if r.WaitMS != nil {
			election = election.Wait(ms(*r.WaitMS))
		}
		term, err := election.Campaign(ctx)
		stamp := boot()
		if err != nil {
			return nil, err
		}
		keep(r.As, &handle{term: term, end: term.Resign, members: []member{term}})
		hold := object{"name": term.Name(), "token": text(term.Token()), "count": 1}
		return object{"holds": []object{hold}, "boot_ns": stamp}, nil
	case "lead":
		return lead(ctx, c, r)
	case "observe":
		reply(r.ID, object{}, nil)
		observe(ctx, c, r)
		return nil, nil
	case "close":
		c.Close()
		return object{}, nil
	case "clock":
		return object{"clock_ns": text(int64(clock.Now()))}, nil
	case "skew_clock":
		clock.Skew(ms(r.MS))
		return object{}, nil
	case "release", "resign":
		return object{}, h.end(ctx)
	case "set_value":
		return object{}, h.holds[0].SetValue(ctx, []byte(r.Value))
	case "downgrade":
		return object{}, h.holds[0].Downgrade(ctx)
	case "proclaim":
		return object{}, h.term.Proclaim(ctx, []byte(r.Value))
	case "finish":
		h.done <- nil
		return object{}, nil
	case "fail":
		h.done <- &bodyError{r.Message}
		return object{}, nil
	case "block_ms":
		return block(h, ms(r.MS)), nil
	case "state":
		return stateNow(h), nil
	default:
		return nil, &fault{"unsupported", "unknown op " + r.Op}
	}
}

func connect(ctx context.Context, r *request) (object, error) {
	options := []leasehold.Option{
		leasehold.WithTTL(ms(r.TTLMS)), leasehold.WithGrace(ms(r.GraceMS)), leasehold.WithPlaintextToken(),
		leasehold.WithTokenFile(r.TokenFile), leasehold.WithCA(r.TLS.CA), leasehold.WithCertificate(r.TLS.Cert, r.TLS.Key),
		leasehold.WithServerName(r.TLS.ServerName),
	}
	if r.ClientName != nil {
		options = append(options, leasehold.WithClientName(*r.ClientName))
	}
	if r.ConnectTimeoutMS > 0 {
		options = append(options, leasehold.WithConnectTimeout(ms(r.ConnectTimeoutMS)))
	}
	if r.BackoffMinMS > 0 && r.BackoffMaxMS > 0 {
		options = append(options, leasehold.WithBackoff(ms(r.BackoffMinMS), ms(r.BackoffMaxMS)))
	}
	c, err := leasehold.Connect(ctx, strings.Join(r.Endpoints, ","), options...)
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	clients[r.As] = c
	info, _ := c.Session().Info()
	return object{"session_id": info.SessionID}, nil
}

func keep(name string, h *handle) {
	mu.Lock()
	defer mu.Unlock()
	handles[name] = h
}

func actor(name string) leasehold.Actor {
	mu.Lock()
	defer mu.Unlock()
	if _, isKnown := actors[name]; !isKnown {
		actors[name] = leasehold.NewActor()
	}
	return actors[name]
}

// one returns the request for one lock or for permits.
func one(c *leasehold.Client, r *request) leasehold.Request {
	if r.Permits != nil && r.Limit != nil {
		return with(c.Semaphore(r.Names[0], *r.Limit).Permits(*r.Permits), r)
	}
	return with(c.Lock(r.Names[0]), r)
}

// several returns the request for several locks.
func several(c *leasehold.Client, r *request) leasehold.MultiRequest {
	if r.Permits == nil || r.Limit == nil {
		return with(c.LockAll(r.Names...), r)
	}
	specs := make([]leasehold.LockSpec, len(r.Names))
	for i, name := range r.Names {
		specs[i] = leasehold.Permits(name, *r.Permits, *r.Limit)
	}
	return with(c.LockAllOf(specs...), r)
}

// with sets what the runner asks for.
func with[H any](asked leasehold.RequestOf[H], r *request) leasehold.RequestOf[H] {
	if r.Mode == "shared" {
		asked = asked.Shared()
	}
	asked = asked.Value([]byte(r.Value)).LockDelay(ms(r.LockDelay))
	if r.WaitMS != nil {
		asked = asked.Wait(ms(*r.WaitMS))
	}
	if r.Actor != "" {
		asked = asked.Actor(actor(r.Actor))
	}
	if r.Reentrant {
		asked = asked.Reentrant()
	}
	return asked
}

func acquire(ctx context.Context, c *leasehold.Client, r *request) (leasehold.Holds, error) {
	if len(r.Names) > 1 {
		return several(c, r).Acquire(ctx)
	}
	hold, err := one(c, r).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return leasehold.Holds{hold}, nil
}

func body(ctx context.Context, c *leasehold.Client, r *request) (object, error) {
	var err error
	h := &handle{done: make(chan error, 1)}
	if len(r.Names) > 1 {
		err = several(c, r).Do(ctx, func(ctx context.Context, holds leasehold.Holds) error {
			for _, hold := range holds {
				h.members = append(h.members, hold)
			}
			return run(ctx, r, h)
		})
	} else {
		err = one(c, r).Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
			h.members = []member{hold}
			return run(ctx, r, h)
		})
	}
	return object{}, err
}

func lead(ctx context.Context, c *leasehold.Client, r *request) (object, error) {
	running, finish := context.WithCancelCause(ctx)
	h := &handle{done: make(chan error, 1)}
	err := c.Election(r.Election).Value([]byte(r.Value)).Run(running, func(ctx context.Context, term *leasehold.Term) error {
		h.members = []member{term}
		err := run(ctx, r, h)
		if err == nil {
			// It campaigns no further.
			finish(errFinished)
		}
		return err
	})
	if errors.Is(err, errFinished) {
		return object{}, nil
	}
	if context.Cause(ctx) == errCancelled {
		return nil, errCancelled
	}
	return nil, err
}

// run is the body of body and lead.
func run(ctx context.Context, r *request, h *handle) error {
	keep(r.As, h)
	say := func(what string) {
		event := object{"ev": "body", "h": r.As, "what": what, "boot_ns": boot()}
		if what == "started" {
			event["token"] = text(h.members[0].Token())
		}
		write(event)
	}
	say("started")
	defer say("ended")
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
	}
	say("cancelled")
	time.Sleep(ms(r.CleanupMS))
	if r.FailWith != "" {
		return &bodyError{r.FailWith}
	}
	return ctx.Err()
}

func observe(ctx context.Context, c *leasehold.Client, r *request) {
	for change, err := range c.Election(r.Election).Observe(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				write(object{"ev": "observe_failed", "o": r.As, "err": describe(err)})
			}
			return
		}
		event := object{"ev": "leader", "o": r.As, "leader": nil, "skipped": change.Skipped, "boot_ns": boot()}
		if leader := change.Leader; leader != nil {
			seen := object{"value": string(leader.Value)}
			if token := leader.Token; token != 0 {
				seen["token"] = text(token)
			}
			event["leader"] = seen
		}
		write(event)
	}
}

// watchStates reports the changes of a handle's state, once its reply is written.
func watchStates(r *request) {
	if r.Op != "acquire" && r.Op != "campaign" {
		return
	}
	mu.Lock()
	h := handles[r.As]
	mu.Unlock()
	if h == nil {
		return
	}
	var reporting sync.Mutex
	last := "held"
	for _, member := range h.members {
		go func() {
			for state := leasehold.StateHeld; ; {
				state = member.Changed(context.Background(), state)
				reporting.Lock()
				event := stateNow(h)
				now := event["state"].(string)
				if now != last && last != "lost" && now != "released" {
					event["ev"], event["h"], event["boot_ns"] = "state", r.As, boot()
					write(event)
					last = now
				}
				reporting.Unlock()
				if state == leasehold.StateLost || state == leasehold.StateReleased {
					return
				}
			}
		}()
	}
}

// stateNow asks the library's check.
func stateNow(h *handle) object {
	stamp := boot()
	state := object{"state": "held", "boot_ns": stamp}
	for _, member := range h.members {
		err := member.Check()
		var lost *leasehold.LostError
		switch {
		case errors.As(err, &lost):
			return object{"state": "lost", "reason": lost.Reason.String(), "name": lost.Name, "boot_ns": stamp}
		case errors.Is(err, leasehold.ErrReleased):
			state["state"] = "released"
		case errors.Is(err, leasehold.ErrSuspended) && state["state"] == "held":
			state["state"] = "suspended"
		}
	}
	return state
}

// kinds are the kinds of errors, by their sentinels.
var kinds = []struct {
	is   error
	kind string
}{
	{errCancelled, "cancelled"},
	{context.Canceled, "cancelled"},
	{leasehold.ErrBusy, "busy"},
	{leasehold.ErrTimedOut, "timeout"},
	{leasehold.ErrDeadlock, "deadlock"},
	{leasehold.ErrSelfDeadlock, "self_deadlock"},
	{leasehold.ErrUpgradeRefused, "upgrade_refused"},
	{leasehold.ErrAlreadyCandidate, "already_candidate"},
	{leasehold.ErrLimitMismatch, "limit_mismatch"},
	{leasehold.ErrForceReleased, "force_released"},
	{leasehold.ErrInvalid, "invalid"},
	{leasehold.ErrUnauthenticated, "unauthenticated"},
	{leasehold.ErrPermissionDenied, "permission_denied"},
	{leasehold.ErrLimitReached, "limit_reached"},
	{leasehold.ErrClosed, "closed"},
	{leasehold.ErrUnconfirmed, "unconfirmed"},
	{leasehold.ErrUnavailable, "unavailable"},
	{leasehold.ErrRefused, "refused"},
}

// describe returns an error as the runner reads it.
func describe(err error) object {
	described := object{"kind": "refused", "message": err.Error()}
	var own *bodyError
	var lost *leasehold.LostError
	var failed *fault
	switch {
	case errors.As(err, &failed):
		described["kind"] = failed.kind
		return described
	case errors.As(err, &lost):
		described["kind"], described["reason"], described["name"] = "lost", lost.Reason.String(), lost.Name
		if errors.As(err, &own) {
			described["body"] = own.message
		}
		return described
	case errors.Is(err, leasehold.ErrReleased):
		described["kind"], described["reason"] = "lost", "released"
		return described
	case errors.As(err, &own):
		described["kind"], described["body"] = "body", own.message
		return described
	}
	for _, known := range kinds {
		if errors.Is(err, known.is) {
			described["kind"] = known.kind
			break
		}
	}
	var failure *leasehold.Failure
	if errors.As(err, &failure) {
		described["reason"] = failure.Reason
		if failure.RetryAfter > 0 {
			described["retry_after_ms"] = failure.RetryAfter.Milliseconds()
		}
	}
	var acquire *leasehold.AcquireError
	if errors.As(err, &acquire) && acquire.Limit > 0 {
		described["limit"] = acquire.Limit
	}
	return described
}

func reply(id uint64, answer object, err error) {
	if err != nil {
		write(object{"id": id, "err": describe(err)})
		return
	}
	write(object{"id": id, "ok": answer})
}

func write(line object) {
	encoded, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Fprintf(stdout, "%s\n", encoded)
	_ = stdout.Flush()
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func text(n int64) string { return strconv.FormatInt(n, 10) }

// boot returns the driver's own reading of the clock.
func boot() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	return text(now.Nano())
}
