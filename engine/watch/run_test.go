package watch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

// terminal takes what is written, and tells of it.
type terminal struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	note(t.written)
	return len(p), nil
}

// await waits until a text was written.
func (t *terminal) await(text string) {
	for range t.written {
		t.mu.Lock()
		has := strings.Contains(t.text.String(), text)
		t.mu.Unlock()
		if has {
			return
		}
	}
}

// The view begins with what the daemon says, takes keys, and ends with a key or with its context.
func TestRun(t *testing.T) {
	for what, end := range map[string]func(keys io.Writer, cancel func()){
		"keys":    func(keys io.Writer, _ func()) { io.WriteString(keys, "qq") },
		"context": func(_ io.Writer, cancel func()) { cancel() },
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, keys := io.Pipe()
			defer keys.Close()
			out := &terminal{written: make(chan struct{}, 1)}
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, &fake{report: berlin(), verbs: everything}, Options{In: in, Out: out})
			}()
			out.await("overview")
			io.WriteString(keys, "?")
			out.await("Keys")
			end(keys, cancel)
			if err := <-ended; err != nil {
				t.Errorf("ended with %v", err)
			}
			out.mu.Lock()
			defer out.mu.Unlock()
			if !strings.Contains(out.text.String(), "\x1b[?1049l") {
				t.Error("the terminal is left on the other screen")
			}
		})
	}
	if err := Run(t.Context(), &fake{down: true}, Options{}); !errors.Is(err, errDown) {
		t.Errorf("without a daemon: %v", err)
	}
}
