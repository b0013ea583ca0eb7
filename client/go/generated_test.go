package leasehold

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestGeneratedCodeIsCurrent(t *testing.T) {
	if _, err := os.Stat("../../target/tools/node_modules/.bin/buf"); err != nil {
		t.Skip("buf is not installed: run `make buf`")
	}
	out := t.TempDir()
	if output, err := exec.Command("./generate", out).CombinedOutput(); err != nil {
		t.Fatalf("failed to generate: %v\n%s", err, output)
	}
	generated, err := filepath.Glob(filepath.Join(out, "leasehold/v1/*.go"))
	if err != nil || len(generated) == 0 {
		t.Fatalf("nothing was generated (%v)", err)
	}
	committed, err := filepath.Glob("leasehold/v1/*.go")
	if err != nil || len(committed) != len(generated) {
		t.Errorf("%d files are generated, %d are committed (%v)", len(generated), len(committed), err)
	}
	for _, path := range generated {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("leasehold/v1", filepath.Base(path)))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what proto/ says: run `make proto-go` (%v)", filepath.Base(path), err)
		}
	}
}
