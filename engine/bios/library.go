package bios

// Library is terms as they are kept and sent: each registry, which is by far the
// largest part, once for all machines of a kind.
type Library struct {
	Terms      map[string]Entry    `json:"terms,omitempty"`      // by Terms.Digest
	Registries map[string]Registry `json:"registries,omitempty"` // by Registry.Sum
}

// Entry is terms without what their registry says.
type Entry struct {
	Makers   []string `json:"makers,omitempty"`
	Shown    []string `json:"shown,omitempty"`
	Registry string   `json:"registry,omitempty"` // its Sum, empty for none
}

// Add puts terms into the library and gives their digest.
func (l *Library) Add(t *Terms) (digest string) {
	if l.Terms == nil {
		l.Terms, l.Registries = map[string]Entry{}, map[string]Registry{}
	}
	digest = t.Digest()
	l.Terms[digest] = Entry{t.Makers, t.Shown, t.Registry.Sum}
	if t.Registry.Sum != "" {
		l.Registries[t.Registry.Sum] = t.Registry
	}
	return digest
}

// All are the terms by digest. Terms whose registry is lacking, and any that are not
// what their digest says, are as good as never read.
func (l Library) All() map[string]*Terms {
	all := map[string]*Terms{}
	for digest, e := range l.Terms {
		r, there := l.Registries[e.Registry]
		t := &Terms{Makers: e.Makers, Shown: e.Shown, Registry: r}
		if (there || e.Registry == "") && t.Digest() == digest {
			all[digest] = t
		}
	}
	return all
}
