package leasehold_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// source is a program that uses the client.
const source = `package main

import (
	"context"

	"leasehold.dev/go"
)

func main() {
	client, err := leasehold.Connect(context.Background(), "http://127.0.0.1:7420")
	if err == nil {
		client.Close()
	}
}
`

// TestAModuleBuildsWithoutTheCheckoutBesideIt does what the README says for CI and images.
func TestAModuleBuildsWithoutTheCheckoutBesideIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it vendors gRPC")
	}
	t.Parallel()
	checkout, module := filepath.Join(t.TempDir(), "go"), t.TempDir()
	copyGo(t, checkout)
	wantErr(t, os.WriteFile(filepath.Join(module, "main.go"), []byte(source), 0o600), nil)
	run := func(arguments ...string) {
		t.Helper()
		command := exec.Command("go", arguments...)
		command.Dir = module
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, said)
		}
	}
	run("mod", "init", "example.com/mine")
	run("mod", "edit", "-replace", "leasehold.dev/go="+checkout)
	run("mod", "tidy")
	run("mod", "vendor")
	for _, licence := range []string{"LICENSE-APACHE", "LICENSE-MIT"} {
		_, err := os.Stat(filepath.Join(module, "vendor/leasehold.dev/go", licence))
		wantErr(t, err, nil)
	}
	wantErr(t, os.RemoveAll(checkout), nil)
	// Finds and checks every package, as a build does first; compiling gRPC once more would take a minute.
	run("list", "-deps", "./...")
	run("build", "-n", "./...")
}

// TestAModuleFindsTheClientInAFolder makes a folder as the README says, and installs from it.
func TestAModuleFindsTheClientInAFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("it unpacks gRPC")
	}
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("this is no checkout of git's")
	}
	t.Parallel()
	proxy, module := t.TempDir(), t.TempDir()
	readme, err := os.ReadFile("README.md")
	wantErr(t, err, nil)
	_, script, isThere := strings.Cut(string(readme), "```sh\nproxy=")
	script, _, _ = strings.Cut(script, "```")
	if !isThere {
		t.Fatal("the README says nothing of it")
	}
	run := func(in string, program string, arguments ...string) {
		t.Helper()
		command := exec.Command(program, arguments...)
		command.Dir = in
		// The other modules come from where they are already.
		kept, err := exec.Command("go", "env", "GOMODCACHE").Output()
		wantErr(t, err, nil)
		command.Env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+strings.TrimSpace(string(kept))+"/cache/download",
			"GOMODCACHE="+filepath.Join(module, "cache"), "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOWORK=off")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, said)
		}
	}
	run(".", "sh", "-euc", "proxy="+strings.ReplaceAll(script, "/path/to/proxy", proxy))
	wantErr(t, os.WriteFile(filepath.Join(module, "main.go"), []byte(source), 0o600), nil)
	run(module, "go", "mod", "init", "example.com/mine")
	run(module, "go", "get", "leasehold.dev/go@v0.1.0")
	run(module, "go", "mod", "tidy")
	run(module, "go", "list", "-deps", "./...")
}

// copyGo copies this module.
func copyGo(t *testing.T, to string) {
	t.Helper()
	wantErr(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), content, 0o600)
	}), nil)
}

// TestTheReadmeNamesEachDependency compares it with go.mod.
func TestTheReadmeNamesEachDependency(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		wantErr(t, err, nil)
		return string(text)
	}
	readme := read("README.md")
	for line := range strings.Lines(read("go.mod")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.Contains(fields[0], ".") {
			continue
		}
		if module, _, _ := strings.Cut(fields[0], "/googleapis"); !strings.Contains(readme, module) {
			t.Errorf("%s is not named", module)
		}
	}
	if !strings.Contains(read("go.mod"), "\ngo 1.25.0\n") || !strings.Contains(readme, "needs Go 1.25 or later") {
		t.Error("the README names another version of Go than go.mod")
	}
}
