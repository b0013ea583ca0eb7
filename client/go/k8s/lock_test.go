package k8s_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

// recordOf returns the record that an elector of this identity writes.
func recordOf(identity string) resourcelock.LeaderElectionRecord {
	now := metav1.NewTime(time.Now())
	return resourcelock.LeaderElectionRecord{
		HolderIdentity: identity, LeaseDurationSeconds: int(leaseDuration / time.Second), AcquireTime: now, RenewTime: now,
	}
}

func TestRecordsFollowTheLock(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	ctx := t.Context()
	a, b := k8s.New(connect(t, server.URL), name, "a"), k8s.New(connect(t, server.URL), name, "b")

	if _, _, err := a.Get(ctx); !apierrors.IsNotFound(err) {
		t.Fatalf("Get of a free lock: %v", err)
	}
	if err := a.Update(ctx, recordOf("a")); !apierrors.IsConflict(err) {
		t.Fatalf("an update acquired a free lock: %v", err)
	}
	if err := a.Create(ctx, recordOf("a")); err != nil {
		t.Fatal(err)
	}
	if a.Hold() == nil || a.Hold().Token() == 0 {
		t.Fatal("the leader has no fencing token")
	}
	if err := b.Create(ctx, recordOf("b")); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("Create of a lock that is held: %v", err)
	}
	if err := b.Update(ctx, recordOf("b")); !apierrors.IsConflict(err) {
		t.Fatalf("Update without a term: %v", err)
	}
	// A candidate can't release what another one holds.
	if err := b.Update(ctx, recordOf("")); err != nil {
		t.Fatal(err)
	}
	if err := a.Update(ctx, recordOf("a")); err != nil {
		t.Fatal(err)
	}
	record, first, err := b.Get(ctx)
	if err != nil || record.HolderIdentity != "a" || record.LeaseDurationSeconds != 2 {
		t.Fatalf("got %+v, %v", record, err)
	}
	if _, second, err := b.Get(ctx); err != nil || string(first) == string(second) {
		t.Fatalf("the same bytes for two looks at a leader that may have renewed between: %s, %v", second, err)
	}
	if record, _, err := a.Get(ctx); err != nil || record.HolderIdentity != "a" {
		t.Fatalf("got %+v, %v", record, err)
	}
	if err := a.Update(ctx, recordOf("")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Get(ctx); !apierrors.IsNotFound(err) {
		t.Fatalf("Get after the release: %v", err)
	}
	if a.Hold() != nil {
		t.Fatal("a hold after the release")
	}
}

func TestOtherHoldersAreLeaders(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	ctx := t.Context()
	client := connect(t, server.URL)
	lock := k8s.New(connect(t, server.URL), name, "a")
	wantLeader := func(want string) {
		t.Helper()
		record, _, err := lock.Get(ctx)
		if err != nil || record.HolderIdentity != want || record.LeaseDurationSeconds < 1 {
			t.Fatalf("got %+v, %v, want the leader %q", record, err, want)
		}
	}

	session, err := client.NewSession(ctx, leasehold.WithClientName("billing"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Lock(name).Value([]byte("no record")).LockDelay(time.Minute).Try(ctx); err != nil {
		t.Fatal(err)
	}
	wantLeader("client billing")
	info, _ := session.Info()
	if _, err := client.Admin().EndSession(ctx, info.SessionID); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Admin().ForceRelease(ctx, name); err != nil {
		t.Fatal(err)
	}
	session.Close()

	// Another process with the same identity is not this one.
	twin := k8s.New(client, name, "a")
	if err := twin.Create(ctx, recordOf("a")); err != nil {
		t.Fatal(err)
	}
	info, _ = client.Session().Info()
	wantLeader("a (session " + info.SessionID + ")")
	if err := lock.Update(ctx, recordOf("a")); !apierrors.IsConflict(err) {
		t.Fatalf("an update of another process's term: %v", err)
	}
}

func TestLockDelayCoversTTLAndLeaseDuration(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	ctx := t.Context()
	watcher := connect(t, server.URL)
	lock := k8s.New(connect(t, server.URL), name, "a")
	if err := lock.Create(ctx, recordOf("a")); err != nil {
		t.Fatal(err)
	}
	view, err := watcher.Admin().GetLock(ctx, name)
	if err != nil || view.LockDelay != lockDelay {
		t.Fatalf("the lock-delay is %v, %v", view.LockDelay, err)
	}
}

func TestALostTermIsNotRetaken(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	ctx := t.Context()
	client := connect(t, server.URL)
	lock := k8s.New(client, name, "a")
	if err := lock.Create(ctx, recordOf("a")); err != nil {
		t.Fatal(err)
	}
	hold := lock.Hold()
	if _, err := client.Admin().ForceRelease(ctx, name); err != nil {
		t.Fatal(err)
	}
	await(t, "the loss", hold.Lost())
	if err := lock.Update(ctx, recordOf("a")); !errors.Is(err, leasehold.ErrLost) {
		t.Fatalf("Update after the loss: %v", err)
	}
	// The lock is free, but the elector may lead still: NotFound would make it create the record anew, and go on as if nothing had been.
	if _, _, err := lock.Get(ctx); !errors.Is(err, leasehold.ErrLost) {
		t.Fatalf("Get after the loss: %v", err)
	}
	if err := lock.Create(ctx, recordOf("a")); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("Create after the loss: %v", err)
	}
	servertest.Until(t, "the end of the term", func() bool {
		return lock.Create(ctx, recordOf("a")) == nil
	})
	if lock.Hold().Token() <= hold.Token() {
		t.Fatal("the new term has an old token")
	}
}

// TestALeaderIsAFlow has a leader ask for the lock that it leads by, which would wait for ever.
func TestALeaderIsAFlow(t *testing.T) {
	t.Parallel()
	client := connect(t, servertest.Start(t).URL)
	lock := k8s.New(client, name, "a")
	if err := lock.Create(t.Context(), recordOf("a")); err != nil {
		t.Fatal(err)
	}
	lock.Leading(func(ctx context.Context, _ *leasehold.Hold) {
		if _, err := client.Lock(name).Acquire(ctx); !errors.Is(err, leasehold.ErrSelfDeadlock) {
			t.Errorf("asking for the lock again: %v", err)
		}
	})(t.Context())
	if err := lock.Update(t.Context(), recordOf("")); err != nil {
		t.Error(err)
	}
}
