package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// prepare tells the agent what to install: exactly what was approved. It records the marker first,
// so every try uses the same one.
func (w *worker) prepare(ctx context.Context, m driver.Machine, j job, s site.Step) error {
	to, ok := driver.As[driver.Installer](m)
	if !s.ByAgent() || !ok {
		return nil
	}
	r := w.job().memory.Recorded
	untouched := "; nothing was erased"
	if r.AgentWorks() { // by an earlier try
		untouched = ""
	}
	l, err := w.approvedLayout(j, s, r.InFlight, untouched)
	if err != nil {
		return err
	}
	is := driver.Installation{Layout: l, Medium: r.Agent.Ramdisk(), Limit: agentLimit(j), Erased: r.ErasedIn(s)}
	if s.Retires() {
		is.Marker = fmt.Sprintf("erase %d %s", s.Attempt, s.Records)
	} else if err := w.addSystem(ctx, &is, j, s, r.InFlight, untouched); err != nil {
		return err
	}
	if !is.Passphrase.IsZero() {
		if err := w.deliver(ctx, j.node, site.ToSystem, site.SecretDiskPassphrase, is.Passphrase); err != nil {
			return err
		}
	}
	to.Prepare(is)
	return w.save(ctx, func(r *site.Recorded) {
		var unseen []string
		if s.Retires() {
			unseen = plan.UnseenDisks(w.job().memory.Observed)
		}
		r.NoteErasing(s, l, unseen, time.Now())
	})
}

// approvedLayout returns the layout of the machine's disks, or an error if it is not the approved
// one.
func (w *worker) approvedLayout(j job, s site.Step, f *site.InFlight, untouched string) (item.Layout, error) {
	l, wrong, known := plan.Layout(s.Of(j.node), w.job().memory.Observed)
	switch {
	case !f.Is(s):
		return l, fmt.Errorf("%w: the step is not recorded as begun", driver.ErrInterrupted)
	case s.Retires() != j.node.Retires():
		return l, fmt.Errorf("%w: the design no longer asks for what this step began with", driver.ErrRefused)
	case !s.Retires() && !j.node.References.ByAgent:
		return l, fmt.Errorf("%w: the design names an image of another kind than the one that this installation began with", driver.ErrRefused)
	case !known:
		return l, fmt.Errorf("%w: the agent has not reported the disks of the machine yet", driver.ErrInterrupted)
	case len(wrong) > 0:
		return l, fmt.Errorf("%w: %s%s", driver.ErrRefused, wrong[0].Message, untouched)
	}
	if why := plan.NotApproved(s, f.FirstBoot.Design, j.node, w.job().memory.Observed); why != "" {
		return l, fmt.Errorf("%w: %s%s", driver.ErrRefused, why, untouched)
	}
	return l, nil
}

// addSystem adds the system to install: its marker, its image and the facets to configure.
func (w *worker) addSystem(ctx context.Context, is *driver.Installation, j job, s site.Step, f *site.InFlight, untouched string) error {
	var err error
	if is.Marker, err = w.recordedMarker(ctx, j, s, f); err != nil {
		return err
	}
	digest, ok := w.e.fileOf(s.Image)
	if !ok {
		return fmt.Errorf("%w: the frames of the image are no longer in the artifact store%s", driver.ErrBusy, untouched)
	}
	image, size, err := w.e.Artifacts.Content(digest)
	if err != nil {
		return fmt.Errorf("%w: the image cannot be read in the artifact store: %w%s", driver.ErrBusy, err, untouched)
	}
	image.Close()
	if is.Passphrase, is.Derived, err = w.e.diskPassphrase(j.site.Name, j.node, is.Layout); err != nil {
		return fmt.Errorf("%w: %w%s", driver.ErrRefused, err, untouched)
	}
	is.SHA256, is.Bytes, is.URL, is.CA = digest, size, f.Served, w.e.Artifacts.Authority()
	is.Facets = w.installedFacets(j, s)
	return nil
}

