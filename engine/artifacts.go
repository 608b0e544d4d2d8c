package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Artifacts keeps the files that machines are installed from, and serves them. Its methods
// return at once.
type Artifacts interface {
	// Want sets the files to fetch from now on, the first one first.
	Want(files []artifact.File)
	// Retry fetches again, at once, the files that could not be fetched.
	Retry()
	// State returns the state of a file, by its SHA-256.
	State(sha256 string) artifact.State
	// Frames describes the frames made of a whole-disk image, by the image's SHA-256 and its
	// form; false while there are none.
	Frames(sha256, form string) (artifact.Info, bool)
	// Changes receives a value when the result of State or Serving may have changed.
	Changes() <-chan struct{}
	// Use notes that a file is needed now.
	Use(sha256 string)
	// Content returns the bytes of a stored file, and their number.
	Content(sha256 string) (io.ReadCloser, int64, error)
	// Serving returns nil while machines are served, or why they are not.
	Serving() error
	// URL returns a new URL for a file, for a machine whose controller is at host.
	URL(host, sha256 string) (string, error)
	// Towards returns the address of this host as seen from another.
	Towards(host string) (string, error)
	// Authority returns the SHA-256 of the certificate that an https server shows, "sha256:"
	// and hex digits; empty if the server uses http.
	Authority() string
	// Reaches reports whether a URL of an earlier start still leads here.
	Reaches(url string) bool
	// Grant serves a node its file; Revoke ends that.
	Grant(g artifact.Grant)
	Revoke(node string)
	// Reads returns what a node has read of its file.
	Reads(node string) (artifact.Reads, bool)
}

// fetched is the topic for a file that arrived or could not be fetched.
const fetched topic = "files"

// keepArtifacts lets the store fetch the files that the plans need, and wakes nodes that wait
// for a file.
func (e *Engine) keepArtifacts(ctx context.Context) {
	if e.Artifacts == nil || e.ObserveOnly {
		return
	}
	revision := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wants:
			files, applied := e.wantedFiles()
			if e.Artifacts.Want(files); applied != revision {
				revision = applied
				e.Artifacts.Retry() // the commit may fix what could not be fetched
			}
		case <-e.Artifacts.Changes():
			e.mu.Lock()
			e.wakeLocked(fetched)
			e.mu.Unlock()
			e.touch()
		}
	}
}

