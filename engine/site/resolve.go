package site

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/item"
)

// Resolved is what a design asks of a facet, in the machine's names for it.
type Resolved struct {
	// Want is nil if the design asks for nothing.
	Want Values
	// From is the design's name of a field that the machine names differently: the intent "smt" for
	// the attribute "LogicalProc".
	From Values
	// Unresolved says why fields of the design, by their names there, mean nothing on the machine.
	Unresolved Values
	// Lacking says why the installed system cannot have requested fields yet, by their flat names;
	// Want leaves them out. Other parts of the design may bring what they need, such as a package.
	Lacking Values
	// Unread means that the machine's names for these fields are not known yet.
	Unread bool
	// Items are what the design asks of a facet inside the installed system. Keys has the item of
	// each field of Want and Lacking. Family is the family of the system.
	Items  []item.Item
	Keys   Values
	Family string
	// Drivers are the drivers that items come from, by item key. Unsure are the drivers that may or
	// may not be for the machine.
	Drivers Values
	Unsure  []string
}

// Resolve translates what the design asks of a facet into the names of the observed machine. It
// uses nothing else, so a proposal is planned as it will run.
func (s FacetState) Resolve(n *Node, f Facet) Resolved {
	if IsInside(f) {
		return s.resolveItems(n, f)
	}
	asked := n.Want(f)
	r := Resolved{Want: asked, Unresolved: s.Unresolved}
	switch {
	case asked == nil:
	case f == FacetDisks:
		r.Want = s.disksBesideImage(n, asked)
	case f == FacetBoot:
		r.Want = s.bootOrder(asked)
	case f == FacetAccounts:
		r = s.accounts(n, asked)
	case f == FacetBIOS && s.Words != nil:
		is := s.Settings().Resolve(asked)
		r = Resolved{Want: is.Want, From: is.From, Unresolved: Values{}}
		for field, why := range is.Unresolved {
			r.Unresolved[field] = Printable(why)
		}
	case f == FacetBIOS && s.Terms != "":
		r.Unread = true
	}
	return r
}

// resolveItems resolves a facet inside the installed system, for the observed family or else the
// family of the image. What is designed only for certain families stays unknown until the system's
// family is known.
func (s FacetState) resolveItems(n *Node, f Facet) Resolved {
	r := Resolved{Family: s.Family(n), Keys: Values{}, Unresolved: maps.Clone(s.Unresolved)}
	cannot := func(key, why string) {
		if r.Unresolved == nil {
			r.Unresolved = Values{}
		}
		if why != "" {
			r.Unresolved[key] = Printable(why)
		}
	}
	items, brought := n.itemsWith(f, r.Family, n.DriverNames(s.System, FitSure))
	r.Items, r.Drivers = items, brought.from
	if f == FacetNetwork && len(r.Items) > 0 {
		r.Items = append(r.Items, s.managerItems()...)
	}
	if f == FacetConfig {
		unlisted, lacking := s.unlistedItems(n, r.Family)
		r.Items = append(r.Items, unlisted...)
		if lacking != "" {
			r.Keys[item.KindUnlisted] = item.KindUnlisted
			lacks(&r, item.KindUnlisted, lacking)
		}
	}
	for _, i := range r.Items {
		for field, v := range i.Fields {
			name := item.Name(i.Key, field)
			r.Keys[name] = i.Key
			if why := item.Lacking(s.Cannot, name, v); why != "" && name != i.Key {
				lacks(&r, name, why)
			}
		}
		cannot(i.Key, cmp.Or(brought.contradict[i.Key], s.Cannot[i.Key]))
	}
	r.Unsure = slices.DeleteFunc(n.DriverNames(s.System, FitUnknown), func(name string) bool { return !n.References.Drivers[name].asks(f) })
	if len(r.Unsure) > 0 {
		s.unsure(n, f, r, cannot)
	}
	want := item.Values(r.Items)
	for name := range r.Lacking {
		delete(want, name)
	}
	r.Want = orNil(want)
	r.Unread = r.Family == "" && (n.asksByFamily(f) || f == FacetPackages && n.asksByDriver(f))
	return r
}

func lacks(r *Resolved, name, why string) {
	if r.Lacking == nil {
		r.Lacking = Values{}
	}
	r.Lacking[name] = Printable(why)
}

// Family returns the family of the observed system, or else of the node's image; empty if neither
// is known.
func (s FacetState) Family(n *Node) string { return n.familyOf(s.System) }

