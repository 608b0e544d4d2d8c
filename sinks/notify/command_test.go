package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script is an executable file.
func script(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tell")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// send runs a script once, and gives what was logged.
func send(ctx context.Context, t *testing.T, text string) (string, error) {
	t.Helper()
	var log bytes.Buffer
	c, err := NewCommand(script(t, 0o755, text), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Send(ctx, newMessage("example", "abcd", time.Now(), []Event{{Event: EventNew, Kind: Stalled, What: "denied; $(touch /tmp/no)", all: []string{"a"}}}))
	return log.String(), err
}

func TestCommandIsTold(t *testing.T) {
	t.Setenv("CANARY", "secret")
	out := filepath.Join(t.TempDir(), "out")
	log, err := send(t.Context(), t, fmt.Sprintf(`/bin/cat > %[1]s; /usr/bin/env > %[1]s.env; echo "$#" > %[1]s.args; echo called >&2`, out))
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	if err := json.Unmarshal(read(t, out), &m); err != nil || m.Site != "example" || m.Events[0].What != "denied; $(touch /tmp/no)" {
		t.Errorf("%v: %+v", err, m)
	}
	env := string(read(t, out+".env"))
	if !strings.Contains(env, "SLIPWAY_SUMMARY=example: a is stalled: denied; $(touch /tmp/no)\n") || strings.Contains(env, "CANARY") || strings.Contains(env, "HOME=") {
		t.Errorf("environment:\n%s", env)
	}
	if args := string(read(t, out+".args")); args != "0\n" {
		t.Errorf("%s arguments", args)
	}
	if !strings.Contains(log, "stderr=called") {
		t.Errorf("log: %s", log)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCommandThatFailsIsTriedAgain(t *testing.T) {
	_, err := send(t.Context(), t, "echo 'no modem' >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no modem") {
		t.Errorf("got %v", err)
	}
}

func TestCommandThatNeverEndsIsKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := send(ctx, t, "echo 'dialling' >&2; /bin/sleep 600 & /bin/sleep 600")
	if err == nil || !strings.Contains(err.Error(), "killed: dialling") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestCommandThatDoesNotReadIsTold(t *testing.T) {
	if _, err := send(t.Context(), t, "exit 0"); err != nil {
		t.Error(err)
	}
}

func TestCommandThatSaysTooMuch(t *testing.T) {
	log, err := send(t.Context(), t, "i=0; while [ $i -lt 500 ]; do echo 0123456789abcdef >&2; i=$((i+1)); done")
	if err != nil || len(log) > 2*maxWhat {
		t.Errorf("%v, %d bytes of log", err, len(log))
	}
}

func TestCommandsThatCannotBe(t *testing.T) {
	for what, c := range map[string]struct{ path, want string }{
		"missing":          {filepath.Join(t.TempDir(), "none"), "no such file"},
		"a folder":         {t.TempDir(), "is not a program"},
		"not executable":   {script(t, 0o644, ""), "chmod +x"},
		"anybody's to set": {script(t, 0o757, ""), "chmod o-w"},
	} {
		if _, err := NewCommand(c.path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
