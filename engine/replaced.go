package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// Whether the secrets of an incident are replaced. A person gives a secret its new value; Slipway compares what its
// source has with what the affected nodes had, and looks who was seen with it. It sets no value for an incident: what a
// changed value does to other nodes is planned, gated and rolled out as ever.

// replacedEvery is how often the sources of secrets are read while an incident is not over.
const replacedEvery = 30 * time.Second

// Presenter is an optional interface of Secrets: it tells versions of values without sending them.
type Presenter interface {
	// Present returns the version of a credential's present value, see secret.Store.
	Present(name string, of secret.Of, by secret.Versions) (secret.Present, error)
}

// presentKey names a value: of a credential, and for a derived one of a node.
type presentKey struct{ credential, node string }

// keepReplaced follows the secrets of incidents until ctx ends.
func (e *Engine) keepReplaced(ctx context.Context) {
	for {
		e.readPresent(ctx, e.followed())
		e.setProblem("secrets of incidents", errors.Join(e.noteReplaced(ctx), e.forgetDelivered(ctx)))
		select {
		case <-ctx.Done():
			return
		case <-e.exposed:
		case <-time.After(replacedEvery):
		}
	}
}

// followed are the values that the incidents of this moment are about, with what each is derived from.
func (e *Engine) followed() map[presentKey]secret.Of {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[presentKey]secret.Of{}
	for _, i := range e.incidents {
		if e.design == nil || i.Acted.IsZero() || !i.Follows || i.IsOver() {
			continue
		}
		for _, x := range i.Exposed {
			name := site.CredentialOf(x.Secret)
			d, derived := e.design.Credentials[name].Derived()
			switch {
			case name == "":
			case !derived:
				all[presentKey{name, ""}] = secret.Of{}
			default:
				for _, node := range x.Nodes {
					if n := e.design.Nodes[node]; n != nil {
						all[presentKey{name, node}] = secret.Of{Derived: d, Machine: n.DerivedFrom()}
					}
				}
			}
		}
	}
	return all
}

// readPresent reads what the sources of secrets have, and forgets what no incident follows: for a later one it would be
// old.
func (e *Engine) readPresent(ctx context.Context, asked map[presentKey]secret.Of) {
	e.forgetPresent(asked)
	from, can := e.Secrets.(Presenter)
	for key, of := range asked {
		if ctx.Err() != nil {
			return
		}
		is := incident.Present{Err: "this daemon has no credentials"}
		if can {
			p, err := from.Present(key.credential, of, e.versions)
			is = incident.Present{Version: p.Version, Key: p.Key}
			if err != nil {
				is = incident.Present{Err: site.Printable(retry.Steady(err))}
			}
		}
		e.setPresent(key, is)
	}
}

func (e *Engine) forgetPresent(asked map[presentKey]secret.Of) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.present, func(key presentKey, _ incident.Present) bool {
		_, is := asked[key]
		return !is
	})
}

func (e *Engine) setPresent(key presentKey, is incident.Present) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.present[key] != is {
		e.present[key] = is
		e.touch()
	}
}

// secretFactsLocked is what incidents are judged by. It is read before the lock is given up.
func (e *Engine) secretFactsLocked() incident.Facts {
	return incident.Facts{
		Now: time.Now(), Delivered: e.deliveredLocked(), LoginLife: sshca.Longest,
		Present: func(credential, node string) (incident.Present, bool) {
			c := e.design.Credentials[credential]
			if _, derived := c.Derived(); !derived {
				node = ""
			} else if e.design.Nodes[node] == nil {
				return incident.Present{Err: node + " has left the design"}, true
			}
			p, is := e.present[presentKey{credential, node}]
			return p, is
		},
		Certified: func(node, name string) (until time.Time) {
			if w := e.workers[node]; w != nil {
				for _, c := range w.memory.Recorded.TLS {
					if c.Name == name && c.Until.After(until) {
						until = c.Until
					}
				}
			}
			return until
		},
		Installed: func(node string, n site.IncidentNode) *site.Installation {
			if w := e.workerOfLocked(node, n); w != nil {
				return w.memory.Recorded.Installed
			}
			return nil
		},
	}
}

