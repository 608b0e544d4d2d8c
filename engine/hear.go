package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// silence is an endpoint that does not answer.
type silence struct {
	class string // of the error, see driver.Class
	since time.Time
}

// heard adds an event when an endpoint stops answering, fails in another way than
// before, or answers again. It reports each of these once, however often it is
// called. For an installed system it reports only what a person has to fix.
func (w *worker) heard(ctx context.Context, n *site.Node, kind site.EndpointKind, err error) {
	was, silent := w.silent[kind]
	switch class := driver.Class(err); {
	case ctx.Err() != nil, class == was.class: // cut short, or already reported
	case kind == site.OS && err != nil && !needsPerson(err): // it may be starting
	case err != nil:
		if !silent {
			was.since = time.Now()
		}
		w.silent[kind] = silence{class, was.since}
		w.warn(site.EventMachine, "", explained(err))
	case silent:
		delete(w.silent, kind)
		w.note(site.EventMachine, "", fmt.Sprintf("%s answers again, after %s", endpointName(n, kind), time.Since(was.since).Round(time.Second)))
	}
}

// noteOther adds an event that another machine answers in place of the node's
// own.
func (w *worker) noteOther(is, expected site.Identity) {
	w.warn(site.EventMachine, "", fmt.Sprintf("another machine answers in its place: %s, and not %s", is, expected))
}