// diskPassphrase returns the passphrase of the encrypted volumes of a layout, and what it is derived from; zero if
// the layout has none.
func (e *Engine) diskPassphrase(siteName string, n *site.Node, l item.Layout) (secret.Value, item.DerivedFrom, error) {
	switch {
	case len(l.Encrypted) == 0:
		return secret.Value{}, item.DerivedFrom{}, nil
	case e.Key == nil:
		return secret.Value{}, item.DerivedFrom{}, errors.New("the passphrase of encrypted disks is derived from the site key, and there is none")
	}
	of := item.DerivedFrom{Site: siteName, Machine: strings.ToLower(n.Machine().UUID), Generation: n.Generation, Key: e.Key.Public()}
	passphrase, err := derived.OfDisks(e.Key, of.Site, of.Machine, of.Generation)
	if err != nil {
		return passphrase, of, fmt.Errorf("the passphrase of encrypted disks cannot be derived: %w", err)
	}
	return passphrase, of, nil
}

// recordedMarker returns the marker of an installation: the one that an earlier try recorded, or a
// new one that it records first.
func (w *worker) recordedMarker(ctx context.Context, j job, s site.Step, f *site.InFlight) (string, error) {
	if f.Marker != "" {
		return f.Marker, nil
	}
	text, token, err := w.markerOf(j, s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return text, w.save(ctx, func(r *site.Recorded) {
		if r.InFlight == nil {
			return
		}
		begun := *r.InFlight
		begun.Marker, begun.FirstBoot = text, site.FirstBoot{Tokens: []string{token}, Design: plan.LaidOut(j.node)}
		r.InFlight = &begun
	})
}

// installedFacets returns the facets that the agent configures in the system it installs.
func (w *worker) installedFacets(j job, s site.Step) (facets []site.Facet) {
	for _, facet := range site.InsideFacets {
		reaches := facet == site.FacetBase || facet == site.FacetNetwork // a system on a whole disk configures the others itself
		if w.e.serves[facet] && j.node.Asks(facet) && !site.Facets[facet].Once && (reaches || !s.Image.IsDisk()) {
			facets = append(facets, facet)
		}
	}
	return facets
}

// longestErase is the extra time for an installation that first erases the disks. Overwriting a
// large disk takes a day or two.
const longestErase = 7 * 24 * time.Hour

// agentLimit returns how long the agent may take to install.
func agentLimit(j job) time.Duration {
	if j.node.Storage.Erase != "" || j.node.Retires() {
		return installTimeout(j) + longestErase
	}
	return installTimeout(j)
}

// noteErased records the result of erasing a disk, immediately.
func (w *worker) noteErased(ctx context.Context, s site.Step, d item.Erasure) {
	if err := w.save(context.WithoutCancel(ctx), func(r *site.Recorded) { r.NoteErased(s, d, time.Now()) }); err != nil {
		w.e.Log.Warn("the result of erasing a disk could not be recorded", "node", w.name, "disk", d.ID(), "err", err)
	}
}

// markerOf returns the marker of an installation and the digest of its token. The site key signs
// the marker; without a key the token is random.
func (w *worker) markerOf(j job, s site.Step) (text, token string, err error) {
	m := site.Marker{Site: j.site.Name, Node: j.node.Name, Machine: s.Machine, Generation: s.Generation, Image: s.Image.SHA256,
		Attempt: s.Attempt, Term: w.e.termNumber(), Token: rand.Text()}
	if w.e.Key != nil {
		if m.Token, err = w.e.Key.Token(m); err != nil {
			return "", "", fmt.Errorf("marker of %s: %w", w.name, err)
		}
	}
	made, err := json.Marshal(m)
	return string(made) + "\n", site.TokenDigest(m.Token), err
}

// noteInstallFailed counts an installation that the agent tried and that failed. If only the
// connection was lost, the installation may still be running, so it does not count.
func noteInstallFailed(r *site.Recorded, s site.Step, err error) {
	if !s.ByAgent() || r.Agent == nil || !r.AgentWorks() || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrInterrupted) || errors.Is(err, driver.ErrBusy) {
		return
	}
	b := *r.Agent
	b.Failed++
	b.Why = verdict(err)
	r.Agent = &b
}