// unsure explains why nobody can know whether drivers are for the machine: the machine could not be
// observed, or its system does not report what it takes. What nobody has looked at yet is looked at
// next.
func (s FacetState) unsure(n *Node, f Facet, r Resolved, cannot func(key, why string)) {
	may, _ := n.itemsWith(f, r.Family, r.Unsure)
	for _, i := range may {
		cannot(i.Key, s.Cannot[i.Key])
	}
	if s.System == nil || s.System.PCI == nil {
		return
	}
	for _, name := range r.Unsure {
		cannot(kindDrivers+"."+name, "Slipway does not know whether the driver is for this machine: "+n.References.Drivers[name].For(n, s.System).By)
	}
}

// Left returns the keys of a facet's items that Slipway made on the machine and that the design no
// longer asks for.
func (s FacetState) Left(n *Node, f Facet) []string {
	if !IsInside(f) || len(s.Owned) == 0 {
		return nil
	}
	return s.LeftBy(n, f, s.Resolve(n, f))
}

// LeftBy is Left for a facet that is resolved already.
func (s FacetState) LeftBy(n *Node, f Facet, r Resolved) []string {
	if !IsInside(f) || len(s.Owned) == 0 || r.Unread {
		return nil // the design may ask for it in a system of its family
	}
	designed := item.Keys(n.MayItems(f, s.System)) // what a driver brought stays even if its device is no longer seen
	return slices.DeleteFunc(slices.Clone(s.Owned), func(key string) bool {
		if item.Kind(key) == item.KindUnlisted {
			return s.staysDisabled(n, r.Family, item.ID(key))
		}
		_, asked := slices.BinarySearch(designed, key)
		return asked
	})
}

// Returning returns the fields of a facet that Slipway set and that the design no longer names,
// though it still asks for their items. They return to their earlier values.
func (s FacetState) Returning(n *Node, f Facet) (fields []string) {
	if len(s.Asked) == 0 {
		return nil
	}
	return s.ReturningBy(s.Resolve(n, f))
}

// ReturningBy is Returning for a facet that is resolved already.
func (s FacetState) ReturningBy(r Resolved) (fields []string) {
	if len(s.Asked) == 0 {
		return nil
	}
	for _, i := range r.Items {
		for _, field := range i.Returning(s.Asked[i.Key]) {
			fields = append(fields, item.Name(i.Key, field))
		}
	}
	return fields
}

// Settings returns the observed settings of the machine's firmware.
func (s FacetState) Settings() bios.Settings {
	return bios.Settings{Terms: s.Words, Have: s.Have, Next: s.Pending, Busy: s.Busy != ""}
}

// bootOrder returns the designed sources followed by the machine's others in their present order,
// or only the first if the machine keeps one.
func (s FacetState) bootOrder(asked Values) Values {
	order := asked["order"]
	_, ordered := s.Have["order"]
	if _, hasMode := s.Have["mode"]; hasMode && !ordered && order != "" {
		return single("mode", asked["mode"]) // an order would not last: it is set for each boot
	}
	if order == "" || len(s.Sources) == 0 && !s.OneSource {
		return asked
	}
	sources := strings.Split(order, ",")
	if s.OneSource {
		sources = sources[:1]
	} else if has := s.Have["order"]; has != "" {
		for _, other := range strings.Split(has, ",") {
			if !slices.Contains(strings.Split(order, ","), other) {
				sources = append(sources, other)
			}
		}
	}
	want := Values{"order": strings.Join(slices.Compact(sources), ",")}
	if mode := asked["mode"]; mode != "" {
		want["mode"] = mode
	}
	return want
}

// disksBesideImage returns what is asked of the disks. While the disk of the image does not exist
// it is left out: an installation creates it.
func (s FacetState) disksBesideImage(n *Node, asked Values) Values {
	disk := n.Virtual.ImageDisk()
	if disk == "" || s.Have[disk+".size"] != "" {
		return asked
	}
	want := maps.Clone(asked)
	maps.DeleteFunc(want, func(field, _ string) bool { return isOf(field, disk) })
	return want
}

// isOf reports whether a field belongs to a part.
func isOf(field, part string) bool {
	i := strings.LastIndex(field, ".")
	return i >= 0 && field[:i] == part
}

// Words returns the terms that observations refer to, in the form in which they are stored.
func Words(all iter.Seq[Observed]) bios.Library {
	var l bios.Library
	for o := range all {
		for _, f := range o.Facets {
			if _, there := l.Terms[f.Terms]; f.Words != nil && !there {
				l.Add(f.Words)
			}
		}
	}
	return l
}

// Attach gives the facets the terms that they refer to. It changes the map of facets.
func (o Observed) Attach(terms map[string]*bios.Terms) {
	for name, f := range o.Facets {
		if f.Terms != "" {
			f.Words = terms[f.Terms]
			o.Facets[name] = f
		}
	}
}
