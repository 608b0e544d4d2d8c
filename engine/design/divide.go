package design

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// digest identifies a text.
type digest [sha256.Size]byte

// division is a package divided into its nodes and what they share, so that
// nodes can be evaluated in chunks and only where they changed. Every part
// keeps its place: what is left out is blanked.
type division struct {
	pack pack
	// files are those of the site's package in order, with their outlines.
	files []dividedFile
	// nodes are the declarations of each node. touched are the nodes with a
	// declaration that may differ from the last division.
	nodes   map[string][]declaration
	touched names
	// visible are the top-level fields that nodes may refer to.
	visible names
	// shared is the digest of everything but the nodes, seen the digest of the
	// part of it that nodes can see.
	shared, seen digest
}

type dividedFile struct {
	name    string
	src     []byte
	outline *outline
}

// declaration is a part of a file that belongs to a node.
type declaration struct {
	name string // of the file
	file int    // in files
	part *piece
	// clauses is the digest of the file's package clause and imports.
	clauses digest
}

// mainFiles lists the files of the site's package. It returns false where they
// do not all belong to one package, or where this is uncertain.
func mainFiles(p pack) ([]string, bool) {
	l := loader{pack: p}
	in := l.inDir(p.dir)
	if len(in) == 0 {
		return nil, false
	}
	pkg := packageName(p.files[in[0]])
	var all []string
	for _, dir := range lineage(p.dir) {
		for _, name := range l.inDir(dir) {
			own := packageName(p.files[name])
			if own == pkg {
				all = append(all, name)
			} else if dir == p.dir {
				return nil, false
			}
		}
	}
	return all, pkg != ""
}

// divide divides a package by the outlines of its files. It returns nil when
// the package is entangled. It reuses unchanged parts of the last division, if
// there is one; the caller must not use that one afterwards.
func divide(p pack, files []string, outlines map[string]*outline, last *division) *division {
	d := &division{pack: p, nodes: map[string][]declaration{}, touched: names{}}
	for _, name := range files {
		o := outlines[name]
		// Another package may include a file of a parent directory too.
		if o.Entangled != "" || o.hasNodes && path.Dir(name) != p.dir {
			return nil
		}
		d.files = append(d.files, dividedFile{name: name, src: p.files[name], outline: o})
	}
	d.declare(last)
	d.see()
	d.shared = d.withData(d.digest(func(p *piece) bool { return p.Kind != oneNode }))
	d.seen = d.digest(func(p *piece) bool { return p.Kind == overNodes || p.Kind == topField && d.visible[p.Name] })
	return d
}

// declare finds the declarations of nodes. It visits only files that changed
// since the last division.
func (d *division) declare(last *division) {
	known := last != nil && slices.EqualFunc(d.files, last.files, func(a, b dividedFile) bool { return a.name == b.name })
	if known {
		d.nodes = last.nodes
	}
	for i := range d.files {
		var old *outline
		if known {
			old = last.files[i].outline
		}
		if d.files[i].outline != old {
			d.redeclare(i, old)
		}
	}
	if last != nil && !known {
		for name := range last.nodes {
			d.touched[name] = true
		}
	}
}

// redeclare replaces the declarations of a file's old outline, if it had one,
// by those of the new. It never changes a list of declarations in place.
func (d *division) redeclare(file int, old *outline) {
	f := &d.files[file]
	fresh := map[string][]declaration{}
	for x := range old.declarations() {
		fresh[x.Name] = nil
	}
	for x := range f.outline.declarations() {
		fresh[x.Name] = append(fresh[x.Name], declaration{f.name, file, x, f.outline.clauses})
	}
	for name, here := range fresh {
		d.touched[name] = true
		all := d.nodes[name]
		from, _ := slices.BinarySearchFunc(all, file, func(x declaration, file int) int { return x.file - file })
		to, _ := slices.BinarySearchFunc(all, file+1, func(x declaration, file int) int { return x.file - file })
		if all = slices.Concat(all[:from], here, all[to:]); len(all) > 0 {
			d.nodes[name] = all
		} else {
			delete(d.nodes, name)
		}
	}
}

// see finds the top-level fields that nodes may refer to.
func (d *division) see() {
	var named []string
	for _, f := range d.files {
		named = append(named, f.outline.Uses...)
	}
	d.visible = d.reach(named)
}

// reach finds the top-level fields with some names, the fields that these refer
// to, and so on.
func (d *division) reach(found []string) names {
	uses, reached := map[string][]string{}, names{}
	for _, s := range sections {
		uses[s.name] = nil // a section exists even when it is empty
	}
	for _, f := range d.files {
		for _, p := range f.outline.Parts {
			if p.Kind == topField {
				uses[p.Name] = append(uses[p.Name], p.Uses...)
			}
		}
	}
	for len(found) > 0 {
		name := found[len(found)-1]
		found = found[:len(found)-1]
		if more, isField := uses[name]; isField && !reached[name] {
			reached[name] = true
			found = append(found, more...)
		}
	}
	return reached
}

// digest returns the digest of the wanted parts that belong to no single node,
// at their places, and of every file outside the package.
func (d *division) digest(wanted func(*piece) bool) digest {
	h := sha256.New()
	own := map[string]bool{}
	for _, f := range d.files {
		own[f.name] = true
		f.write(h, wanted)
	}
	for _, name := range slices.Sorted(maps.Keys(d.pack.files)) {
		if !own[name] {
			writeText(h, name)
			writeText(h, d.pack.files[name])
		}
	}
	return digest(h.Sum(nil))
}

