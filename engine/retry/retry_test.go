package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{5, 5, 10, 20, 40, 80, 160, 180, 180}
	for failures, s := range want {
		if got := Backoff(failures); got != s*time.Second {
			t.Errorf("after %d failures %s, want %s", failures, got, s*time.Second)
		}
	}
	if got := Backoff(1 << 40); got != longest {
		t.Errorf("after very many failures %s", got)
	}
}

func TestJitterIsATenth(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := Jitter(dice, time.Minute)
		least, most = min(least, d), max(most, d)
	}
	if least < 54*time.Second || most > 66*time.Second || least > 55*time.Second || most < 65*time.Second {
		t.Errorf("a minute is spread from %s to %s", least, most)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("slept for %s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Sleep(ctx, time.Minute) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("slept on after the end of the context: %s", time.Since(began))
		}
	})
}

func TestSteadyForgetsThePort(t *testing.T) {
	one := Steady(errors.New("read tcp 10.0.0.1:40612->10.0.0.2:443: reset\nby peer "))
	other := Steady(errors.New("read tcp 10.0.0.1:40999->10.0.0.2:443: reset\nby peer"))
	if one != other || one != "read tcp 10.0.0.2:443: reset; by peer" {
		t.Errorf("%q and %q", one, other)
	}
}
