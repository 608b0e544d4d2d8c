package control

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many pages are open and commands follow, a console is read once for all of them, and at most each second.
func TestConsoleIsReadOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c consoles
		var reads atomic.Int32
		read := func(context.Context) ([]byte, error) {
			time.Sleep(300 * time.Millisecond)
			reads.Add(1)
			return []byte("booting"), nil
		}
		began := time.Now()
		charged := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 50 { // as many pages, each of which asks again at once
			all.Go(func() {
				for time.Since(began) < 10*time.Second {
					r, begun, err := c.join(t.Context(), "n1", read)
					if err != nil {
						t.Error(err)
						return
					}
					<-r.done
					if string(r.text) != "booting" || r.err != nil {
						t.Errorf("read %q, %v", r.text, r.err)
					}
					c.leave("n1", r)
					mu.Lock()
					if begun {
						charged++
					}
					mu.Unlock()
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		all.Wait()
		if n := int(reads.Load()); n < 7 || n > 9 || charged != n {
			t.Errorf("%d reads in 10 s, %d of them charged", n, charged)
		}
		time.Sleep(2 * time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.open) > 0 {
			t.Error("a console stays in memory")
		}
	})
}

// A reading that nobody waits for any more ends, and few go on at once. What failed is said to all who wait.
func TestConsolesEndAndAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c consoles
		var ended atomic.Int32
		endless := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			ended.Add(1)
			return nil, ctx.Err()
		}
		var open []*reading
		for _, n := range []string{"n1", "n2", "n3", "n4"} {
			r, _, err := c.join(t.Context(), n, endless)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, r)
		}
		if _, _, err := c.join(t.Context(), "n5", endless); !errors.Is(err, ErrTooMany) {
			t.Errorf("five at once: %v", err)
		}
		again, _, err := c.join(t.Context(), "n1", endless)
		if err != nil || again != open[0] {
			t.Errorf("joined another reading, %v", err)
		}
		c.leave("n1", again)
		synctest.Wait()
		if ended.Load() > 0 {
			t.Error("ended although somebody waits")
		}
		c.leave("n1", open[0])
		anew, begun, err := c.join(t.Context(), "n1", endless) // waits until the one before has ended
		if err != nil || !begun || anew == open[0] || ended.Load() != 1 {
			t.Errorf("after it was left: begun %t, %v, %d ended", begun, err, ended.Load())
		}
		c.leave("n1", anew)
		synctest.Wait()
		if ended.Load() != 2 {
			t.Error("goes on although nobody waits")
		}
		if _, begun, err := c.join(t.Context(), "n5", func(context.Context) ([]byte, error) { panic("ouch") }); err != nil || !begun {
			t.Errorf("after one has ended: %t, %v", begun, err)
		}
		r, _, _ := c.join(t.Context(), "n5", endless)
		<-r.done
		if r.err == nil {
			t.Error("a panic is no error")
		}
		time.Sleep(time.Minute) // longer than any reading
		if ended.Load() != 5 {
			t.Errorf("%d ended", ended.Load())
		}
	})
}
