// Command benchmark measures this library, and libraries that it stands beside, for the benchmark "libraries" of the repository.
//
//	benchmark LIBRARY WORK ENDPOINT CLIENTS SECONDS
//
// LIBRARY is leasehold, redsync or etcd; ENDPOINT is the URL of what it talks to. With the WORK cycles, each of the CLIENTS goroutines
// acquires and releases a lock of its own; with handoff, all want one lock. They share one connection, or what the library makes of it.
// After half a second of warm-up it measures for so many SECONDS, and prints one JSON object: the times of all cycles in microseconds,
// or [token, granted, releasing] of each hold, in microseconds of CLOCK_MONOTONIC.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sys/unix"
	leasehold "leasehold.dev/go"
)

const (
	warmUp = 500 * time.Millisecond
	// ttl is longer than any run, so that no renewal is among what is measured.
	ttl = 300
)

// library acquires a lock, and returns its token and what releases it.
type library func(ctx context.Context, name string) (token int64, release func() error, err error)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 5 {
		return errors.New("usage: LIBRARY WORK ENDPOINT CLIENTS SECONDS")
	}
	clients, noClients := strconv.Atoi(arguments[3])
	seconds, noSeconds := strconv.ParseFloat(arguments[4], 64)
	if err := errors.Join(noClients, noSeconds); err != nil {
		return err
	}
	use, end, err := open(arguments[0], arguments[2])
	if err != nil {
		return err
	}
	defer end()
	from := now() + warmUp.Microseconds()
	until := from + int64(seconds*1e6)
	var result any
	switch arguments[1] {
	case "cycles":
		result, err = cycles(use, clients, from, until)
	case "handoff":
		result, err = handOffs(use, clients, from, until)
	default:
		err = fmt.Errorf("there is no work %q", arguments[1])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// open returns a library, and what ends it.
func open(name, endpoint string) (library, func(), error) {
	switch name {
	case "leasehold":
		client, err := leasehold.Connect(context.Background(), endpoint, leasehold.WithTTL(ttl*time.Second))
		if err != nil {
			return nil, nil, err
		}
		use := func(ctx context.Context, name string) (int64, func() error, error) {
			hold, err := client.Lock(name).Acquire(ctx)
			if err != nil {
				return 0, nil, err
			}
			return hold.Token(), func() error { return hold.Release(context.Background()) }, nil
		}
		return use, client.Close, nil
	case "redsync":
		at, err := url.Parse(endpoint)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(&redis.Options{Addr: at.Host})
		locks := redsync.New(goredis.NewPool(client))
		use := func(ctx context.Context, name string) (int64, func() error, error) {
			// Its own retries pause for up to 250 ms.
			mutex := locks.NewMutex(name, redsync.WithExpiry(ttl*time.Second), redsync.WithTries(1_000_000))
			if err := mutex.LockContext(ctx); err != nil {
				return 0, nil, err
			}
			return 0, func() error { _, err := mutex.Unlock(); return err }, nil
		}
		return use, func() { _ = client.Close() }, nil
	case "etcd":
		client, err := etcd.New(etcd.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
		if err != nil {
			return nil, nil, err
		}
		use := func(ctx context.Context, name string) (int64, func() error, error) {
			mutex := concurrency.NewMutex(session, name)
			if err := mutex.Lock(ctx); err != nil {
				return 0, nil, err
			}
			return mutex.Header().Revision, func() error { return mutex.Unlock(context.Background()) }, nil
		}
		return use, func() { _ = session.Close(); _ = client.Close() }, nil
	}
	return nil, nil, fmt.Errorf("there is no library %q", name)
}

// each runs the work of all clients, and puts together what they return.
func each[T any](clients int, work func(client int) ([]T, error)) ([]T, error) {
	all, failures := make([][]T, clients), make([]error, clients)
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() { all[client], failures[client] = work(client) })
	}
	running.Wait()
	together := []T{}
	for _, part := range all {
		together = append(together, part...)
	}
	return together, errors.Join(failures...)
}

// cycles measures acquires with their releases, each client on a lock of its own. Returns their times in microseconds.
func cycles(use library, clients int, from, until int64) (any, error) {
	return each(clients, func(client int) ([]int64, error) {
		name := fmt.Sprintf("bench/%d/%d", os.Getpid(), client)
		times := []int64{}
		for {
			began := now()
			_, release, err := use(context.Background(), name)
			if err == nil {
				err = release()
			}
			if err != nil {
				return nil, err
			}
			ended := now()
			if ended >= until {
				return times, nil
			}
			if ended >= from {
				times = append(times, ended-began)
			}
		}
	})
}

// handOffs has all clients want one lock. Returns the token of each hold, when it was granted, and when its release began.
func handOffs(use library, clients int, from, until int64) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(until-now())*time.Microsecond)
	defer cancel()
	return each(clients, func(int) ([][3]int64, error) {
		holds := [][3]int64{}
		for {
			token, release, err := use(ctx, "bench/contended")
			if ctx.Err() != nil {
				if err == nil {
					return holds, release()
				}
				return holds, nil
			}
			if err != nil {
				return nil, err
			}
			granted := now()
			releasing := now()
			if err := release(); err != nil {
				return nil, err
			}
			if granted >= from {
				holds = append(holds, [3]int64{token, granted, releasing})
			}
		}
	})
}

// start is when the program began, and started the same on the clock that all processes of the machine share.
var start, started = time.Now(), monotonic()

// now returns the time in microseconds on the clock that all processes of the machine share. It asks Go's own clock, which needs no
// system call, so that the measurement costs this language no more than the others.
func now() int64 {
	return (started + time.Since(start).Nanoseconds()) / 1000
}

func monotonic() int64 {
	var at unix.Timespec
	// It can't fail: the clock is always there.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &at)
	return at.Nano()
}
