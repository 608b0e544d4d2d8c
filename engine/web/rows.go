package web

import (
	"html/template"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// row is all that a table of nodes shows of one node. Equal rows have equal HTML, whoever sees them.
type row struct {
	Site, Name        string
	State             site.State
	Since             template.HTML
	Reason            string
	Person, Unseen    bool
	lines             string // of its troubles, one each
	Role, Rack, Power string
}

// Troubles are what is wrong with the node beside its state.
func (r row) Troubles() []string {
	if r.lines == "" {
		return nil
	}
	return strings.Split(r.lines, "\n")
}

// rows are the HTML of rows of nodes, which hardly any change in a second: a table is made of those that did.
type rows struct {
	mu   sync.Mutex
	made map[row]template.HTML
}

// mostRows is how many rows are kept, of about a kilobyte each.
const mostRows = 4000

func (r *rows) of(one row) (text template.HTML, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, known = r.made[one]
	return text, known
}

func (r *rows) keep(one row, text template.HTML) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil || len(r.made) >= mostRows {
		r.made = map[row]template.HTML{}
	}
	r.made[one] = text
}

// nodeRows are the rows of nodes in a table.
func (s *Site) nodeRows(siteName string, nodes []site.NodeStatus) (template.HTML, error) {
	var b strings.Builder
	for i := range nodes {
		text, err := s.nodeRow(siteName, &nodes[i])
		if err != nil {
			return "", err
		}
		b.WriteString(string(text))
	}
	return template.HTML(b.String()), nil // of rows, in which what is shown is escaped
}

// nodeRow is the row of a node in a table.
func (s *Site) nodeRow(siteName string, n *site.NodeStatus) (template.HTML, error) {
	var troubles []string
	for _, what := range present.Troubles(n) {
		troubles = append(troubles, site.Printable(what)) // in one line
	}
	one := row{Site: siteName, Name: n.Name, State: n.State, Since: s.ago(n.Since, ""), Reason: n.Reason, Person: n.Person, Unseen: n.Seen.IsZero(),
		lines: strings.Join(troubles, "\n"), Role: n.Role, Rack: n.Rack, Power: n.Power}
	if text, known := s.rows.of(one); known {
		return text, nil
	}
	var b strings.Builder
	if err := s.pages["nodes"].ExecuteTemplate(&b, "noderow", one); err != nil {
		return "", err
	}
	s.rows.keep(one, template.HTML(b.String())) // the template escapes what is in it
	return template.HTML(b.String()), nil
}
