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

// What takes long is computed seldom, however many ask. Whoever asks meanwhile gets the last value at once.
func TestSharedRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: time.Second, rest: 20}
		computed := 0
		get := func() int {
			snap, err := s.get(t.Context(), "x", func() (int, error) { time.Sleep(200 * time.Millisecond); computed++; return computed, nil })
			if err != nil {
				t.Fatal(err)
			}
			return snap.value
		}
		began := time.Now()
		for range 10 {
			if got := get(); got != 1 {
				t.Errorf("during the rest got value %d", got)
			}
		}
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("ten in a row took %s", took)
		}
		time.Sleep(5 * time.Second)
		if got := get(); got != 2 {
			t.Errorf("after the rest got value %d", got)
		}
		time.Sleep(time.Minute)
	})
}

// Whoever asks while something long is computed gets that value when it is there, and does not wait for the rest and
// another computation.
func TestSharedJoinersOfALongComputation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: time.Second, rest: 20}
		computed := 0
		compute := func() (int, error) { time.Sleep(200 * time.Millisecond); computed++; return computed, nil }
		began := time.Now()
		get := func() {
			snap, err := s.get(t.Context(), "x", compute)
			if err != nil || snap.value != 1 || time.Since(began) != 200*time.Millisecond {
				t.Errorf("got %v, %v after %s", snap, err, time.Since(began))
			} else if body, err := snap.whole(); err != nil || string(body.body) != "1" {
				t.Errorf("its JSON is %s, %v", body, err)
			}
		}
		go get()
		time.Sleep(100 * time.Millisecond) // in the middle of the computation
		go get()
		get()
		time.Sleep(time.Minute)
		if computed != 1 {
			t.Errorf("computed %d times", computed)
		}
	})
}

// Who is content with a value that is a bit old does not wait for a rest, unless something was done since.
func TestSharedRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: 250 * time.Millisecond}
		computed := 0
		compute := func() (int, error) { time.Sleep(20 * time.Millisecond); computed++; return computed, nil }
		ask := func(how func(context.Context, string, func() (int, error)) (*snapshot[int], error), want int, takes time.Duration) {
			t.Helper()
			began := time.Now()
			if snap, err := how(t.Context(), "x", compute); err != nil || snap.value != want || time.Since(began) != takes {
				t.Errorf("got %v, %v after %s, want %d after %s", snap, err, time.Since(began), want, takes)
			}
		}
		ask(s.recent, 1, 20*time.Millisecond) // nothing was there
		ask(s.recent, 1, 0)
		time.Sleep(130 * time.Millisecond)
		ask(s.recent, 1, 0)
		ask(s.get, 2, 120*time.Millisecond) // which is never older than the question
		ask(s.recent, 2, 0)
		s.forget("x")
		ask(s.recent, 3, 250*time.Millisecond)
		go ask(s.get, 4, 250*time.Millisecond)
		time.Sleep(240 * time.Millisecond)
		ask(s.recent, 4, 10*time.Millisecond) // which is computed already
		time.Sleep(time.Minute)
		ask(s.recent, 5, 20*time.Millisecond) // nothing is kept after the rest
		time.Sleep(time.Minute)
	})
}

// All who were told of the same thing get one value, which is not older than what they were told.
func TestSharedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: 250 * time.Millisecond}
		computed := 0
		compute := func() (int, error) { time.Sleep(20 * time.Millisecond); computed++; return computed, nil }
		told := time.Now()
		ask := func(told time.Time, want int, takes time.Duration) {
			t.Helper()
			began := time.Now()
			if snap, err := s.since(t.Context(), "x", told, compute); err != nil || snap.value != want || time.Since(began) != takes {
				t.Errorf("got %v, %v after %s, want %d after %s", snap, err, time.Since(began), want, takes)
			}
		}
		time.Sleep(10 * time.Millisecond)
		go ask(told, 1, 20*time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		ask(told, 1, 15*time.Millisecond) // which is computed already
		ask(told, 1, 0)
		ask(told.Add(10*time.Millisecond), 1, 0)
		ask(told.Add(11*time.Millisecond), 2, 250*time.Millisecond) // told after the computation began
		s.forget("x")
		ask(told, 3, 250*time.Millisecond)
		time.Sleep(time.Minute)
	})
}

// What is made of a value is made once for all who ask, and not before.
func TestSharedParts(t *testing.T) {
	var s shared[int]
	snap, err := s.get(t.Context(), "x", func() (int, error) { return 7, nil })
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for range 3 {
		if body, err := snap.part("half", func(v int) any { made++; return v / 2 }); err != nil || string(body.body) != "3" {
			t.Errorf("got %s, %v", body, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

// However long a computation takes, its value is served for some seconds only.
func TestSharedRestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: time.Second, rest: 20}
		computed := 0
		compute := func() (int, error) { time.Sleep(3 * time.Second); computed++; return computed, nil }
		for want := 1; want <= 2; want++ {
			if snap, err := s.get(t.Context(), "x", compute); err != nil || snap.value != want {
				t.Errorf("got %v, %v, want %d", snap, err, want)
			}
			time.Sleep(longestRest + time.Millisecond)
		}
		time.Sleep(time.Minute)
	})
}

// An error is not kept: whoever asks next has it tried again.
func TestSharedKeepsNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{every: time.Second, rest: 20}
		tries := 0
		compute := func() (int, error) {
			time.Sleep(200 * time.Millisecond)
			if tries++; tries == 1 {
				return 0, errors.New("wrong")
			}
			return tries, nil
		}
		if _, err := s.get(t.Context(), "x", compute); err == nil {
			t.Error("no error")
		}
		if snap, err := s.get(t.Context(), "x", compute); err != nil || snap.value != 2 {
			t.Errorf("got %v, %v", snap, err)
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
