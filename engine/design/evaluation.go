package design

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// evaluation is one evaluation of a site. Workers turn its text into layers,
// and the rest, without CUE, happens here. Where possible it evaluates only
// what is new to its memory.
type evaluation struct {
	*memory
	ask asker
	// most limits how many values the nodes may have together.
	most int64
	// atOnce is how many requests and nodes it works on at a time.
	atOnce int
	now    time.Time
	// explain names the node to explain; empty for none.
	explain string
	// tolerated are the codes of errors that do not withhold the site.
	tolerated []string
	// by holds the rules to check the site against; nil for the site's own.
	by *ruling
	// undivided evaluates the package as a whole.
	undivided bool
}

// asker returns the outcome of a request. Its error is a fatal when it is about
// the design.
type asker func(context.Context, request) ([]byte, error)

// fatal is a finding that excludes all others.
type fatal struct{ site.Finding }

func (f fatal) Error() string { return f.Message }

// chunkSize is how many nodes are evaluated together. For twice as many, CUE
// takes more than twice the time and memory.
const chunkSize = 125

// run evaluates a pack.
func (e *evaluation) run(ctx context.Context, p pack) (Result, error) {
	r, err := e.evaluate(ctx, p)
	if f := (fatal{}); errors.As(err, &f) {
		return Result{Findings: []site.Finding{f.Finding}}, nil
	}
	if err != nil {
		return r, err
	}
	return e.withSecrets(p, r), nil
}

func (e *evaluation) evaluate(ctx context.Context, p pack) (Result, error) {
	d, err := e.divide(ctx, p)
	if err != nil {
		return Result{}, err
	}
	r, done := Result{}, false
	if d != nil && !e.undivided {
		r, done, err = e.inParts(ctx, d)
	}
	if !done && err == nil {
		p.entangled = d == nil
		r, err = e.whole(ctx, p)
	}
	if r.Site != nil {
		r.Site.Ruling = rulingOf(p, d)
	}
	return r, err
}

// divide divides a package. It returns nil when it cannot.
func (e *evaluation) divide(ctx context.Context, p pack) (*division, error) {
	files, ok := mainFiles(p)
	if _, hasModule := p.files[moduleFile]; !ok || !hasModule {
		return nil, nil
	}
	e.read(p)
	all, present, unknown := map[string]*outline{}, map[digest]bool{}, []string{}
	for _, name := range files {
		text := e.digestOf(name)
		present[text] = true
		if o := e.outlines[text]; o != nil {
			all[name] = o
		} else {
			unknown = append(unknown, name)
		}
	}
	err := e.eachPart(unknown, (len(unknown)+e.atOnce-1)/e.atOnce, func(part []string) (func(), error) {
		found, err := e.outline(ctx, p, part)
		return func() {
			for name, o := range found {
				o.settle(p.files[name])
				all[name] = o
				e.outlines[e.digestOf(name)] = o
			}
		}, err
	})
	if err != nil {
		return nil, err
	}
	e.keepOutlines(present)
	d := divide(p, files, all, e.division)
	if d != nil {
		e.take(d)
	}
	return d, nil
}

// outline returns the outlines of files.
func (e *evaluation) outline(ctx context.Context, p pack, files []string) (map[string]*outline, error) {
	texts, amended := map[string][]byte{}, map[string]*amendment{}
	for _, name := range files {
		texts[name] = p.files[name]
		if a := e.division.amendment(name, p.files[name]); a != nil {
			texts[name], amended[name] = a.text, a
		}
	}
	found, err := e.askOutlines(ctx, p, texts)
	if err != nil {
		return nil, err
	}
	whole := map[string][]byte{}
	for name, a := range amended {
		if o := a.outline(found[name]); o != nil {
			found[name] = o
		} else {
			whole[name] = p.files[name]
		}
	}
	if len(whole) > 0 {
		more, err := e.askOutlines(ctx, p, whole)
		maps.Copy(found, more)
		return found, err
	}
	return found, nil
}

func (e *evaluation) askOutlines(ctx context.Context, p pack, texts map[string][]byte) (map[string]*outline, error) {
	only := p
	only.files, only.data = maps.Clone(texts), nil
	only.files[moduleFile] = p.files[moduleFile]
	text, err := e.ask(ctx, request{ask: askOutline, pack: only})
	if err != nil {
		return nil, err
	}
	found := map[string]*outline{}
	return found, json.Unmarshal(text, &found)
}

