package control

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Where no site is named, what is asked about a node goes to the only site that has it, and nothing is done where that is not
// sure.
func TestClientFindsTheSiteOfANode(t *testing.T) {
	f, berlin, paris, away := behindFront(t, nil)
	socket, _ := serving(t, f)
	c, ctx := dial(t, socket), t.Context()
	pause := site.Order{Verb: site.VerbPause, Node: "n1", Reason: "a test"}

	if _, err := c.Do(ctx, "", pause); !errors.Is(err, ErrWhichSite) || !strings.HasSuffix(err.Error(), "several have a node n1: berlin, paris") {
		t.Errorf("a node of two sites: %v", err)
	}
	berlin.mu.Lock()
	berlin.left = true
	berlin.mu.Unlock()
	if _, err := c.Do(ctx, "", pause); err != nil || len(berlin.orders) != 0 || len(paris.orders) != 1 {
		t.Errorf("a node of paris: %v; berlin has %v, paris %v", err, berlin.orders, paris.orders)
	}
	if d, err := c.Node(ctx, "", "n1"); err != nil || d.Status.Name != "n1" {
		t.Errorf("the node: %+v %v", d.Status, err)
	}
	if name, err := c.SiteOf(ctx, "", "n1"); err != nil || name != "paris" {
		t.Errorf("its site: %q %v", name, err)
	}
	if _, err := c.SiteOf(ctx, "", "nowhere"); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("a node of no site: %v", err)
	}
	// One that does not answer may have the node, too.
	away["berlin"] = errors.New("it has ended")
	f.roundTripper().CloseIdleConnections()
	if _, err := c.Do(ctx, "", pause); !errors.Is(err, ErrWhichSite) || !strings.Contains(err.Error(), "whether site berlin has a node n1 is not known: site berlin does not answer: it has ended") || len(paris.orders) != 1 {
		t.Errorf("with a site that is away: %v; paris has %v", err, paris.orders)
	}
	// What is about no node is not guessed.
	if _, err := c.Do(ctx, "", site.Order{Verb: site.VerbPause, Reason: "a test"}); !errors.Is(err, ErrWhichSite) {
		t.Errorf("all nodes of some site: %v", err)
	}
}
