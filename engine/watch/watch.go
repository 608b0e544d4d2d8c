// Package watch is the full-screen view of a site in a terminal, for those who log in by SSH. It is a client of the
// API: it shows what the API says, and can do what its user may do there.
//
// The model (model.go) is pure: messages and keys in, lines out. The feed (feed.go) follows the daemon and sends the
// messages. All text from designs, machines and people is bounded and made printable where it enters a line (text.go);
// what is drawn of a page is the part that is visible.
package watch

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Daemon is what the view asks of a daemon; *control.Client is one.
type Daemon interface {
	// Look is the report of a site and its tag. With the tag of the caller's report it says whether there is another.
	Look(ctx context.Context, siteName, tag string) (r site.Report, now string, changed bool, err error)
	// Events are the latest events with a Seq above after.
	Events(ctx context.Context, siteName string, after uint64) ([]site.Event, error)
	// Stream tells what happens after the event with a Seq, until the connection or the context ends.
	Stream(ctx context.Context, siteName string, after uint64, h control.Hearing) error
	// History are the last events of a node.
	History(ctx context.Context, siteName, node string) ([]site.Event, error)
	// WhoAmI returns the user's name and rights at the daemon.
	WhoAmI(ctx context.Context) (control.Identity, error)
	// Do has the daemon carry out an order, and says what was done.
	Do(ctx context.Context, siteName string, o site.Order) (string, error)
}

// Options say what is watched, and where it is shown.
type Options struct {
	// Site is the name of the site; empty for the daemon's only one.
	Site string
	// In and Out are the terminal.
	In  io.Reader
	Out io.Writer
	// Colour is false where the user wants none (https://no-color.org).
	Colour bool
}

// frames is how often the terminal is written at most, each second.
const frames = 20

// Run shows a site until the user leaves or the context ends. A daemon that does not answer at the beginning is an error;
// one that goes away later is waited for.
func Run(ctx context.Context, d Daemon, o Options) error {
	first, tag, _, err := d.Look(ctx, o.Site, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, d, o)
	m.Update(reported{first})
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithFPS(frames), tea.WithWindowSize(m.width, m.height), tea.WithoutSignalHandler())
	f := &feed{daemon: d, site: o.Site, tag: tag, send: func(m message) { p.Send(m) }}
	go f.run(ctx)
	_, err = p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil // an interrupt is how watching ends
	}
	return err
}