// eachPart works on parts of a list, several at a time. It calls the functions
// that work returns one at a time.
func (e *evaluation) eachPart(list []string, size int, work func([]string) (func(), error)) error {
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(e.atOnce)
	for part := range slices.Chunk(list, max(1, size)) {
		all.Go(func() error {
			keep, err := work(part)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				keep()
			}
			return err
		})
	}
	return all.Wait()
}

func (e *evaluation) askExtract(ctx context.Context, p pack) (extract, error) {
	text, err := e.ask(ctx, request{ask: askExtract, pack: p})
	if err != nil {
		return extract{}, err
	}
	d := newDecoder(text)
	x := d.extract()
	if d.err != nil {
		return x, d.err
	}
	return x, x.crowded()
}

// maxEntries limits how many entries a section may have. Some rules compare
// each entry with each other one, in this process, without a time limit.
const maxEntries = 5000

// crowded returns the fatal finding for a section with too many entries.
func (x *extract) crowded() error {
	for _, s := range sections {
		if t := x.sections[s.name]; s.many && t != nil && len(t.fields) > maxEntries {
			return fatal{site.Finding{
				Code: "too-large", Severity: site.SeverityError,
				Message: fmt.Sprintf("`%s` has more than %d entries", s.name, maxEntries),
				Why:     "Evaluation is limited so that no commit can stop the daemon.",
				Fix:     "Divide the site, or look for a comprehension that creates too many.",
			}}
		}
	}
	return nil
}

// whole evaluates a package as a whole.
func (e *evaluation) whole(ctx context.Context, p pack) (Result, error) {
	x, err := e.askExtract(ctx, p)
	if err != nil {
		return Result{}, err
	}
	if x.unread {
		return Result{Findings: limit(x.findings)}, nil
	}
	kept := newMemory()
	kept.shared = sharedOf(p.site, &x)
	here := *e
	here.memory = kept
	var all []lazyLayer
	for _, l := range x.nodes {
		all = append(all, func() layer { return l })
	}
	return here.conclude(ctx, all, func() pack { return p })
}

// inParts evaluates a divided package. It returns false when the result would
// be incomplete.
func (e *evaluation) inParts(ctx context.Context, d *division) (Result, bool, error) {
	if ok, err := e.renewShared(ctx, d); !ok || err != nil {
		return Result{}, false, err
	}
	ok, err := e.renewOwn(ctx, d)
	if !ok || err != nil {
		return Result{}, false, err
	}
	if _, known := e.own[e.explain]; known {
		e.remake(e.explain)
	}
	var changed []lazyLayer
	for name := range e.unmade {
		changed = append(changed, e.own[name].layer)
	}
	r, err := e.conclude(ctx, changed, d.sharedPack)
	return r, true, err
}

// renewShared evaluates what nodes share, if it changed.
func (e *evaluation) renewShared(ctx context.Context, d *division) (bool, error) {
	if e.shared != nil && e.digest == d.shared {
		return true, nil
	}
	x, err := e.askExtract(ctx, d.sharedPack())
	if err != nil || x.unread || x.cutShared {
		return false, err
	}
	last := e.shared
	e.shared, e.digest = sharedOf(d.pack.site, &x), d.shared
	if last.gives(e.shared) {
		e.remakeSpoken()
	} else {
		e.forget()
	}
	return true, nil
}

// renewOwn evaluates the own layers of the nodes that changed.
func (e *evaluation) renewOwn(ctx context.Context, d *division) (bool, error) {
	changed := e.changed(d)
	good := true
	err := e.eachPart(d.inOrder(changed), chunkSize, func(part []string) (func(), error) {
		x, err := e.askExtract(ctx, d.nodesPack(part))
		return func() {
			if x.unread || x.cutShared || x.lost || !d.attribute(&x) {
				good = false
				return
			}
			for _, l := range x.nodes {
				e.put(l.name, ownLayer{d.seen, d.nodes[l.name], codeOf(l)})
			}
		}, err
	})
	return good, err
}

// changed lists the nodes whose own layers need evaluation, and forgets nodes
// that no longer exist.
func (e *evaluation) changed(d *division) []string {
	var changed []string
	for name := range e.stale {
		from := d.nodes[name]
		l, known := e.own[name]
		switch {
		case from == nil:
			e.drop(name)
		case known && l.seen == d.seen && sameText(l.from, from):
			l.from = from // otherwise the outline of an old text would be kept
			e.own[name] = l
			delete(e.stale, name)
		default:
			changed = append(changed, name)
		}
	}
	return changed
}

// batchSize is how many nodes are made effective together, to limit the memory
// for their layers.
const batchSize = 1000

