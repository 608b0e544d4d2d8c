package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// exporter is a daemon that gives its records away, or fails on the way.
type exporter struct {
	fake
	size int
	fail error
}

func (x *exporter) Export(_ context.Context, w io.Writer) error {
	for range x.size {
		if _, err := w.Write([]byte(strings.Repeat("r", 999) + "\n")); err != nil {
			return err
		}
	}
	return x.fail
}

func TestExportCrosses(t *testing.T) {
	socket, _ := serving(t, &exporter{size: 5000})
	var got bytes.Buffer
	if err := dial(t, socket).Export(t.Context(), &got); err != nil || got.Len() != 5_000_000 {
		t.Errorf("got %d bytes, %v", got.Len(), err)
	}
}

func TestExportFails(t *testing.T) {
	for size, want := range map[int]string{0: "disk on fire", 100: "read the daemon's records: unexpected EOF"} {
		socket, _ := serving(t, &exporter{size: size, fail: errors.New("disk on fire")})
		if err := dial(t, socket).Export(t.Context(), io.Discard); err == nil || err.Error() != want {
			t.Errorf("after %d parts: got %v, want %q", size, err, want)
		}
	}
	socket, _ := serving(t, &fake{})
	if err := dial(t, socket).Export(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "exports no records") {
		t.Errorf("got %v, want that this daemon exports nothing", err)
	}
	if err := dial(t, Socket(t.TempDir())).Export(t.Context(), io.Discard); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("got %v, want that there is no daemon", err)
	}
}
