package redfish

import (
	"runtime"
	"testing"
	"time"
)

// Thousands of machines are open at once and looked at once a minute; between
// two looks one is a few KiB and no goroutine.
func TestIdleMachineIsSmall(t *testing.T) {
	const machines, limit = 300, 15 << 10
	b := newBMC(t)
	look(open(t, b.endpoint()), nil) // what is set up once per process
	before, goroutines := heap(), runtime.NumGoroutine()
	var all []*machine
	for range machines {
		m := open(t, b.endpoint())
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
		m.client.http.CloseIdleConnections() // as idleTimeout does
		b.took()
		all = append(all, m)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines })
	each := (heap() - before) / machines
	t.Logf("an idle machine takes %d bytes", each)
	if each > limit {
		t.Errorf("an idle machine takes %d bytes, want at most %d", each, limit)
	}
	runtime.KeepAlive(all)
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// eventually waits for what the runtime does in its own time.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("goroutines are left:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}
