package github

import "slices"

// past is what the pull requests of the repositories were, and their comments.
type past map[*Repository][]*Pull

// Lag has lists tell what there was so many requests ago, while what is asked
// for by its number is as it is: GitHub's lists come from copies that are late.
// Zero ends it.
func (s *Server) Lag(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag, s.pasts = requests, nil
}

// passes notes what there is before a request is answered.
func (s *Server) passes() {
	if s.lag == 0 {
		return
	}
	now := past{}
	for _, r := range s.repos {
		for _, p := range r.pulls {
			now[r] = append(now[r], p.copied())
		}
	}
	s.pasts = append(s.pasts, now)
	s.pasts = s.pasts[max(0, len(s.pasts)-1-s.lag):]
}

func (p *Pull) copied() *Pull {
	c := *p
	c.events = slices.Clone(p.events)
	c.comments = nil
	for _, m := range p.comments {
		n := *m
		n.reactions = slices.Clone(m.reactions)
		c.comments = append(c.comments, &n)
	}
	return &c
}

// listed are the pull requests as lists have them.
func (c *call) listed() []*Pull {
	if c.lag == 0 || len(c.pasts) == 0 {
		return c.repo.pulls
	}
	return c.pasts[0][c.repo]
}

// listedPull is one of them, nil for none.
func (c *call) listedPull(number int64) *Pull {
	all := c.listed()
	if number < 1 || number > int64(len(all)) {
		return nil
	}
	return all[number-1]
}
