package lab

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// query does what the query parameters of a read ask for (DSP0266, Query parameters); it
// answers itself when it cannot.
func (x *exchange) query(b body) (body, bool) {
	if x.r.URL.RawQuery == "" {
		return b, true
	}
	q, h := x.r.URL.Query(), x.kind.query
	understood := map[string]bool{"$select": h.selects, "$expand": h.expand > 0, "$top": h.pages, "$skip": h.pages}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if strings.HasPrefix(name, "$") && !understood[name] {
			x.fail(http.StatusNotImplemented, "QueryParameterUnsupported", name)
			return nil, false
		}
	}
	if q.Has("only") && h.only {
		return x.onlyMember(b, q.Get("only"), len(q) > 1)
	}
	b, ok := x.page(b, q.Get("$skip"), q.Get("$top"))
	if ok && q.Has("$expand") {
		ok = x.expand(b, q.Get("$expand"))
	}
	if ok && q.Has("$select") {
		b, ok = x.selected(b, q.Get("$select"))
	}
	return b, ok
}

// onlyMember is the member of a collection that has just one.
func (x *exchange) onlyMember(b body, value string, more bool) (body, bool) {
	members, isList := b["Members"].([]any)
	if value != "" {
		x.fail(http.StatusBadRequest, "QueryParameterValueFormatError", value, "only")
		return nil, false
	}
	if !isList || more {
		x.fail(http.StatusBadRequest, "QueryNotSupportedOnResource")
		return nil, false
	}
	if len(members) != 1 {
		return b, true
	}
	member, _ := members[0].(body)
	return x.resource(x.kind.canonical(linkOf(member))), true
}

// page leaves out members of a collection.
func (x *exchange) page(b body, skip, top string) (body, bool) {
	members, isList := b["Members"].([]any)
	for _, p := range []struct {
		name, value string
		cut         func(n int) []any
	}{
		{"$skip", skip, func(n int) []any { return members[min(n, len(members)):] }},
		{"$top", top, func(n int) []any { return members[:min(n, len(members))] }},
	} {
		if p.value == "" {
			continue
		}
		n, err := strconv.Atoi(p.value)
		switch {
		case !isList:
			x.fail(http.StatusBadRequest, "QueryNotSupportedOnResource")
			return nil, false
		case err != nil:
			x.fail(http.StatusBadRequest, "QueryParameterValueTypeError", p.value, p.name)
			return nil, false
		case n < 0:
			x.fail(http.StatusBadRequest, "QueryParameterOutOfRange", p.value, p.name, "0 and more")
			return nil, false
		}
		members = p.cut(n)
		b["Members"] = members
	}
	return b, true
}

// expand puts resources in the place of references to them.
func (x *exchange) expand(b body, how string) bool {
	what, rest, levelled := strings.Cut(how, "(")
	levels := 1
	if levelled {
		text, found := strings.CutPrefix(strings.TrimSuffix(rest, ")"), "$levels=")
		n, err := strconv.Atoi(text)
		if !found || err != nil || n < 1 || !strings.HasSuffix(rest, ")") {
			x.fail(http.StatusBadRequest, "QueryParameterValueFormatError", how, "$expand")
			return false
		}
		levels = min(n, x.kind.query.expand)
	}
	links, rest2 := what != ".", what != "~"
	switch h := x.kind.query; {
	case what != "." && what != "~" && what != "*":
		x.fail(http.StatusBadRequest, "QueryParameterValueFormatError", how, "$expand")
		return false
	case what == "~" && !h.links, what == "*" && !h.all:
		x.fail(http.StatusNotImplemented, "QueryParameterUnsupported", "$expand="+how)
		return false
	}
	x.expandIn(b, levels, links, rest2, false)
	return true
}

// expandIn expands references at any depth of a resource: those in Links, and
// the others, as wanted.
func (x *exchange) expandIn(b body, levels int, links, others, inLinks bool) {
	for name, v := range b {
		in := inLinks || name == "Links"
		if strings.HasPrefix(name, "@") || in && !links || !in && !others && name != "Links" {
			continue
		}
		switch v := v.(type) {
		case body:
			b[name] = x.expanded(v, levels, links, others, in)
		case []any:
			for i, of := range v {
				if of, ok := of.(body); ok {
					v[i] = x.expanded(of, levels, links, others, in)
				}
			}
		}
	}
}

func (x *exchange) expanded(v body, levels int, links, others, in bool) body {
	if at := linkOf(v); len(v) == 1 && at != "" {
		to := x.resource(x.kind.canonical(at))
		if to == nil || to["error"] != nil {
			return v
		}
		if levels > 1 {
			x.expandIn(to, levels-1, links, others, false)
		}
		return to
	}
	x.expandIn(v, levels, links, others, in)
	return v
}

// selected is a resource with some of its properties.
func (x *exchange) selected(b body, names string) (body, bool) {
	some := body{}
	for name, v := range b {
		if strings.HasPrefix(name, "@odata.") || name == "Members@odata.count" {
			some[name] = v
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			x.fail(http.StatusBadRequest, "QueryParameterValueFormatError", names, "$select")
			return nil, false
		}
		pick(some, b, strings.Split(name, "/"))
	}
	return some, true
}

// pick copies the property at a path of names.
func pick(to, from body, names []string) {
	v, there := from[names[0]]
	inner, isObject := v.(body)
	switch {
	case !there:
	case len(names) == 1 || !isObject:
		to[names[0]] = v
	default:
		next, ok := to[names[0]].(body)
		if !ok {
			next = body{}
			to[names[0]] = next
		}
		pick(next, inner, names[1:])
	}
}
