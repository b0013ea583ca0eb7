package servertest

import (
	"os"
	"strings"
	"testing"
)

// Excerpts checks that each block of Go on a page is an excerpt of a file that is compiled. White space does not count, an ellipsis stands for
// anything, and the variable endpoint for the URL of the pages.
func Excerpts(t *testing.T, page string, sources ...string) {
	t.Helper()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	squeezed := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	var code string
	for _, source := range sources {
		code += squeezed(strings.ReplaceAll(read(source), "(ctx, endpoint)", `(ctx, "http://127.0.0.1:7420")`))
	}
	blocks := strings.Split(read(page), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatalf("%s has no block of Go", page)
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		left := code
		for part := range strings.SplitSeq(block, "…") {
			_, after, isThere := strings.Cut(left, squeezed(part))
			if !isThere {
				t.Errorf("%s: not an excerpt of %v:\n%s", page, sources, block)
				break
			}
			left = after
		}
	}
}