// conclude makes layers effective and returns the result for the site. p gives
// the pack that has the site's own constraints.
func (e *evaluation) conclude(ctx context.Context, changed []lazyLayer, p func() pack) (Result, error) {
	for batch := range slices.Chunk(changed, batchSize) {
		if err := e.renew(ctx, batch, p); err != nil {
			return Result{}, err
		}
	}
	r := e.collate()
	if n := e.nodes[e.explain]; n != nil {
		n.shed()
	}
	return r, nil
}

// lazyLayer makes a layer when it is needed.
type lazyLayer func() layer

// renew remakes nodes.
func (e *evaluation) renew(ctx context.Context, batch []lazyLayer, p func() pack) error {
	fresh, err := e.merge(batch)
	if err != nil {
		return err
	}
	if e.shared.constrains() {
		if err := e.judge(ctx, p(), fresh, e.constrained); err != nil {
			return err
		}
	}
	if e.by != nil {
		if err := e.judge(ctx, e.by.pack, fresh, ruled); err != nil {
			return err
		}
	}
	e.eachNode(len(fresh), func(i int) { e.shared.check(fresh[i]) })
	for _, n := range fresh {
		e.made(n)
		if n.name != e.explain {
			n.shed()
		}
	}
	return nil
}

// merge makes nodes of layers. It stops when they have too many values: a few
// bytes from a worker can give each of many nodes many values.
func (e *evaluation) merge(changed []lazyLayer) ([]*node, error) {
	var left atomic.Int64
	left.Store(e.most - e.size)
	fresh := make([]*node, len(changed))
	e.eachNode(len(changed), func(i int) {
		if left.Load() >= 0 {
			fresh[i] = e.shared.merge(changed[i]())
			left.Add(-fresh[i].size)
		}
	})
	if left.Load() >= 0 {
		return fresh, nil
	}
	return nil, fatal{site.Finding{
		Code: "too-large", Severity: site.SeverityError,
		Message: fmt.Sprintf("the nodes of the design have more than %d values together", e.most),
		Why:     "Evaluation is limited so that no commit can stop the daemon.",
		Fix:     "Look for profiles with many values that many nodes have, or divide the site.",
	}}
}

// eachNode works on nodes, several at a time.
func (e *evaluation) eachNode(n int, work func(i int)) {
	const batch = 16
	var all errgroup.Group
	all.SetLimit(e.atOnce)
	for from := 0; from < n; from += batch {
		all.Go(func() error {
			for i := from; i < min(n, from+batch); i++ {
				work(i)
			}
			return nil
		})
	}
	_ = all.Wait() // no job returns an error
}

// collate combines the results of the site and its nodes.
func (e *evaluation) collate() Result {
	s := *e.shared.site
	s.Nodes = maps.Clone(e.effective)
	broken := e.broken > 0
	all := findings{}
	all.add(e.shared.findings...)
	for _, name := range e.spoken.sorted() {
		all.add(e.nodes[name].findings...)
	}
	if !e.shared.lost && len(e.shared.data) > 0 {
		all.add(e.shared.strangers(s.Nodes, s.NodeNames())...)
	}
	if !broken {
		all.add(e.shared.vainProfiles(s.Nodes)...)
	}
	switch {
	case e.shared.lost:
		all.add(unchecked)
	case broken:
		all.add(uncompared)
	default:
		all.add(e.fleet.Check(&s)...)
	}
	all.add(rule.LongPauses(e.paused, e.now)...)
	all.add(rule.FutureIncidents(&s, e.now)...)
	if old := outdated(&s, all.list); old != nil {
		return Result{Findings: old}
	}
	if e.by != nil {
		s.Policies, s.Suppressions = e.by.site.Policies, e.by.site.Suppressions
	}
	kept, silenced := suppress(all.list, &s, e.now, !e.shared.lost && !broken && e.by == nil)
	r := Result{Findings: limit(kept), Suppressed: limit(silenced)}
	if !e.withheld(r.Findings) {
		r.Site, r.Explanation = &s, e.explanation()
	}
	return r
}

// withheld reports whether an error prevents use of the site.
func (e *evaluation) withheld(found []site.Finding) bool {
	return slices.ContainsFunc(found, func(f site.Finding) bool {
		return f.Severity == site.SeverityError && !slices.Contains(e.tolerated, f.Code)
	})
}

// explanation explains the node asked for. It is nil without one.
func (e *evaluation) explanation() *Explanation {
	n := e.nodes[e.explain]
	if n == nil {
		return nil
	}
	return &Explanation{Node: n.name, Values: append(explainValues(e.shared.layersOf(n), n.merged), slices.Concat(explainActions(e.shared.site, n.effective), explainDrivers(e.shared.site, n.effective))...)}
}
