package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/stmcginnis/gofish"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// sessionContext is the property of a session that its client supplies and
// others can read (DSP0268, Session 1.5).
const sessionContext = "Context"

// naming is what sessions are named for the site and term that they are opened
// in, so that a controller whose records are older can see that it is not the
// one that acts.
type naming struct {
	mu   sync.Mutex
	site string // empty when nobody has named it
	term uint64
	// keeps says whether the BMC keeps the name; shows is set when the session
	// that it opened last is of a kind that has one.
	keeps keepsNames
	shows bool
}

// keepsNames is what is known of a BMC and the names of sessions.
type keepsNames int

const (
	mayKeep keepsNames = iota // nothing is known, or what it said of its sessions tells that it may
	keepsThem
	keepsNone
)

// set takes in the site and the term.
func (n *naming) set(site string, term uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.site, n.term = site, term
}

func (n *naming) learn(k keepsNames) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keeps = k
}

func (n *naming) saw(shows bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shows = shows
}

// readable says whether the names of sessions may be read on the BMC.
func (n *naming) readable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keeps == keepsThem || n.keeps == mayKeep && n.shows
}

// get is the text for a session, empty for none.
func (n *naming) get() (text string, keeps keepsNames) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.site == "" {
		return "", n.keeps
	}
	return fmt.Sprintf("slipway:%s:%d", n.site, n.term), n.keeps
}

// mostTerms bounds by how much a term can be later: a daemon begins one at each
// start. A number beyond is not the work of a controller.
const mostTerms = 1_000_000

// outranks says whether the name of a session is that of a later term of the
// same site, which it gives.
func (n *naming) outranks(text string) (uint64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest, ours := strings.CutPrefix(text, "slipway:"+n.site+":")
	term, err := strconv.ParseUint(rest, 10, 64)
	return term, n.site != "" && ours && err == nil && term > n.term && term-n.term < mostTerms
}

// newSession logs in, with a name where the BMC is known to keep it. One that may
// keep it is asked to with a second login, once the first has succeeded: so a BMC
// that does not know the property costs no login.
func (c *client) newSession(ctx context.Context) (*gofish.Session, error) {
	name, keeps := c.named.get()
	if name != "" && keeps == keepsThem {
		s, _, err := c.openSession(ctx, name)
		if !hasStatus(err, http.StatusBadRequest) {
			return s, err
		}
		c.named.learn(keepsNone) // since an update of its firmware
	}
	s, made, err := c.openSession(ctx, "")
	c.named.saw(knowsContext(made))
	if err != nil || name == "" || keeps != mayKeep || !knowsContext(made) {
		return s, err
	}
	return c.renamed(ctx, s, name), nil
}

// knowsContext says whether a session as a BMC shows it is of a kind that has a
// context: it has the property, or its schema does.
func knowsContext(made object) bool {
	if _, shown := made[sessionContext]; shown {
		return true
	}
	kind := strings.Split(strings.TrimPrefix(at[string](made, "@odata.type"), "#"), ".")
	if len(kind) < 2 || kind[0] != "Session" {
		return false
	}
	version := strings.Split(strings.TrimPrefix(kind[1], "v"), "_")
	major, err := strconv.Atoi(version[0])
	if err != nil || len(version) < 2 {
		return false
	}
	minor, err := strconv.Atoi(version[1])
	return err == nil && (major > 1 || major == 1 && minor >= 5)
}

// renamed is a session with a name in the place of one without; that one itself
// where the BMC keeps no names, or has no room for another now.
func (c *client) renamed(ctx context.Context, s *gofish.Session, name string) *gofish.Session {
	other, made, err := c.openSession(ctx, name)
	switch {
	case errors.Is(err, driver.ErrBusy), errors.Is(err, driver.ErrUnreachable):
		return s
	case err != nil:
		c.named.learn(keepsNone)
		return s
	}
	keep, spare := other, s
	if c.named.learn(keepsThem); at[string](made, sessionContext) != name {
		c.named.learn(keepsNone)
		keep, spare = s, other
	}
	if in, err := c.connect(gofish.ClientConfig{Session: spare}); err == nil && spare.ID != "" {
		// What becomes of it is no reason to fail: the BMC forgets it by itself.
		_, _ = in.api.WithContext(ctx).Delete(spare.ID)
	}
	return keep
}

// Name implements driver.Namer.
func (m *machine) Name(site string, term uint64) { m.client.named.set(site, term) }

// mostSessions bounds how many sessions of a BMC are looked through.
const mostSessions = 64

// Outranked implements driver.Namer. A session that may not be read is another
// account's.
func (m *machine) Outranked(ctx context.Context) error {
	if !m.client.named.readable() || m.client.session() == "" {
		return nil
	}
	var found uint64
	err := m.client.members(ctx, path.Dir(m.client.session()), mostSessions, func(_ string, o object) {
		if term, later := m.client.named.outranks(at[string](o, sessionContext)); later {
			found = max(found, term)
		}
	})
	switch {
	case found > 0:
		return &driver.LaterTermError{Term: found, Host: m.client.host}
	case lasting(err):
		return nil
	}
	return err
}
