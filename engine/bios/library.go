package bios

// Library is the stored and transmitted form of terms. It has each registry, by far
// the largest part, only once for all machines of a kind.
type Library struct {
	Terms      map[string]Entry    `json:"terms,omitempty"`      // by Terms.Digest
	Registries map[string]Registry `json:"registries,omitempty"` // by Registry.Sum
}

// Entry is terms without the content of their registry.
type Entry struct {
	Makers   []string `json:"makers,omitempty"`
	Shown    []string `json:"shown,omitempty"`
	Registry string   `json:"registry,omitempty"` // its Sum, empty for none
}

// Add adds terms to the library and returns their digest.
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

// All returns the terms by digest. It omits terms whose registry is missing or whose
// content does not match the digest, as if they had never been read.
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
