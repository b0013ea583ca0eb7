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
	if len(rows) != len(retries) {
		t.Errorf("%d reasons are documented, %d are known", len(rows), len(retries))
	}
	for _, row := range rows {
		retry, isKnown := retries[row[1]]
		if !isKnown || retry != (row[2] != "no") {
			t.Errorf("%s is to be retried: %s; the client says %v (known: %v)", row[1], row[2], retry, isKnown)
		}
	}
}
