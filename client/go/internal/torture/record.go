package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// moved is by how much a deadline has to move to be recorded, in microseconds.
	moved = 10_000
	// nap is the time between two looks for stalls, and late by how much a look must come later to be recorded, in microseconds.
	nap  = 20 * time.Millisecond
	late = 100_000
)

// fields are those of a line of a history.
type fields = map[string]any

// now returns the time in microseconds on the clock that all processes of the machine share.
func now() int64 {
	var at unix.Timespec
	// It can't fail: the clock is always there.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &at)
	return at.Nano() / 1000
}

// history is a file. Each line is written with one system call before the caller goes on.
type history struct {
	mutex sync.Mutex
	file  *os.File
}

func createHistory(path string) (*history, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &history{file: file}, nil
}

func (h *history) lineAt(at int64, kind string, of fields) {
	of["at"], of["kind"] = at, kind
	line, err := json.Marshal(of)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err == nil {
		_, err = h.file.Write(append(line, '\n'))
	}
	if err != nil {
		// A client that can't be recorded is of no use.
		panic(err)
	}
}

// watchStalls records the times in which this process got no processor, so that a busy machine is not mistaken for a broken promise, in a
// file beside its history.
func watchStalls(name, path string) {
	file, err := createHistory(strings.TrimSuffix(path, filepath.Ext(path)) + ".stalls.jsonl")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			since := now()
			time.Sleep(nap)
			if at := now(); at-since > late {
				file.lineAt(at, "stalled", fields{"process": name, "since": since})
			}
		}
	}()
}

// worker is a client process, as its history and the registers know it.
type worker struct {
	name    string
	history *history
	numbers atomic.Int64
}

func (w *worker) line(kind string, of fields) {
	of["client"] = w.name
	w.history.lineAt(now(), kind, of)
}

// asks records that the client is about to ask. queue names the queue where a lock has several.
func (w *worker) asks(cycle cycle, queue string) ask {
	asked := ask{worker: w, number: w.numbers.Add(1)}
	of := fields{"lock": cycle.lock, "mode": cycle.mode, "queue": queue}
	if cycle.mode == "permits" {
		of["permits"], of["limit"] = cycle.permits, limit
	}
	if cycle.waits {
		of["wait"] = cycle.wait.Microseconds()
	}
	asked.line("asked", of)
	return asked
}

// ask is an acquire and its hold in the history.
type ask struct {
	worker *worker
	number int64
}

func (a ask) line(kind string, of fields) {
	with := maps.Clone(of)
	with["ask"] = a.number
	a.worker.line(kind, with)
}

func (a ask) ended(outcome, why string) {
	a.line("ended", fields{"outcome": outcome, "why": why})
}

func (a ask) granted(token, until int64) *held {
	a.line("granted", fields{"token": token, "until": until})
	return &held{ask: a, until: until}
}

// held is a hold in the history.
type held struct {
	ask
	until int64
}

// extended records a later deadline, if it is clearly later.
func (h *held) extended(until int64) {
	if until > h.until+moved {
		h.until = until
		h.line("extended", fields{"until": until})
	}
}

// resumed records that it is held again.
func (h *held) resumed(until int64) {
	h.until = until
	h.line("resumed", fields{"until": until})
}

// registers is a goroutine's connection to the harness's registers.
type registers struct {
	address string
	open    net.Conn
	answers *bufio.Reader
}

// write writes to the register of a lock, if it has one, and waits for the answer, which only the register records.
func (r *registers) write(worker *worker, cycle cycle, token int64) {
	if !cycle.hasRegister() {
		return
	}
	if r.open == nil {
		open, err := net.Dial("tcp", r.address)
		if err != nil {
			return
		}
		r.open, r.answers = open, bufio.NewReader(open)
	}
	_, err := fmt.Fprintf(r.open, "%s %s %d\n", worker.name, cycle.lock, token)
	if err == nil {
		_, err = r.answers.ReadString('\n')
	}
	if err != nil {
		_ = r.open.Close()
		r.open = nil
	}
}
