// Package leasehold is the client of Leasehold, a coordinator of locks on Redis: exclusive and shared locks, semaphores and elections,
// held by lease, with fencing tokens.
//
//	client, err := leasehold.Connect(ctx, "http://127.0.0.1:7420")
//	…
//	err = client.Lock("orders/42").Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
//		return work(ctx, hold.Token()) // context.Cause(ctx) is leasehold.ErrLost once the lock is lost
//	})
//
// A Client has one Session, made on first use, shared by everything that is asked of the client, and made anew in the background whenever
// it ends. A Request is made by Client.Lock, Client.LockAll or Client.Semaphore, and carried out by its methods Do, Acquire and Try.
// Elections begin with Client.Election, and Client.Admin looks at locks and sessions and intervenes.
//
// # What a hold promises
//
// A lock is held until its deadline, which this process computes by itself: the validity that the coordinator promised, counted from when
// this process sent the request that was answered, by a clock that also counts the time for which the machine was suspended. Nobody else
// gets the lock before that. Hold.Check reads that clock: call it before each step that must not happen without the lock. Contexts of
// Hold.Context and Request.Do are cancelled when the lock is lost, with the cause ErrLost.
//
// A process that is paused between a check and the step it guards acts too late. Only the fencing token helps then: pass Hold.Token to
// whatever the lock protects, and let that refuse a smaller one than the largest it has seen.
//
// A lock that is suspended (see WithGrace) must not be acted on, and is not lost yet.
//
// # The end of a process
//
// Client.Close, and Client.Shutdown with a bound of the caller's own, cancel the contexts of work with the cause ErrClosed, wait for the work
// to return, and only then give its locks up, so that no other process begins while it still runs. Call one of them at SIGTERM.
//
// # Unit tests
//
// The package leaseholdtest has a coordinator that runs inside a test's process.
//
// # Errors
//
// Use errors.Is and the sentinel errors of this package, such as ErrBusy and ErrLost, to tell errors apart. AcquireError, LostError,
// HoldError, ConnectError and Failure have the details.
package leasehold