// noteReplaced records what incidents have to keep about their secrets, and which are all clear.
func (e *Engine) noteReplaced(ctx context.Context) error {
	e.handling.Lock()
	defer e.handling.Unlock()
	for _, i := range e.judgedIncidents() {
		if err := e.putIncident(ctx, i); err != nil {
			return err
		}
		if !i.Clear.IsZero() {
			e.note(site.Event{Kind: site.EventOrder, Text: fmt.Sprintf("incident %s is all clear: all nodes are released, all secrets replaced", i.Name)})
		}
	}
	return nil
}

// judgedIncidents are those of which there is something new to record.
func (e *Engine) judgedIncidents() (all []site.IncidentState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil {
		return nil
	}
	f := e.secretFactsLocked()
	for _, id := range slices.Sorted(maps.Keys(e.incidents)) {
		i := e.incidents[id]
		if i.Acted.IsZero() || !i.Follows || i.IsOver() {
			continue
		}
		was := i.Exposed
		i.Exposed = incident.Noted(e.design, &i, f)
		judged := incident.Judged(e.design, &i, f)
		if !reflect.DeepEqual(e.judged[id], judged) {
			e.judged[id] = judged
			e.touch()
		}
		if incident.AllClear(&i, judged) {
			i.Exposed, i.Clear = judged, f.Now
		}
		if !i.Clear.IsZero() || !reflect.DeepEqual(was, i.Exposed) {
			all = append(all, i)
		}
	}
	return all
}

// endIncident ends an incident of which secrets are not known to be replaced, by the decision of a person.
func (e *Engine) endIncident(ctx context.Context, o site.Order) (string, error) {
	i, known := e.judgedIncident(o.Digest)
	switch {
	case !known:
		return "", fmt.Errorf("%w: no incident has the ID %s: `slipway incident` lists them", site.ErrNotFound, o.Digest)
	case o.Reason == "":
		return "", fmt.Errorf("%w: say why incident %s can end although not all of its secrets are known to be replaced (--reason): whoever reads this later will want to know", site.ErrRefused, i.Name)
	case i.Acted.IsZero():
		return "", fmt.Errorf("%w: Slipway has not acted on incident %s, so there is nothing to end: to withdraw it, remove its lines from the design", site.ErrRefused, i.Name)
	case !i.IsReleased():
		return "", fmt.Errorf("%w: incident %s still holds %s: release each node first, with `slipway release NODE --incident %[2]s`", site.ErrRefused, i.Name, say.Some(i.Unreleased(), 10))
	case i.IsOver():
		return "", fmt.Errorf("%w: incident %s is over: %s", site.ErrRefused, i.Name, i.Verdict())
	}
	i.Ended, i.EndedBy, i.EndedBecause = time.Now(), o.By, o.Reason
	if err := e.putIncident(ctx, i); err != nil {
		return "", err
	}
	return fmt.Sprintf("incident %s: %s", i.Name, i.Verdict()), nil
}

// judgedIncident is an incident with what is known of its secrets now.
func (e *Engine) judgedIncident(id string) (i site.IncidentState, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, known = e.incidents[id]
	if known && e.design != nil {
		i.Exposed = e.judgedLocked(&i)
	}
	return i, known
}

// exposedTo are the secrets that the nodes of an incident could read at the time at which Slipway acts.
func (e *Engine) exposedTo(i site.IncidentState) []site.Exposed {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil {
		return nil
	}
	return incident.Begun(e.design, &i, e.secretFactsLocked())
}

// withoutVersions is what people are shown of secrets: versions are for the records.
func withoutVersions(all []site.Exposed) []site.Exposed {
	all = slices.Clone(all)
	for at := range all {
		all[at].Had = nil
	}
	return all
}

// judgedLastLocked is that as it was judged last, at most replacedEvery ago. A status is made often, and to judge anew
// goes through the whole site.
func (e *Engine) judgedLastLocked(i *site.IncidentState) []site.Exposed {
	if i.Acted.IsZero() || !i.Follows || i.IsOver() {
		return i.Exposed
	}
	if _, is := e.judged[i.ID]; !is {
		e.judged[i.ID] = e.judgedLocked(i)
	}
	return e.judged[i.ID]
}

// judgedLocked is what an incident notes about secrets, with what is known of their replacement now.
func (e *Engine) judgedLocked(i *site.IncidentState) []site.Exposed {
	if i.Acted.IsZero() || !i.Follows || i.IsOver() {
		return i.Exposed
	}
	return incident.Judged(e.design, i, e.secretFactsLocked())
}