// withData combines a digest with that of the data files.
func (d *division) withData(of digest) digest {
	h := sha256.New()
	h.Write(of[:])
	for _, name := range slices.Sorted(maps.Keys(d.pack.data)) {
		writeText(h, name)
		writeText(h, d.pack.data[name])
	}
	return digest(h.Sum(nil))
}

// write writes the wanted parts of a file.
func (f *dividedFile) write(h hash.Hash, wanted func(*piece) bool) {
	any := false
	for _, p := range f.outline.common {
		if !wanted(p) {
			continue
		}
		if !any {
			writeText(h, f.name)
			h.Write(f.outline.clauses[:])
			any = true
		}
		h.Write(p.digest[:])
	}
}

// writeText writes a text after its length, so that different sequences of
// texts never have the same bytes. A hash never fails, and a bufio.Writer keeps
// its error.
func writeText[T string | []byte](w io.Writer, text T) {
	_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(text))))
	_, _ = w.Write([]byte(text))
}

// sameText reports whether declarations have the same texts at the same places,
// with the same imports around them.
func sameText(a, b []declaration) bool {
	return slices.EqualFunc(a, b, func(a, b declaration) bool {
		return a.name == b.name && (a.part == b.part || a.part.digest == b.part.digest && a.clauses == b.clauses)
	})
}

// inOrder sorts nodes by their first declarations, so that a chunk of nodes
// touches few files.
func (d *division) inOrder(nodes []string) []string {
	slices.SortFunc(nodes, func(a, b string) int {
		x, y := d.nodes[a][0], d.nodes[b][0]
		if x.file != y.file {
			return x.file - y.file
		}
		return x.part.Start - y.part.Start
	})
	return nodes
}

// sharedPack returns the package without its nodes.
func (d *division) sharedPack() pack {
	return d.only(func(p *piece) bool { return p.Kind != oneNode }, nil)
}

// nodesPack returns the package with these nodes and what they can see.
func (d *division) nodesPack(nodes []string) pack {
	want, in := map[*piece]bool{}, map[int]bool{}
	for _, name := range nodes {
		for _, x := range d.nodes[name] {
			want[x.part], in[x.file] = true, true
		}
	}
	p := d.only(func(p *piece) bool {
		return p.Kind == overNodes || p.Kind == topField && d.visible[p.Name] || want[p]
	}, in)
	p.data = nil
	p.sections = []string{nodesSection}
	for _, s := range sections {
		if s.name != nodesSection && d.visible[s.name] {
			p.sections = append(p.sections, s.name)
		}
	}
	return p
}

// only returns the package with the wanted parts. Parts of nodes are only in
// the files listed in in.
func (d *division) only(wanted func(*piece) bool, in map[int]bool) pack {
	p := d.pack
	p.divided = true
	p.files = maps.Clone(p.files)
	named := false
	kept := func(p *piece) bool { return p.Kind != clause && wanted(p) }
	for i, f := range d.files {
		// One file of the directory stays for its package clause.
		if in[i] || slices.ContainsFunc(f.outline.common, kept) || !named && path.Dir(f.name) == p.dir {
			p.files[f.name] = f.only(wanted)
			named = named || path.Dir(f.name) == p.dir
		} else {
			delete(p.files, f.name)
		}
	}
	return p
}

// only returns the file's text with every unwanted part blanked.
func (f *dividedFile) only(wanted func(*piece) bool) []byte {
	text, _ := blanked(f.src, f.outline.Parts, func(p *piece) bool { return p.Kind != clause && !wanted(p) })
	return text
}

// blanked returns a text without some of its parts. The rest keeps its lines
// and columns. earlier says, by part, how many bytes earlier it begins.
func blanked(src []byte, parts []piece, without func(*piece) bool) (text []byte, earlier []int) {
	text, earlier = make([]byte, 0, len(src)), make([]int, len(parts))
	from := 0
	for i := range parts {
		p := &parts[i]
		earlier[i] = from - len(text)
		if without(p) {
			text = append(text, src[from:p.Start]...)
			text = appendBlank(text, src[p.Start:p.End])
			from = p.End
		}
	}
	return append(text, src[from:]...), earlier
}

// appendBlank appends the line ends of a text, and a space for each byte after
// the last, so that what follows keeps its place.
func appendBlank(to, text []byte) []byte {
	for range bytes.Count(text, []byte("\n")) {
		to = append(to, '\n')
	}
	for range len(text) - 1 - bytes.LastIndexByte(text, '\n') {
		to = append(to, ' ')
	}
	return to
}

// attribute moves the findings of a chunk, about expressions that do not
// compile, to the nodes whose declarations contain them. It returns false when
// a finding is elsewhere.
func (d *division) attribute(x *extract) bool {
	for _, f := range x.findings {
		i := slices.IndexFunc(x.nodes, func(l layer) bool { return d.declares(l.name, f) })
		if i < 0 {
			return false
		}
		x.nodes[i].findings = append(x.nodes[i].findings, f)
	}
	x.findings = nil
	return true
}

// declares reports whether a finding is in the declaration of a node.
func (d *division) declares(node string, f site.Finding) bool {
	return slices.ContainsFunc(d.nodes[node], func(x declaration) bool {
		file := &d.files[x.file]
		end := x.part.Line + bytes.Count(file.src[x.part.Start:x.part.End], []byte("\n"))
		return file.name == f.File && x.part.Line <= f.Line && f.Line <= end
	})
}
