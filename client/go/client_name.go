package leasehold

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Most bytes of a client's default name: of the program, and of the host.
const (
	longestProgram = 32
	longestHost    = 64
)

// defaultClientName returns the name PROGRAM@HOST/PID of this process, by which operators find it.
func defaultClientName() string {
	program := ""
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	// If it fails, the host is unknown.
	host, _ := os.Hostname()
	return clientName(strings.TrimSuffix(program, filepath.Ext(program)), host, os.Getpid())
}

func clientName(program, host string, process int) string {
	return fmt.Sprintf("%s@%s/%d", namePart(program, longestProgram), namePart(host, longestHost), process)
}

// namePart returns the text without control characters, which a coordinator would refuse, and with at most so many bytes.
func namePart(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for len(text) > most {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return cmp.Or(text, "unknown")
}
