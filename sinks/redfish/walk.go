package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// The bounds of one walk. The largest machines known take some 350 requests
// from a BMC that answers one resource at a time.
const (
	maxRequests = 512
	maxPages    = 32      // of one collection
	maxMembers  = 512     // of one collection
	maxBytes    = 1 << 26 // of all answers
	maxDepth    = 8       // of resources within an answer
	maxSilent   = 3       // requests in a row that nothing answered
)

// errEnough ends a walk whose bounds are reached.
var errEnough = fmt.Errorf("%w: the BMC lists more than Slipway reads at once", driver.ErrRefused)

// walk reads many resources of one BMC, none of them twice.
type walk struct {
	get func(ctx context.Context, path string) (object, error)
	// known are the resources that were read, by key; nil for one that cannot
	// be.
	known map[string]object
	// expand is what asks for a collection with its members, empty where the
	// BMC has no such thing; deeper asks for what is within the members too,
	// and single for a resource that is not a collection with what is in it.
	expand, deeper, single string
	unexpanded             int // requests with expand that failed
	requests, bytes        int
	most                   int // members of one collection
	deep                   int // how far within an answer resources are looked for
	silent                 int // requests in a row that nothing answered
	// missing says what could not be read and why.
	missing []string
	misses  int // how often something was missing
}

func newWalk(get func(ctx context.Context, path string) (object, error)) *walk {
	return &walk{get: get, known: map[string]object{}, most: maxMembers, deep: maxDepth}
}

// learn takes from the service root which expansions the BMC has (DSP0266
// section 7.3). "." is what belongs to a resource, "*" what it refers to as
// well, which is more than is wanted. Those that have nothing but "." (iLO 5)
// take it of collections only, and without a number of levels.
func (w *walk) learn(root object) {
	features := at[object](root, "ProtocolFeaturesSupported", "ExpandQuery")
	all, own := at[bool](features, "ExpandAll"), at[bool](features, "NoLinks")
	sign := "."
	switch {
	case !all && !own:
		return
	case !own:
		sign = "*"
	case !all:
		w.expand = "?$expand=."
		return
	}
	w.expand = "?$expand=" + sign
	if !at[bool](features, "Levels") {
		w.single = w.expand
		return
	}
	w.expand += "($levels=1)"
	w.single = w.expand
	if number(features, "MaxLevels") >= 2 {
		w.deeper = "?$expand=" + sign + "($levels=2)"
	}
}

// key is a resource's path as it is told apart from others: BMCs spell the same
// one with and without a slash at the end, and in another case.
func key(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.ToLower(strings.TrimRight(path, "/"))
}

// over says whether an error ends the walk, and not just what was to be read.
func over(ctx context.Context, err error) bool {
	denied := errors.Is(err, driver.ErrDenied) && !hasStatus(err, http.StatusForbidden) // which may be for want of a licence
	return err != nil && (ctx.Err() != nil || denied || errors.Is(err, errEnough))
}

// read sends one request and keeps the resources in the answer.
func (w *walk) read(ctx context.Context, path string) (object, error) {
	if w.requests >= maxRequests || w.bytes >= maxBytes || w.silent >= maxSilent {
		return nil, errEnough
	}
	w.requests++
	o, err := w.get(ctx, path)
	if err != nil {
		if errors.Is(err, driver.ErrUnreachable) {
			w.silent++
		}
		return nil, err
	}
	w.silent = 0
	for _, raw := range o {
		w.bytes += len(raw)
	}
	w.keep(o, 0)
	return o, nil
}

// keep notes the resources that an answer holds.
func (w *walk) keep(o object, depth int) {
	if id := link(o); whole(o, id) && w.known[key(id)] == nil {
		w.known[key(id)] = o
	}
	if depth >= w.deep {
		return
	}
	for name, value := range o {
		if name == "Oem" || name == "Actions" {
			continue
		}
		for _, inner := range objectsIn(value) {
			w.keep(inner, depth+1)
		}
	}
}

// whole says whether an object within an answer is a resource with all of its
// fields: each has a type, and an id or a name (DSP0266 section 9.6). A mere
// reference has nothing but its @odata.id; what has a "#" in that is a part of
// a resource.
func whole(o object, id string) bool {
	return id != "" && !strings.Contains(id, "#") && o["@odata.type"] != nil && (o["Id"] != nil || o["Name"] != nil)
}

