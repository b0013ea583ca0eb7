package servertest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Variables of a worker's process: a file that is there while somebody works, and the coordinator's URL.
const (
	workerFile     = "LEASEHOLD_TEST_WORKER_FILE"
	workerEndpoint = "LEASEHOLD_TEST_WORKER_ENDPOINT"
)

// WorkerEndpoint returns the coordinator's URL in the process of a worker; empty in others.
func WorkerEndpoint() string { return os.Getenv(workerEndpoint) }

// Rounds returns the number of rounds of a test that is as good with fewer: LEASEHOLD_ROUNDS, or that of every day.
func Rounds(everyday int) int {
	if rounds, err := strconv.Atoi(os.Getenv("LEASEHOLD_ROUNDS")); err == nil {
		return rounds
	}
	return everyday
}

// Work is the work of a worker under its lock: it lasts until the context ends, and a little longer, and says so if another one works.
func Work(ctx context.Context) error {
	file, err := os.OpenFile(os.Getenv(workerFile), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		fmt.Println("two are inside")
		return err
	}
	fmt.Println("inside")
	<-ctx.Done()
	time.Sleep(5 * time.Millisecond)
	file.Close()
	return os.Remove(file.Name())
}

// TerminateWorkers starts workers one after the other, and asks each to end by SIGTERM in the middle of its work, once the next one waits.
// They are processes of this program with these variables, and do Work under one lock.
func TerminateWorkers(t testing.TB, rounds int, server *Server, waits func(), variables ...string) {
	t.Helper()
	variables = append(variables, workerEndpoint+"="+server.URL, workerFile+"="+filepath.Join(t.TempDir(), "inside"))
	var worker *exec.Cmd
	terminate := func() {
		if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds + 1 {
		next := exec.Command(os.Args[0])
		next.Env = append(os.Environ(), variables...)
		next.Stderr = os.Stderr
		stdout, err := next.StdoutPipe()
		if err == nil {
			err = next.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = next.Process.Kill() })
		says := bufio.NewScanner(stdout)
		if round > 0 {
			waits()
			terminate()
		}
		if !says.Scan() || says.Text() != "inside" {
			t.Fatalf("round %d: the worker said %q", round, says.Text())
		}
		if round > 0 {
			if err := worker.Wait(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		worker = next
	}
	terminate()
	if err := worker.Wait(); err != nil {
		t.Fatal(err)
	}
}
