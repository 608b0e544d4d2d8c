package web

import (
	"html/template"
	"strings"
	"sync"
)

// part is what a shared section is made of: what the API has answered. Who asks and what they may do is not in it, so that a
// shared section cannot depend on that. A section that does is written into the page itself.
type part struct {
	Site, Node, Files string
	Content           any
}

// shared are sections as they were made within one second, each once for all who were answered the same. They are not kept
// for longer, because times in them say how long ago they are.
type shared struct {
	mu     sync.Mutex
	second int64
	made   map[sharedKey]func() (template.HTML, error)
}

// sharedKey is all that a shared section depends on. The questions are in the answers, see request.answer.
type sharedKey struct {
	page, section, address string
	answers                uint64
}

// mostShared is how many sections are kept. A list of nodes has about 60 kilobytes.
const mostShared = 64

// of gives a section that was made within this second, or has whoever asks first make it while the others wait.
func (s *shared) of(key sharedKey, second int64, make func() (template.HTML, error)) (template.HTML, error) {
	return s.maker(key, second, make)()
}

func (s *shared) maker(key sharedKey, second int64, make func() (template.HTML, error)) func() (template.HTML, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.second != second {
		s.second, s.made = second, map[sharedKey]func() (template.HTML, error){}
	}
	made := s.made[key]
	if made == nil {
		made = sync.OnceValues(make)
		if len(s.made) < mostShared {
			s.made[key] = made
		}
	}
	return made
}

// section is a section of a page that is the same for all who are answered the same, by the name of its template.
func (s *Site) section(name string, p *Shell) (template.HTML, error) {
	make := func() (template.HTML, error) {
		var b strings.Builder
		err := s.pages[p.Name].ExecuteTemplate(&b, name, part{p.Site, p.Node, p.Files, p.Content})
		return template.HTML(b.String()), err // the template escapes what is in it
	}
	if p.answers == 0 {
		return make()
	}
	return s.shared.of(sharedKey{p.Name, name, p.address, p.answers}, p.Now.Unix(), make)
}
