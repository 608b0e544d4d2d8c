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
	last    *snapshot[T] // what is served during a rest; nil at other times
}

// longestRest bounds how old a value is that is served during a rest.
const longestRest = 10 * time.Second

// snapshot is a value, with its JSON.
type snapshot[T any] struct {
	done  chan struct{}
	value T
	body  []byte
	err   error
}

// get gives a value that was computed after it was called, or with a long rest the one being computed or the last one.
func (s *shared[T]) get(ctx context.Context, key string, compute func() (T, error)) (*snapshot[T], error) {
	snap, first := s.join(key)
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
func (s *shared[T]) join(key string) (snap *snapshot[T], first bool) {
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
	if l.last != nil {
		return l.last, false
	}
	if l.next == nil {
		l.next = &snapshot[T]{done: make(chan struct{})}
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
	l.next, l.last = nil, nil
	l.running = snap != nil
	return snap
}

// run computes until nobody waits.
func (s *shared[T]) run(key string, compute func() (T, error)) {
	for snap := s.take(key); snap != nil; snap = s.take(key) {
		began := time.Now()
		snap.compute(compute)
		rest := min(time.Duration(s.rest)*time.Since(began), longestRest)
		if rest > s.every && snap.err == nil {
			s.serve(key, snap)
		}
		close(snap.done)
		<-time.After(max(time.Until(began.Add(s.every)), rest))
	}
}

// serve gives a value to those who joined while it was computed, and to whoever asks before the rest ends.
func (s *shared[T]) serve(key string, snap *snapshot[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.keys[key]
	l.last = snap
	if next := l.next; next != nil {
		next.value, next.body = snap.value, snap.body
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
	if s.value, s.err = compute(); s.err == nil {
		s.body, s.err = json.Marshal(s.value)
	}
}