// objectsIn are the objects that a value is or lists. What is no object costs
// itself only.
func objectsIn(value json.RawMessage) []object {
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return nil
	}
	var one object
	if json.Unmarshal(value, &one) == nil && one != nil {
		return []object{one}
	}
	var all []object
	for _, item := range firstOf(value) {
		var o object
		if json.Unmarshal(item, &o) == nil && len(o) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// maxItems bounds a list of a BMC's: what stands behind is not read.
const maxItems = 2048

// firstOf are the first items of a list, nil for what is none.
func firstOf(list json.RawMessage) []json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(list))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil
	}
	var all []json.RawMessage
	for len(all) < maxItems && d.More() {
		var item json.RawMessage
		if d.Decode(&item) != nil {
			return nil
		}
		all = append(all, item)
	}
	return all
}

// shorten takes what is not read from the lists of a resource: looking at each of
// 180,000 members would cost seconds.
func shorten(o object) {
	for name, value := range o {
		if len(value) < 64<<10 || value[0] != '[' {
			continue
		}
		if short, err := json.Marshal(firstOf(value)); err == nil && len(short) < len(value)/2 {
			o[name] = short
		}
	}
}

// items are the objects of a list in a resource.
func items(o object, path ...string) []object { return objectsIn(at[json.RawMessage](o, path...)) }

// resource is one resource, read unless it is known.
func (w *walk) resource(ctx context.Context, path string) (object, error) {
	if o, known := w.known[key(path)]; known {
		if o == nil {
			return nil, errors.ErrUnsupported // was told of before
		}
		return o, nil
	}
	o, err := w.read(ctx, path)
	w.known[key(path)] = o
	return o, err
}

// full is a resource with what belongs to it, in one request where the BMC can
// do so.
func (w *walk) full(ctx context.Context, path string) (object, error) {
	if _, known := w.known[key(path)]; known || w.single == "" {
		return w.resource(ctx, path)
	}
	return w.expanded(ctx, path, w.single)
}

// expanded reads a resource together with others, or alone where the BMC fails
// at that. One that fails twice is not asked again.
func (w *walk) expanded(ctx context.Context, path, query string) (object, error) {
	if query != "" && w.unexpanded < 2 && !strings.Contains(path, "?") {
		o, err := w.read(ctx, path+query)
		if err == nil || over(ctx, err) || hasStatus(err, http.StatusForbidden, http.StatusNotFound) {
			w.known[key(path)] = o
			return o, err
		}
		w.unexpanded++
	}
	o, err := w.read(ctx, path)
	w.known[key(path)] = o
	return o, err
}

// members are the members of a collection. What cannot be read of them is
// noted as missing; the error says that the collection itself could not be.
func (w *walk) members(ctx context.Context, path string) ([]object, error) {
	return w.membersBy(ctx, path, w.expand, w.resource)
}

func (w *walk) membersBy(ctx context.Context, path, query string, read reader) ([]object, error) {
	if path == "" {
		return nil, errors.ErrUnsupported
	}
	collection := path
	var refs []object
	pages := map[string]bool{}
	for path != "" && !pages[path] && len(pages) < maxPages && len(refs) < w.most {
		o := w.known[key(path)]
		if o == nil || len(pages) > 0 {
			var err error
			if o, err = w.expanded(ctx, path, query); err != nil {
				all, _ := w.each(ctx, refs, read)
				return all, err
			}
		}
		pages[path] = true
		refs = append(refs, items(o, "Members")...)
		path = at[string](o, "Members@odata.nextLink")
	}
	if len(refs) > w.most || path != "" && !pages[path] {
		w.miss(collection, fmt.Errorf("it lists more members than the %d that are read", min(len(refs), w.most)))
	}
	return w.each(ctx, refs, read)
}

// reader reads one resource.
type reader func(ctx context.Context, path string) (object, error)

// each gives the resources that references lead to, each once. The error is one
// that ends the walk.
func (w *walk) each(ctx context.Context, refs []object, read reader) ([]object, error) {
	var all []object
	taken := map[string]bool{}
	for _, ref := range refs[:min(len(refs), w.most)] {
		path := link(ref)
		if path == "" || taken[key(path)] || strings.Contains(path, "#") {
			continue
		}
		taken[key(path)] = true
		o, err := read(ctx, path)
		if over(ctx, err) {
			return all, err
		}
		if err != nil {
			w.miss("", err)
			continue
		}
		all = append(all, o)
	}
	return all, nil
}

// maxMissing is how much is told of what is missing.
const maxMissing = 16

// miss notes what could not be read. What a machine does not have is not
// missing.
func (w *walk) miss(what string, err error) {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	w.misses++
	if len(w.missing) == maxMissing {
		err = errors.New("and more")
	}
	if len(w.missing) <= maxMissing {
		w.missing = append(w.missing, printable(err.Error()))
	}
}
