package driver

import (
	"context"
	"testing"
	"time"
)

// A wait says how long it has taken, and how long it may take: also where what is waited for says something new.
func TestWait(t *testing.T) {
	began := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	for want, w := range map[string]Wait{
		"waits for its system to shut down, 10s of at most 3m0s": {"its system to shut down", began, 3 * time.Minute},
		"waits for the machine to be off, 0s of at most 500ms":   {"the machine to be off", began.Add(11 * time.Second), 500 * time.Millisecond},
		"waits for the agent: erasing, 10s of at most 169h30m":   {"the agent: erasing", began, 169*time.Hour + 30*time.Minute},
		"waits for the agent, 2s of at most 2s":                  {"the agent", began, 2 * time.Second},
		"waits for the system: unpacking, 10s of at most 1h0m":   {"the system: unpacking", began, time.Hour},
		"waits for a rest, 10s of at most 1m30s":                 {"a rest", began, 90*time.Second + time.Millisecond},
	} {
		if got := w.At(began.Add(10 * time.Second)); got != want {
			t.Errorf("%+v\n%s, want\n%s", w, got, want)
		}
	}
	var shown *Wait
	ctx := ShowWaits(context.Background(), func(w *Wait) { shown = w })
	over := WaitingSince(ctx, "the agent: read 1 of 9 MB", began, time.Hour)
	if shown == nil || !shown.Since.Equal(began) || shown.Limit != time.Hour {
		t.Errorf("shown is %+v", shown)
	}
	if over(); shown != nil {
		t.Errorf("shown is %+v after the wait", shown)
	}
}
