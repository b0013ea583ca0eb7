// Package servertest starts real coordinators and Redis servers for tests, on loopback and free ports, and breaks them.
package servertest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// longest limits every wait. It only tells a hang from a busy machine.
const longest = time.Minute

// Program returns the path of the coordinator's program: LEASEHOLD_SERVER, or the one that `make build` makes. Skips the test if it is
// not there.
func Program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("LEASEHOLD_SERVER"); path != "" {
		return path
	}
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "../../../../target/debug/leasehold-server")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("there is no coordinator at %s: run `make build`, or set LEASEHOLD_SERVER", path)
	}
	return path
}

// Server is a coordinator's process.
type Server struct {
	// URL is that of its gRPC port, Address without the scheme.
	URL, Address string
	// AdminURL is that of its admin port.
	AdminURL string

	t       testing.TB
	program string
	scheme  string
	args    []string
	command *exec.Cmd
	exited  chan struct{}
	// log is what it logs: to be read when it has ended.
	log *bytes.Buffer
}

// Start starts a coordinator with its locks in memory, unless the arguments name another store, and waits until it is ready. It is killed
// when the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", args...)
}

// StartAt starts a coordinator that listens at this address; see Start.
func StartAt(t testing.TB, listen string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, scheme: "http", args: args}
	if strings.Contains(strings.Join(args, " "), "--tls-cert") {
		s.scheme = "https"
	}
	// Before there is anything to kill: it may skip the test.
	s.program = Program(t)
	t.Cleanup(func() { s.Kill() })
	s.start(listen)
	return s
}

func (s *Server) start(listen string) {
	s.t.Helper()
	args := append([]string{"--listen", listen, "--admin-listen", "127.0.0.1:0"}, s.args...)
	if !strings.Contains(strings.Join(args, " "), "--store") {
		args = append(args, "--store", "memory:")
	}
	s.log = &bytes.Buffer{}
	s.command = exec.Command(s.program, args...)
	s.command.Stderr = s.log
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.t.Fatalf("failed to start the coordinator: %v", err)
	}
	lines := make(chan string, 1)
	exited := make(chan struct{})
	s.exited = exited
	command := s.command
	go func() {
		// Reads on to the end, so that the coordinator never waits for the test to read.
		reader := bufio.NewReader(stdout)
		line, _ := reader.ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, reader)
		_ = command.Wait()
		close(exited)
	}()
	var line string
	select {
	case line = <-lines:
	case <-time.After(longest):
	}
	address, admin := bound(line, "grpc="), bound(line, "admin=")
	if address == "" || admin == "" {
		s.Kill()
		s.t.Fatalf("the coordinator did not say where it listens; its log:\n%s", s.log)
	}
	s.Address = address
	s.AdminURL = "http://" + admin
	s.URL = s.scheme + "://" + address
	Until(s.t, "the coordinator to be ready", func() bool {
		answer, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
}

func bound(line, key string) string {
	_, after, _ := strings.Cut(line, key)
	address, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	return address
}

// Restart starts it again at the same address, after it has ended.
func (s *Server) Restart() {
	s.t.Helper()
	<-s.exited
	s.start(s.Address)
}

// Roll restarts coordinators one after the other. Each drains before it ends.
func Roll(servers ...*Server) {
	for _, s := range servers {
		s.t.Helper()
		s.Terminate()
		s.Restart()
	}
}

// Kill ends it with SIGKILL, and waits until it has ended.
func (s *Server) Kill() {
	if s.command.Process != nil {
		_ = s.command.Process.Kill()
		<-s.exited
	}
}

// Stop stops it with SIGSTOP.
func (s *Server) Stop() {
	s.signal(syscall.SIGSTOP)
}

// Continue lets it go on after a stop.
func (s *Server) Continue() {
	s.signal(syscall.SIGCONT)
}

// Terminate asks it with SIGTERM to drain and end.
func (s *Server) Terminate() {
	s.signal(syscall.SIGTERM)
}

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		s.t.Fatalf("failed to send %v: %v", signal, err)
	}
}

// Redis starts a Redis server without persistence, and returns its URL. It is killed when the test ends.
func Redis(t testing.TB) string {
	t.Helper()
	url, _ := RedisProcess(t)
	return url
}

// RedisProcess starts a Redis server as Redis does, and returns its process too.
func RedisProcess(t testing.TB) (url string, process *os.Process) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	address := FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	command := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	command.Dir = t.TempDir()
	if err := command.Start(); err != nil {
		t.Fatalf("failed to start redis-server: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	Until(t, "redis-server to listen", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "redis://" + address, command.Process
}

// FreeAddress returns an address on loopback at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Until waits until the condition holds.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(longest)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s for %v", what, longest)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
