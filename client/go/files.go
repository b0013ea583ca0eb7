package leasehold

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// unsettled is the age below which a changed file is read again, though its time has not changed: file systems keep times in steps.
const unsettled = time.Second

// fromFiles is a value made from files, and made anew when one of them has changed. If it can't be made then, for example because a
// file is half written, it stays as it was.
type fromFiles[T any] struct {
	paths []string
	// parse makes the value of the contents, in the order of the paths.
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu       sync.Mutex
	value    T
	contents [][]byte
	// version is the number of times that it was made anew.
	version uint64
	stamps  []os.FileInfo
	settled bool
}

// newFromFiles makes it for the first time.
func newFromFiles[T any](log *slog.Logger, parse func([][]byte) (T, error), paths ...string) (*fromFiles[T], error) {
	f := &fromFiles[T]{paths: paths, parse: parse, log: log}
	// Before they are read: what changes in between is read again.
	f.stamps, f.settled = look(paths)
	contents, err := readAll(paths)
	if err != nil {
		return nil, err
	}
	if f.value, err = parse(contents); err != nil {
		return nil, err
	}
	f.contents = contents
	return f, nil
}

// current returns the value for the files as they are now, and a number that rises whenever another value is made.
func (f *fromFiles[T]) current() (value T, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps, settled := look(f.paths)
	isNews := !slices.EqualFunc(stamps, f.stamps, areSame)
	if !isNews && f.settled {
		return f.value, f.version
	}
	f.stamps, f.settled = stamps, settled
	contents, err := readAll(f.paths)
	if err == nil && slices.EqualFunc(contents, f.contents, bytes.Equal) {
		return f.value, f.version
	}
	if err == nil {
		if value, err = f.parse(contents); err == nil {
			f.value, f.contents = value, contents
			f.version++
			return f.value, f.version
		}
	}
	if isNews {
		f.log.Warn("a changed file can't be used: what was read before stays in use", "files", f.paths, "error", err)
	}
	return f.value, f.version
}

func look(paths []string) (stamps []os.FileInfo, settled bool) {
	settled = true
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			stamps, settled = append(stamps, nil), false
			continue
		}
		stamps = append(stamps, info)
		settled = settled && time.Since(info.ModTime()) >= unsettled
	}
	return stamps, settled
}

func readAll(paths []string) ([][]byte, error) {
	contents := make([][]byte, len(paths))
	for i, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		contents[i] = content
	}
	return contents, nil
}

// areSame reports whether a file is the same, as it was; nil is one that there is not.
func areSame(one, other os.FileInfo) bool {
	if one == nil || other == nil {
		return one == other
	}
	return os.SameFile(one, other) && one.Size() == other.Size() && one.ModTime().Equal(other.ModTime())
}
