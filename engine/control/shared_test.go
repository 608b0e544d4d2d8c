package control

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A storm of reads has a value computed once at a time and no more often than every so much, and nobody
// gets one that is older than the question.
func TestSharedComputesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int64]{every: 250 * time.Millisecond}
		var computed, under atomic.Int64
		compute := func() (int64, error) {
			if under.Add(1) > 1 {
				t.Error("two at a time")
			}
			defer under.Add(-1)
			at := time.Now()
			time.Sleep(10 * time.Millisecond)
			computed.Add(1)
			return at.UnixNano(), nil
		}
		for range 100 { // clients
			go func() {
				for range 20 {
					asked := time.Now().UnixNano()
					got, err := s.get(t.Context(), "berlin", compute)
					if err != nil || got.value < asked {
						t.Errorf("got a value of %d before the question, %v", asked-got.value, err)
					}
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := computed.Load(); n < 20 || n > 42 {
			t.Errorf("computed %d times for 2,000 questions", n)
		}
	})
}

// What takes long is computed seldom, however many ask.
func TestSharedRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: time.Second, rest: 20}
		began := time.Now()
		for range 10 {
			if _, err := s.get(t.Context(), "x", func() (int, error) { time.Sleep(200 * time.Millisecond); return 0, nil }); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 9*4200*time.Millisecond+200*time.Millisecond {
			t.Errorf("ten in a row took %s", took)
		}
		time.Sleep(time.Minute)
	})
}

func TestSharedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		wrong := errors.New("wrong")
		if _, err := s.get(t.Context(), "x", func() (int, error) { return 0, wrong }); !errors.Is(err, wrong) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.get(ctx, "x", func() (int, error) { time.Sleep(time.Hour); return 0, nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a question that was given up: %v", err)
		}
		time.Sleep(2 * time.Hour)
	})
}
