package web

import (
	"html/template"
	"strings"
	"sync"
)

// part is what a shared section is made of: what the API has answered. Who asks and what they may do is not in it, so that a
// shared section cannot depend on that. A section that does is made of the Shell, and is shared by those with equal rights alone.
type part struct {
	Site, Node, Files string
	Content           any
}

// shared are the sections of pages as they were made last, each once for all who were answered the same.
type shared struct {
	mu   sync.Mutex
	made map[place]madeSection
}

// place is where a section is: by the page with its query, and the rights on which it depends; empty for none.
type place struct {
	name, address, section, rights string
	whole                          bool // of the whole site, or of some nodes
}

// basis is all else that a section depends on.
type basis struct {
	files   string
	answers any // a hash of all answers, or the only one that the section shows
	moment  int64
}

type madeSection struct {
	of   basis
	text func() (template.HTML, error)
}

// mostShared is how many sections are kept. A list of nodes has about 60 kilobytes.
const mostShared = 64

// of gives a section that was made of the same, or has whoever asks first make it while the others wait.
func (s *shared) of(at place, of basis, make func() (template.HTML, error)) (template.HTML, error) {
	return s.maker(at, of, make)()
}

func (s *shared) maker(at place, of basis, make func() (template.HTML, error)) func() (template.HTML, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, has := s.made[at]; has && last.of == of {
		return last.text
	}
	if s.made == nil || len(s.made) >= mostShared {
		s.made = map[place]madeSection{}
	}
	made := madeSection{of, sync.OnceValues(make)}
	s.made[at] = made
	return made.text
}

// sharedSection is a section that is the same for all who are answered the same, by the name of its template.
func (s *Site) sharedSection(name string, p *Shell) (template.HTML, error) {
	return s.section(name, p, "", part{p.Site, p.Node, p.Files, p.Content})
}

// ownSection is one that also depends on what its viewer may do.
func (s *Site) ownSection(name string, p *Shell) (template.HTML, error) {
	return s.section(name, p, p.rights, p)
}

func (s *Site) section(name string, p *Shell, rights string, of any) (template.HTML, error) {
	make := func() (template.HTML, error) {
		var b strings.Builder
		err := s.pages[p.Name].ExecuteTemplate(&b, name, of)
		return template.HTML(b.String()), err // the template escapes what is in it
	}
	if p.answers == 0 {
		return make()
	}
	// Times in a section say how long ago they are. The script of an open page counts on by itself.
	from, at := basis{files: p.Files, answers: p.answers, moment: p.Now.Unix()}, place{p.Name, p.address, name, rights, p.Status != nil}
	sections := &s.shared
	if p.open {
		sections, from.moment = &s.live.shared, p.Now.Truncate(lookAnyway).Unix()
	}
	if o, is := p.Content.(overviewPage); is && o.from != nil && name != "newest" {
		from.answers = o.from
	}
	return sections.of(at, from, make)
}
