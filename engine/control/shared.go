package control

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// shared computes a value once for all who ask at the same time: one computation runs at a time, and
// whoever asks meanwhile gets the next one. So everyone gets a value that is not older than the
// question, and a storm of questions takes the engine's lock no more often than every so much time.
type shared[T any] struct {
	// every is the least time from one computation to the next.
	every time.Duration
	// rest is the pause after a computation, as a multiple of its duration, so that a long one has a small share
	// of the host; longestRest at most. Before a rest that is longer than every, all who joined during the computation
	// get its value; who asks during the rest gets it at once. That value is older than their questions.
	rest int

	mu   sync.Mutex
	keys map[string]*queue[T]
}

// queue is of those who ask for one key.
type queue[T any] struct {
	running bool
	next    *snapshot[T] // nil while nobody waits
	last    *snapshot[T] // the one that is computed, then kept until the rest ends; nil at other times
	began   time.Time    // when the computation of last began
	resting bool         // last is served to all who ask
}

// longestRest bounds how old a value is that is served during a rest.
const longestRest = 10 * time.Second

// snapshot is a value, with what is made of it for all who ask.
type snapshot[T any] struct {
	done  chan struct{}
	value T
	err   error
	parts *sync.Map // by name, func() (prepared, error)
}

// part is the JSON of a part of the value. It is made when somebody asks for it by this name, once for all who do.
func (s *snapshot[T]) part(name string, of func(T) any) (prepared, error) {
	made, _ := s.parts.LoadOrStore(name, sync.OnceValues(func() (prepared, error) {
		body, err := json.Marshal(of(s.value))
		return prepare(body), err
	}))
	return made.(func() (prepared, error))()
}

// whole is the JSON of the value.
func (s *snapshot[T]) whole() (prepared, error) { return s.part("", func(v T) any { return v }) }

// get gives a value that was computed after it was called, or with a long rest the one being computed or the last one.
func (s *shared[T]) get(ctx context.Context, key string, compute func() (T, error)) (*snapshot[T], error) {
	return s.ask(ctx, key, func(time.Time) bool { return false }, compute)
}

// recent gives the value that is computed now, or was computed last and no longer ago than every, where there is one:
// it does not wait for a rest. Otherwise it is get.
func (s *shared[T]) recent(ctx context.Context, key string, compute func() (T, error)) (*snapshot[T], error) {
	return s.ask(ctx, key, func(time.Time) bool { return true }, compute)
}

// since gives the value that is computed now, or was computed last, if its computation began no earlier than a time.
// Otherwise it is get.
func (s *shared[T]) since(ctx context.Context, key string, earliest time.Time, compute func() (T, error)) (*snapshot[T], error) {
	return s.ask(ctx, key, func(began time.Time) bool { return !began.Before(earliest) }, compute)
}

// forget has whoever asks next wait for a value of its own: what was computed is known to be of the past.
func (s *shared[T]) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.keys[key]; l != nil {
		l.last, l.resting = nil, false
	}
}

// ask gives the value being computed or the last one, if it is new enough by when its computation began, or else the next.
func (s *shared[T]) ask(ctx context.Context, key string, enough func(began time.Time) bool, compute func() (T, error)) (*snapshot[T], error) {
	snap, first := s.join(key, enough)
	if first {
		go s.run(key, compute)
	}
	select {
	case <-snap.done:
		return snap, snap.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join waits in line; the first in an idle line has it run.
func (s *shared[T]) join(key string, enough func(began time.Time) bool) (snap *snapshot[T], first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]*queue[T]{}
	}
	l := s.keys[key]
	if l == nil {
		l = &queue[T]{}
		s.keys[key] = l
	}
	if l.last != nil && (l.resting || enough(l.began)) {
		return l.last, false
	}
	if l.next == nil {
		l.next = &snapshot[T]{done: make(chan struct{}), parts: &sync.Map{}}
	}
	first = !l.running
	l.running = true
	return l.next, first
}

// take gives those who wait; nil ends the run.
func (s *shared[T]) take(key string) *snapshot[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.keys[key]
	snap := l.next
	l.next, l.last, l.began, l.resting = nil, snap, time.Now(), false
	l.running = snap != nil
	return snap
}

// run computes until nobody waits.
func (s *shared[T]) run(key string, compute func() (T, error)) {
	for snap := s.take(key); snap != nil; snap = s.take(key) {
		began := time.Now()
		snap.compute(compute)
		rest := min(time.Duration(s.rest)*time.Since(began), longestRest)
		s.settle(key, snap, rest > s.every)
		close(snap.done)
		<-time.After(max(time.Until(began.Add(s.every)), rest))
	}
}

// settle keeps a value for as long as the rest takes, but no error. Before a long rest it gives the value to those who
// joined while it was computed, and to whoever asks before the rest ends.
func (s *shared[T]) settle(key string, snap *snapshot[T], long bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.keys[key]
	if l.last != snap {
		return // it was forgotten
	}
	if snap.err != nil {
		l.last = nil
		return
	}
	l.resting = long
	if next := l.next; long && next != nil {
		next.value, next.parts = snap.value, snap.parts
		close(next.done)
		l.next = nil
	}
}

// compute fills a snapshot. A panic is an error of those who asked, as in a handler of a request.
func (s *snapshot[T]) compute(compute func() (T, error)) {
	defer func() {
		if why := recover(); why != nil {
			s.err = fmt.Errorf("the daemon failed to answer: %v", why)
		}
	}()
	s.value, s.err = compute()
}