// wantedFiles returns the files that the plans of all nodes need, ordered by node.
func (e *Engine) wantedFiles() (files []artifact.File, applied string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range e.namesLocked() {
		for _, f := range e.workers[name].filesLocked() {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files, e.applied.ID
}

// filesLocked returns the files that the node's plan needs, its image first.
func (w *worker) filesLocked() (files []artifact.File) {
	if f, ok := w.fileLocked(); ok {
		files = append(files, f)
	}
	for _, s := range w.plan.Steps {
		files = append(files, w.contentsLocked(s)...)
	}
	return files
}

// contentsLocked returns the artifacts that a step puts into files of the system.
func (w *worker) contentsLocked(s site.Step) (files []artifact.File) {
	if !site.IsInside(s.Facet) || len(w.node.References.Artifacts) == 0 {
		return nil
	}
	for _, i := range w.memory.Observed.Facets[s.Facet].Resolve(w.node, s.Facet).Items {
		changes := func(c site.Change) bool {
			field := strings.TrimPrefix(c.Field, string(s.Facet)+".")
			return field == i.Key || field == item.Name(i.Key, "content")
		}
		if !slices.ContainsFunc(s.Changes, changes) {
			continue
		}
		for name, a := range w.node.References.Artifacts {
			isHere := func(f artifact.File) bool { return f.SHA256 == a.SHA256 }
			if slices.Contains(i.Artifacts(), a.SHA256) && !slices.ContainsFunc(files, isHere) {
				files = append(files, artifact.File{SHA256: a.SHA256, URL: a.URL, For: "artifact " + name})
			}
		}
	}
	slices.SortFunc(files, func(a, b artifact.File) int { return strings.Compare(a.For, b.For) })
	return files
}

// contentGate holds a step until the artifacts it puts into files are in the store.
func (e *Engine) contentGate(w *worker, s site.Step) *held {
	for _, f := range w.contentsLocked(s) {
		if e.Artifacts == nil {
			return &held{state: site.Blocked, sentence: f.For + " cannot be sent to the machine: this daemon has no artifact store"}
		}
		if state := e.Artifacts.State(f.SHA256); !state.Ready {
			return e.awaitFile(w, f.SHA256, f.For, state)
		}
		e.Artifacts.Use(f.SHA256)
	}
	return nil
}

// awaitFile holds a step until a file is in the store.
func (e *Engine) awaitFile(w *worker, digest, name string, state artifact.State) *held {
	e.waitLocked(w, fetched)
	w.awaits = digest
	signal(e.wants)
	h := fetching(name, state)
	h.detail = progress(state)
	return h
}

// fileLocked returns the image that the node is being, or will be, installed from.
func (w *worker) fileLocked() (artifact.File, bool) {
	r := w.memory.Recorded
	for _, s := range w.plan.Steps {
		if w.isServedLocked(s) && s.Image.SHA256 != "" {
			return artifact.File{SHA256: s.Image.SHA256, URL: s.Image.URL, Form: formOf(s.Image), For: imageName(s)}, true
		}
	}
	if i := r.Installing; i != nil && i.Served != "" {
		if image := w.e.design.Images[w.node.Image]; image != nil {
			if its := image.For(w.name, i.Generation); its.SHA256 == i.Image {
				return artifact.File{SHA256: i.Image, URL: its.URL, Form: formOf(its), For: "image " + w.node.Image}, true
			}
		}
	}
	return artifact.File{}, false
}

// formOf returns the format of a whole-disk image, which is served in frames; empty for other
// images.
func formOf(i *site.Image) string {
	if !i.IsDisk() {
		return ""
	}
	return i.Format
}

// fileOf returns the digest of the file that a machine gets for an image. For a whole-disk
// image that is its frames, which may not be there yet.
func (e *Engine) fileOf(i *site.Image) (sha256 string, ok bool) {
	if !i.IsDisk() {
		return i.SHA256, true
	}
	its, ok := e.Artifacts.Frames(i.SHA256, i.Format)
	return its.SHA256, ok
}

// isServedLocked reports whether the machine gets the image of a step from the daemon. A
// virtual machine's driver fetches the image itself. An installation that used its approval
// with the design's URL finishes with that URL.
func (w *worker) isServedLocked(s site.Step) bool {
	if s.Action != site.ActionInstall || s.Image == nil || w.node.IsVirtual() {
		return false
	}
	f := w.memory.Recorded.InFlight
	return !f.Is(s) || !f.Committed() || f.Served != ""
}

// imageName returns the image of a step in words.
func imageName(s site.Step) string {
	for _, c := range s.Changes {
		if c.Field == "image.name" {
			return "image " + c.Want
		}
	}
	return "the image"
}

// noteWantLocked triggers another check of the wanted files if this node's have changed.
func (w *worker) noteWantLocked() {
	if files := w.filesLocked(); !slices.Equal(files, w.wants) {
		w.wants = files
		signal(w.e.wants)
	}
}

// artifactGate holds an installation until its image is in the store and can be served to the
// machine. It holds any other step until the contents of its files are in the store.
func (e *Engine) artifactGate(w *worker, s site.Step) *held {
	if !w.isServedLocked(s) {
		return e.contentGate(w, s)
	}
	image, name := s.Image, imageName(s)
	switch {
	case e.Artifacts == nil:
		return &held{state: site.Blocked, sentence: name + " cannot be served: this daemon has no artifact store"}
	case image.SHA256 == "":
		return &held{state: site.Blocked, person: true, release: "a commit that gives the digest",
			sentence: fmt.Sprintf("%s has no digest of the file for %s, and Slipway installs no file of unknown content", name, w.name)}
	}
	state := e.Artifacts.State(image.SHA256)
	digest, ok := e.fileOf(image)
	if !state.Ready || !ok {
		return e.awaitFile(w, image.SHA256, name, state)
	}
	if err := e.Artifacts.Serving(); err != nil {
		e.waitLocked(w, fetched)
		h := &held{state: site.Blocked, sentence: retry.Steady(err)}
		if errors.Is(err, artifact.ErrOff) {
			h.person, h.release = true, "`slipway run` with --artifact-listen ADDRESS"
			h.sentence += ", and machines are installed only from images that the daemon has verified; start it with --artifact-listen :9480, or an address that the BMCs reach"
		}
		return h
	}
	e.Artifacts.Use(image.SHA256)
	e.Artifacts.Use(digest)
	return nil
}

// fetching says why an image is not in the store yet.
func fetching(name string, s artifact.State) *held {
	switch {
	case s.Framing || s.Ready:
		return &held{state: site.Progressing, sentence: name + " is being prepared for writing", release: "nothing: it needs time"}
	case s.Why == "":
		return &held{state: site.Progressing, sentence: name + " is being fetched", release: "nothing: it needs time"}
	}
	h := &held{state: site.Blocked, sentence: fmt.Sprintf("%s could not be fetched: %s", name, s.Why), person: s.Person}
	if s.Person {
		h.release = "a corrected commit or file; `slipway retry` fetches it at once"
	}
	return h
}

// progress says how far a fetch has got.
func progress(s artifact.State) string {
	switch {
	case s.Framing:
		return artifact.Bytes(s.Have) + " written to the artifact store"
	case s.Fetching && s.Size > 0:
		return fmt.Sprintf("%d %%, %s of %s, from %s", s.Have*100/s.Size, artifact.Bytes(s.Have), artifact.Bytes(s.Size), s.From)
	case s.Fetching:
		return fmt.Sprintf("%s, from %s", artifact.Bytes(s.Have), s.From)
	case !s.Retry.IsZero():
		return "next try at " + s.Retry.Format(time.TimeOnly)
	}
	return "others are fetched first"
}

// refreshLocked returns the node's status with the present progress of its image's fetch, or
// of what its step waits for.
func (w *worker) refreshLocked() site.NodeStatus {
	s := w.status
	if w.wait != nil {
		s.Detail = w.wait.At(time.Now())
	}
	if w.awaits != "" && w.e.Artifacts != nil {
		if state := w.e.Artifacts.State(w.awaits); !state.Ready {
			s.Detail = progress(state)
		}
	}
	return s
}

// artifactNoteLocked returns what a person should know about the node's image besides its
// state; empty if nothing.
func (w *worker) artifactNoteLocked() string {
	if w.e.Artifacts == nil {
		return ""
	}
	for _, f := range w.filesLocked() {
		if s := w.e.Artifacts.State(f.SHA256); !s.Ready && s.Why != "" {
			return fmt.Sprintf("%s could not be fetched: %s", f.For, s.Why)
		}
	}
	i := w.memory.Recorded.Installing
	if i == nil || i.Served == "" || time.Since(i.Since) < unreadAfter {
		return ""
	}
	if r, ok := w.e.Artifacts.Reads(w.name); ok && r.Requests == 0 {
		u, err := url.Parse(i.Served)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("nothing has read the installer's image since the machine should have booted it: check that the BMC reaches %s, "+
			"or name with --artifact-url an address that it can reach", u.Host)
	}
	return ""
}

// unreadAfter is when Slipway points out that a machine has read nothing of its image.
// Firmware takes minutes to get there.
const unreadAfter = 10 * time.Minute

// serveURL returns the URL at which the machine gets the image of a step. It keeps the URL of
// an earlier try while that still leads here, since a driver identifies its medium by the URL.
// It is empty if the machine gets the image from the design's URL.
func (w *worker) serveURL(j job, s site.Step) (string, error) {
	w.e.mu.Lock()
	served := w.isServedLocked(s)
	f, a := w.memory.Recorded.InFlight, w.e.agentOf(w.name)
	w.e.mu.Unlock()
	switch {
	case !served:
		return "", nil
	case s.Resumed && w.e.Artifacts.Reaches(f.Served):
		return f.Served, nil
	}
	if s.ByAgent() {
		if a == nil {
			return "", fmt.Errorf("%w: no agent of %s is connected", driver.ErrUnreachable, w.name)
		}
		digest, ok := w.e.fileOf(s.Image)
		if !ok {
			return "", fmt.Errorf("%w: the image is not prepared for writing", driver.ErrBusy)
		}
		return w.e.Artifacts.URL(a.Host(), digest)
	}
	bmc, err := url.Parse(j.node.Endpoints[site.Manager].URL)
	if err != nil {
		return "", fmt.Errorf("read the URL of the BMC: %w", err)
	}
	return w.e.Artifacts.URL(bmc.Hostname(), s.Image.SHA256)
}

// withServed returns a step as the driver gets it: with the served URL in place of the
// design's.
func withServed(s site.Step, r site.Recorded) site.Step {
	if b := r.Agent; s.Action == site.ActionStartAgent && b != nil {
		if b.Network {
			return s
		}
		s.Image = &site.Image{URL: b.Served, SHA256: b.Medium}
		return s
	}
	if f := r.InFlight; s.Action == site.ActionInstall && f != nil && f.Served != "" && s.Image != nil {
		image := *s.Image
		image.URL = f.Served
		s.Image = &image
	}
	return s
}

// grantLocked serves the machine its image while it is being installed, and at no other time.
// Everything follows from the records.
func (w *worker) grantLocked() {
	w.expectAgentLocked()
	if w.e.Artifacts == nil {
		return
	}
	r := w.memory.Recorded
	switch i := r.Installing; {
	case r.InFlight != nil && r.InFlight.Served != "":
		digest, _ := w.e.fileOf(r.InFlight.Step.Image) // nothing is served while it is missing
		w.e.Artifacts.Grant(artifact.Grant{Node: w.name, SHA256: digest, URL: r.InFlight.Served})
	case i != nil && i.Served != "" && i.Ended.IsZero() && i.CutOff == "":
		w.e.Artifacts.Grant(artifact.Grant{Node: w.name, SHA256: i.Image, URL: i.Served})
	default:
		w.e.Artifacts.Revoke(w.name)
	}
}

// withoutToken removes the token of the served URL from a driver's error, whose text may
// repeat what a BMC says.
func withoutToken(err error, r site.Recorded) error {
	if err == nil {
		return nil
	}
	if r.InFlight != nil {
		err = withoutTokenOf(err, r.InFlight.Served)
	}
	if r.Agent != nil {
		err = withoutTokenOf(err, r.Agent.Served)
	}
	return err
}

func withoutTokenOf(err error, served string) error {
	if served == "" {
		return err
	}
	parts := strings.Split(served, "/")
	token := parts[max(0, len(parts)-2)]
	if !strings.Contains(err.Error(), token) {
		return err
	}
	return &redacted{err, strings.ReplaceAll(err.Error(), token, "…"), strings.ReplaceAll(driver.PlainOf(err), token, "…")}
}

// redacted is an error with another text.
type redacted struct {
	error
	text, plain string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Plain() string { return r.plain }
func (r *redacted) Unwrap() error { return r.error }

// NamedFiles returns the digests of files that the design in force names or that an
// installation under way needs.
func (e *Engine) NamedFiles() (map[string]bool, error) {
	select {
	case <-e.ready:
	default:
		return nil, errors.New("the daemon is still reading its records")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil {
		return nil, errors.New("no design is in force yet")
	}
	named := e.design.FileDigests()
	if e.Agents != nil {
		named[e.Agents.Medium()] = true
	}
	for _, w := range e.workers {
		r := w.memory.Recorded
		if r.Agent.IsOn() {
			named[r.Agent.Medium] = true // the agent reads programs from it
		}
		if r.InFlight != nil && r.InFlight.Step.Image != nil {
			named[r.InFlight.Step.Image.SHA256] = true
		}
		if r.Installing != nil {
			named[r.Installing.Image] = true
		}
	}
	return named, nil
}
