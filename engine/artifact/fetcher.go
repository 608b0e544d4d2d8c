package artifact

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// State is the state of a wanted file.
type State struct {
	// Ready is set if the store has the file.
	Ready bool `json:"ready,omitempty"`
	// Fetching is set during the fetch. Otherwise the file waits for its turn or,
	// after a failure, until Retry.
	Fetching bool `json:"fetching,omitempty"`
	// Framing is set while a fetched disk image is converted to frames. Have then counts
	// the bytes of the frames.
	Framing bool `json:"framing,omitempty"`
	// Have and Size are in bytes; Size is 0 while unknown.
	Have int64 `json:"have,omitempty"`
	Size int64 `json:"size,omitempty"`
	// From is where the file is fetched from, without account and query.
	From string `json:"from,omitempty"`
	// Why is why the last try failed, Retry when the next one begins.
	Why   string    `json:"why,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
	// Person is set if another try is unlikely to succeed until a person does
	// something.
	Person bool `json:"person,omitempty"`
	// Name is the file's, where the site's daemons know it, and Copies is which of them have it.
	Name   string  `json:"name,omitempty"`
	Copies *Copies `json:"copies,omitempty"`
}

// Limits of fetching what is wanted.
const (
	// maxFetches is how many files are fetched at once: a few that fill the line
	// finish sooner than many that share it.
	maxFetches = 3
	// Waits after failures double from the first to the longest.
	firstWait, longestWait = 5 * time.Second, 5 * time.Minute
	// Waits after failures that only a person can resolve.
	firstPersonWait, longestPersonWait = 5 * time.Minute, time.Hour
)

// Fetcher brings wanted files into a store, a few at a time, and retries
// failures.
type Fetcher struct {
	store *Store
	src   *source
	log   *slog.Logger
	// changed is called when a file has arrived or failed, possibly by several goroutines at once.
	changed func()
	poke    chan struct{}

	others *others

	mu     sync.Mutex
	wanted map[string]*wanted
	order  []string // digests, earliest requested first
	active int
}

// wanted is one wanted file.
type wanted struct {
	files    []File // one for each of its URLs
	state    State
	failures int
	reached  int64              // bytes at the end of the last try
	cancel   context.CancelFunc // cancels the try under way; nil for none
}

func newFetcher(s *Store, src *source, log *slog.Logger, changed func()) *Fetcher {
	return &Fetcher{store: s, src: src, others: &others{}, log: log, changed: changed, poke: make(chan struct{}, 1), wanted: map[string]*wanted{}}
}

// Want replaces the list of wanted files. The first are fetched first. Fetches of
// files that are no longer wanted stop.
func (f *Fetcher) Want(files []File) {
	byDigest := map[string][]File{}
	var order []string
	for _, x := range files {
		if !IsDigest(x.SHA256) {
			continue
		}
		if byDigest[x.SHA256] == nil {
			order = append(order, x.SHA256)
		}
		byDigest[x.SHA256] = append(byDigest[x.SHA256], x)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for digest, w := range f.wanted {
		if !slices.Equal(w.files, byDigest[digest]) { // another URL needs another try
			w.stop()
			delete(f.wanted, digest)
		}
	}
	for digest, its := range byDigest {
		if f.wanted[digest] == nil {
			f.wanted[digest] = &wanted{files: its}
		}
	}
	f.order = order
	f.wake()
}

// isFramed reports whether the store has all the frames that are wanted of the file.
func (w *wanted) isFramed(s *Store) bool {
	return !slices.ContainsFunc(w.files, func(f File) bool {
		_, ok := s.Frames(f.SHA256, f.Form)
		return f.Form != "" && !ok
	})
}

func (w *wanted) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// Retry tries everything again that has failed, at once.
func (f *Fetcher) Retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.wanted {
		w.failures, w.state.Retry = 0, time.Time{}
	}
	f.wake()
}

// State returns the state of a file.
func (f *Fetcher) State(digest string) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.wanted[digest]
	if i, ok := f.store.Get(digest); ok && (w == nil || w.isFramed(f.store)) {
		return State{Ready: true, Have: i.Size, Size: i.Size, From: i.Source}
	}
	if w != nil {
		return w.state
	}
	return State{}
}

// States returns the states of all wanted files.
func (f *Fetcher) States() map[string]State {
	f.mu.Lock()
	digests := slices.Collect(maps.Keys(f.wanted))
	f.mu.Unlock()
	all := map[string]State{}
	for _, d := range digests {
		all[d] = f.State(d)
	}
	return all
}

func (f *Fetcher) wake() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// run fetches what is wanted until the context ends.
func (f *Fetcher) run(ctx context.Context) {
	var tries sync.WaitGroup
	defer tries.Wait()
	for {
		next := time.NewTimer(f.startDue(ctx, &tries))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-f.poke:
		case <-next.C:
		}
		next.Stop()
	}
}

// idleWait is the longest time until the next check if nothing is due.
const idleWait = time.Hour

// startDue begins the tries that are due, and returns the time until the next one.
func (f *Fetcher) startDue(ctx context.Context, tries *sync.WaitGroup) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := idleWait
	for _, digest := range f.order {
		w := f.wanted[digest]
		if _, ready := f.store.Get(digest); ready && w.isFramed(f.store) || w.cancel != nil {
			continue
		}
		if d := time.Until(w.state.Retry); d > 0 {
			wait = min(wait, d)
			continue
		}
		if f.active >= maxFetches {
			continue
		}
		its := w.files[w.failures%len(w.files)]
		tctx, cancel := context.WithCancel(ctx)
		f.active++
		w.cancel = cancel
		w.state = State{Fetching: true, From: shownURL(its.URL), Why: w.state.Why, Person: w.state.Person}
		tries.Go(func() {
			defer cancel()
			f.try(tctx, w, its)
		})
	}
	return wait
}

func (f *Fetcher) try(ctx context.Context, w *wanted, its File) {
	f.log.Info("artifact is being fetched", "for", its.For, "from", shownURL(its.URL), "sha256", its.SHA256)
	info, err := f.bring(ctx, w, its)
	if err == nil && its.Form != "" {
		f.noteFraming(w)
		_, err = f.store.frame(ctx, its.SHA256, its.Form, func(written int64) {
			f.mu.Lock()
			defer f.mu.Unlock()
			w.state.Have = written
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.log.Warn("artifact not fetched", "for", its.For, "from", shownURL(its.URL), "err", err)
	default:
		f.log.Info("artifact is in the store", "for", its.For, "sha256", its.SHA256, "size", info.Size)
	}
	f.noteEnd(ctx, w, err)
	f.changed()
}

// bring tries the other daemons that have the file first, and then the file's own URL.
func (f *Fetcher) bring(ctx context.Context, w *wanted, its File) (info Info, err error) {
	for _, one := range append(f.others.of(its), its) {
		f.noteFrom(w, one)
		info, err = f.store.fetch(ctx, f.others.source(one, f.src), one, func(have, size int64) {
			f.mu.Lock()
			defer f.mu.Unlock()
			w.state.Have, w.state.Size = have, size
		})
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrNoRoom) {
			return info, err
		}
		if one.Copy.From != "" {
			f.log.Warn("artifact not copied", "for", its.For, "from", one.from(), "err", err)
		}
	}
	return info, f.others.hint(its.SHA256, err)
}

// noteFrom notes where a file is fetched from.
func (f *Fetcher) noteFrom(w *wanted, its File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.state.From, w.state.Have, w.state.Size = its.from(), 0, 0
}

// noteFraming notes that a file was fetched and its frames are being written.
func (f *Fetcher) noteFraming(w *wanted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.state = State{Framing: true, From: w.state.From}
}

// noteEnd notes how a try ended, or that it was cancelled, and lets the next one begin.
func (f *Fetcher) noteEnd(ctx context.Context, w *wanted, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active--
	w.cancel = nil
	if ctx.Err() == nil {
		w.ended(err)
	} else {
		w.state.Fetching, w.state.Framing = false, false
	}
	f.wake()
}

// worthwhile is how many more bytes make a failed try count as progress. Even
// over an unreliable line, a file arrives in the end.
const worthwhile = 1 << 20

// ended notes how a try ended.
func (w *wanted) ended(err error) {
	from := w.state.From
	if err == nil {
		w.state, w.failures = State{}, 0
		return
	}
	person := errors.Is(err, ErrMismatch) || errors.Is(err, ErrRefused) || errors.Is(err, ErrNoRoom)
	first, longest := firstWait, longestWait
	if person {
		first, longest = firstPersonWait, longestPersonWait
	}
	if !person && w.state.Have >= w.reached+worthwhile {
		w.failures = 0
	}
	w.reached = w.state.Have
	wait := min(longest, first<<min(w.failures, 16))
	w.failures++
	w.state = State{From: from, Have: w.state.Have, Size: w.state.Size, Why: err.Error(), Retry: time.Now().Add(wait), Person: person}
}
