// Command torture is a client of the torture run: it takes locks in several goroutines, writes to their registers, and records what it
// believes. It takes the arguments of the Rust client torture-client and draws cycles of the same kinds; tests/checker/HISTORY.md
// describes what it writes.
//
//	torture NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]
//
// A goroutine writes to the register of a lock without a look at its hold: fencing has to stop what comes late.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	leasehold "leasehold.dev/go"
)

const (
	// look is the longest time between two looks at a hold.
	look = 40 * time.Millisecond
	// pause follows an error.
	pause = 200 * time.Millisecond
	// ending is the longest time for closing at the end; what it still has then, it loses with the process.
	ending = 10 * time.Second
)

// world is what all goroutines share.
type world struct {
	client  *leasehold.Client
	worker  *worker
	address string
	// quorum means that each coordinator has a queue of its own.
	quorum bool
	// moves means that sessions move to other coordinators at any time, to show newer credentials.
	moves bool
	stop  context.Context
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 9 || len(arguments) > 10 {
		return errors.New("usage: NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]")
	}
	name, endpoints, registers, path, store := arguments[0], arguments[1], arguments[2], arguments[3], arguments[8]
	seed, err := strconv.ParseUint(arguments[4], 10, 64)
	if err != nil {
		return err
	}
	var numbers [3]int
	for i := range numbers {
		if numbers[i], err = strconv.Atoi(arguments[5+i]); err != nil {
			return err
		}
	}
	history, err := createHistory(path)
	if err != nil {
		return err
	}
	watchStalls(name, path)
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		// Nothing is ever written; an error is an end too.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	options := []leasehold.Option{
		leasehold.WithClientName(name),
		// Losses are what the run is about: the history has them.
		leasehold.WithLogger(slog.New(slog.DiscardHandler)),
		leasehold.WithTTL(time.Duration(numbers[0]) * time.Millisecond),
		leasehold.WithGrace(time.Duration(numbers[1]) * time.Millisecond),
	}
	isShown := len(arguments) == 10
	if isShown {
		options = append(options, follow(arguments[9])...)
	}
	client, err := leasehold.New(endpoints, options...)
	if err != nil {
		return err
	}
	all := &world{
		client:  client,
		worker:  &worker{name: name, history: history},
		address: registers,
		quorum:  store == "quorum",
		moves:   isShown,
		stop:    stop,
	}
	var running sync.WaitGroup
	for task := range numbers[2] {
		random := rand.New(rand.NewPCG(seed, uint64(task)))
		running.Go(func() { all.live(random) })
	}
	running.Wait()
	closed := make(chan struct{})
	go func() {
		client.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(ending):
	}
	all.worker.line("finished", fields{})
	return nil
}

// follow returns the options of a client that shows the credentials of a folder, whose files the harness replaces.
func follow(folder string) []leasehold.Option {
	options := []leasehold.Option{
		leasehold.WithCA(filepath.Join(folder, "ca.pem")),
		leasehold.WithCertificate(filepath.Join(folder, "client.pem"), filepath.Join(folder, "client.key")),
		leasehold.WithServerName("localhost"),
	}
	token := filepath.Join(folder, "token")
	if _, err := os.Stat(token); err == nil {
		options = append(options, leasehold.WithTokenFile(token))
	}
	return options
}

func (w *world) live(random *rand.Rand) {
	registers := &registers{address: w.address}
	for cycle := firstCycle(w.worker.name); w.stop.Err() == nil; cycle = drawCycle(random, w.quorum) {
		w.run(cycle, registers)
		w.sleep(cycle.pause)
	}
}

// sleep waits, or until the client is asked to end.
func (w *world) sleep(span time.Duration) {
	select {
	case <-time.After(span):
	case <-w.stop.Done():
	}
}

func (w *world) run(cycle cycle, registers *registers) {
	queue := ""
	if w.quorum {
		if info, ok := w.client.Session().Info(); ok {
			queue = info.Coordinator
		}
		if w.moves || queue == "" {
			// It may join another queue meanwhile: it is in line with nobody.
			queue = fmt.Sprintf("%s %d", queue, now())
		}
	}
	asked := w.worker.asks(cycle, queue)
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if cycle.giveUp > 0 {
		ctx, cancel = context.WithTimeout(ctx, cycle.giveUp)
	}
	hold, err := w.request(cycle).Acquire(ctx)
	cancel()
	switch {
	case err == nil:
		w.hold(asked, cycle, hold, registers)
	case errors.Is(err, leasehold.ErrTimedOut):
		asked.ended("timed_out", "")
	case errors.Is(err, leasehold.ErrBusy):
		asked.ended("busy", "")
	case errors.Is(err, context.DeadlineExceeded):
		asked.ended("cancelled", "")
	case errors.Is(err, leasehold.ErrUnauthenticated), errors.Is(err, leasehold.ErrPermissionDenied):
		asked.ended("refused", err.Error())
		w.sleep(pause)
	default:
		asked.ended("failed", err.Error())
		w.sleep(pause)
	}
}

func (w *world) request(cycle cycle) leasehold.Request {
	request := w.client.Lock(cycle.lock)
	switch cycle.mode {
	case "shared":
		request = request.Shared()
	case "permits":
		request = w.client.Semaphore(cycle.lock, limit).Permits(cycle.permits)
	}
	if cycle.waits {
		request = request.Wait(cycle.wait)
	}
	return request.LockDelay(cycle.lockDelay)
}

// hold holds a lock for the cycle's time or until it is lost, writes to its register, and records all that the hold says.
func (w *world) hold(asked ask, cycle cycle, hold *leasehold.Hold, registers *registers) {
	held := asked.granted(hold.Token(), deadline(hold))
	end := time.Now().Add(cycle.hold)
	last := leasehold.StateHeld
	for {
		state := hold.State()
		switch {
		case state == leasehold.StateLost:
			held.line("lost", fields{"why": hold.Err().Error()})
			// The late write of a client that does not know better.
			registers.write(w.worker, cycle, hold.Token())
			return
		case last == leasehold.StateHeld && state == leasehold.StateSuspended:
			held.line("suspended", fields{})
		case last == leasehold.StateSuspended && state == leasehold.StateHeld:
			held.resumed(deadline(hold))
		case state == leasehold.StateHeld:
			until := deadline(hold)
			// It may have been lost since.
			if hold.Check() == nil {
				held.extended(until)
			}
		}
		last = state
		left := time.Until(end)
		if left <= 0 {
			break
		}
		registers.write(w.worker, cycle, hold.Token())
		ctx, cancel := context.WithTimeout(context.Background(), min(left, look))
		hold.Changed(ctx, state)
		cancel()
	}
	held.line("releasing", fields{})
	held.line("released", fields{"held": hold.Release(context.Background()) == nil})
}

// deadline returns the time until which a hold may be relied on. The clock is read first, so that it is never too late.
func deadline(hold *leasehold.Hold) int64 {
	now := now()
	return now + hold.ValidFor().Microseconds()
}
