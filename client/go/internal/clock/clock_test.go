package clock

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMomentsSaturateInsteadOfWrapping(t *testing.T) {
	late := Moment(math.MaxInt64 - 1)
	if got := late.After(time.Hour); got != Never {
		t.Errorf("After = %d, want Never", got)
	}
	if got := Moment(1).Since(late); got != 0 {
		t.Errorf("Since = %v, want 0", got)
	}
	if got := Moment(5).After(-time.Second); got != 5 {
		t.Errorf("After of a negative duration = %d, want 5", got)
	}
}

func TestClockIsTheOneThatCountsSuspension(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc/uptime, which counts suspended time, is Linux's")
	}
	uptime := func() time.Duration {
		text, err := os.ReadFile("/proc/uptime")
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(seconds * float64(time.Second))
	}
	// The file has steps of 10 ms, rounded down.
	before, now, after := uptime(), time.Duration(Now()), uptime()
	if now < before || now > after+10*time.Millisecond {
		t.Errorf("the clock reads %v, between uptimes of %v and %v", now, before, after)
	}
}

func TestSkewMovesTheClock(t *testing.T) {
	before := Now()
	Skew(time.Hour)
	defer Skew(-time.Hour)
	if passed := Now().Since(before); passed < time.Hour || passed > time.Hour+time.Minute {
		t.Errorf("the clock moved by %v, want an hour", passed)
	}
}
