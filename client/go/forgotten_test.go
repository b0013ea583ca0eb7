package leasehold_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// logText keeps what is logged, at any time.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestAForgottenHoldIsNamedInAWarningAndStaysHeld(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	var log logText
	c, other := connect(t, url, leasehold.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), connect(t, url)
	wantErr(t, acquire(t, c.Lock("released")).Release(t.Context()), nil)
	kept := acquire(t, c.Lock("kept"))
	acquire(t, c.Lock("dropped"))
	_, err := c.LockAll("several", "together").Acquire(t.Context())
	wantErr(t, err, nil)
	_, err = c.Election("led").Campaign(t.Context())
	wantErr(t, err, nil)
	dropped := []string{"dropped", "several", "together", "led"}
	servertest.Until(t, "the warnings", func() bool {
		runtime.GC()
		for _, name := range dropped {
			if !strings.Contains(log.String(), "lock="+name) {
				return false
			}
		}
		return true
	})
	for _, name := range dropped {
		_, err := other.Lock(name).Try(t.Context())
		wantErr(t, err, leasehold.ErrBusy)
	}
	wantErr(t, kept.Release(t.Context()), nil)
	if text := log.String(); strings.Count(text, "level=WARN") != len(dropped) {
		t.Errorf("the log is %s", text)
	}
}
