package watch

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// How often a daemon is asked for its report. It is asked because something has happened, and rarely without that.
const (
	pause   = time.Second      // between two questions at least
	idle    = 30 * time.Second // without an event
	ease    = 10               // a question that takes a second is followed by that many without one
	again   = time.Second      // until a daemon that went away is asked again
	backlog = 500              // events that are shown at most
)

// message is what the feed sends to the model.
type message any

type (
	// reported is the report as it is now.
	reported struct{ site.Report }
	// happened are events, oldest first. They take the place of those before if all is true.
	happened struct {
		events []site.Event
		all    bool
	}
	// identified is who the user is for the daemon.
	identified struct{ control.Identity }
	// lost is why the daemon does not answer, and the connection back when it is nil.
	lost struct{ err error }
)

// feed follows a site: it hears events, and asks for the report when there are some.
type feed struct {
	daemon Daemon
	site   string
	tag    string // of the report that the model has
	send   func(message)
}

// run follows until the context ends. A daemon that goes away is asked again until it answers.
func (f *feed) run(ctx context.Context) {
	for {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.send(lost{err})
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// follow follows one connection until it ends.
func (f *feed) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last, err := f.begin(ctx)
	if err != nil {
		return err
	}
	events, ended := make(chan site.Event, 256), make(chan error, 1)
	opened, gap := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		ended <- f.daemon.Stream(ctx, f.site, last, control.Hearing{
			Opened: func() { opened <- struct{}{} },
			Gap:    func() { note(gap) },
			Event: func(e site.Event) {
				select {
				case events <- e:
				case <-ctx.Done():
				}
			},
		})
	}()
	due := time.NewTimer(idle)
	defer due.Stop()
	wait, looked := pause, time.Now()
	soon := func() { due.Reset(max(0, time.Until(looked.Add(wait)))) }
	for {
		select {
		case err := <-ended:
			return err
		case <-opened:
			f.send(lost{})
			if last == 0 { // the stream tells only what happens after it was opened
				if _, err := f.remember(ctx); err != nil {
					return err
				}
			}
			soon()
		case <-gap:
			if _, err := f.begin(ctx); err != nil {
				return err
			}
		case e := <-events:
			f.send(happened{events: append([]site.Event{e}, drain(events)...)})
			soon()
		case <-due.C:
			began := time.Now()
			if err := f.look(ctx); err != nil {
				return err
			}
			looked = time.Now()
			wait = max(pause, ease*looked.Sub(began))
			due.Reset(max(wait, idle))
		}
	}
}

// begin asks for what is not in the stream, and gives the Seq of the last event.
func (f *feed) begin(ctx context.Context) (last uint64, err error) {
	who, err := f.daemon.WhoAmI(ctx)
	if err != nil {
		return 0, err
	}
	f.send(identified{who})
	if last, err = f.remember(ctx); err != nil {
		return 0, err
	}
	return last, f.look(ctx)
}

// remember asks for the events that the daemon still has, and gives the Seq of the last.
func (f *feed) remember(ctx context.Context) (last uint64, err error) {
	events, err := f.daemon.Events(ctx, f.site, 0)
	if err != nil {
		return 0, err
	}
	if n := len(events); n > 0 {
		last = events[n-1].Seq
	}
	f.send(happened{events[max(0, len(events)-backlog):], true})
	return last, nil
}

// look sends the report if it has changed.
func (f *feed) look(ctx context.Context) error {
	r, tag, changed, err := f.daemon.Look(ctx, f.site, f.tag)
	if err != nil {
		return err
	}
	if changed {
		f.tag = tag
		f.send(reported{r})
	}
	return nil
}

// note puts a note into a channel that has room for one, where there is none yet.
func note(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drain takes what is in a queue now.
func drain(c <-chan site.Event) (all []site.Event) {
	for {
		select {
		case e := <-c:
			all = append(all, e)
		default:
			return all
		}
	}
}
