package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program is where Chromium is. Where it is not installed the test is skipped, and fails in CI and with SLIPWAY_PROVE.
func Program(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("chromium")
	switch {
	case err == nil:
	case os.Getenv("CI") != "" || os.Getenv("SLIPWAY_PROVE") != "":
		t.Fatal("there is no chromium: run ./setup.sh")
	default:
		t.Skip("there is no chromium: run ./setup.sh")
	}
	return program
}

// Command runs Chromium without a screen and without any host but this one. All that it keeps is in its home.
func Command(ctx context.Context, program, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir=" + filepath.Join(home, "profile"),
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	return cmd
}
