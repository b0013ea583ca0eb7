package leasehold

import (
	"os"
	"regexp"
	"testing"
)

func TestRetriesAreThoseOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| `[A-Z_]+` \\| (yes|no|elsewhere) \\|").FindAllStringSubmatch(string(page), -1)
	mayRetry := 0
	for _, row := range rows {
		want := row[2] != "no"
		if want {
			mayRetry++
		}
		if got := (&Failure{Reason: row[1]}).Retryable(); got != want {
			t.Errorf("%s is to be retried: %s; the client says %v", row[1], row[2], got)
		}
	}
	if mayRetry == 0 || mayRetry != len(retried) {
		t.Errorf("%d reasons are documented as to be retried, %d are known", mayRetry, len(retried))
	}
}
