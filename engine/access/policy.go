package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/say"
)

// Policy is who may do what. What it does not allow is denied: the zero value denies everything but
// what users of the host ask on the socket, who are as good as the daemon's own user.
type Policy struct {
	roles  map[string][]Verb
	grants []grant
	issuer *Issuer // nil for none
	// limits are what the design may grant, and design is what it grants.
	limits []designLimit
	design Design
}

// grant gives roles to a caller, within bounds.
type grant struct {
	kind  Kind // Person, Token or group
	name  string
	verbs []Verb
	// Empty bounds nothing. The whole site is within bounds of sites alone.
	sites, racks, roles []string
	// by are the means by which persons must be known, as meansOf names them.
	by []string
}

// group is the kind of a grant to everybody whom the issuer of OpenID Connect names as in a group. No
// caller is of this kind.
const group Kind = "group"

// meansOf is how a person is known, as the bound by= names it; empty for others.
func meansOf(k Kind) string {
	return map[Kind]string{Person: "certificate", OIDC: "oidc"}[k]
}

// isFor says whether a grant is for a caller.
func (g grant) isFor(c Caller) bool {
	if len(g.by) > 0 && !slices.Contains(g.by, meansOf(c.Kind)) {
		return false
	}
	switch g.kind {
	case group:
		return c.Kind == OIDC && slices.Contains(c.Groups, g.name)
	case Person:
		return (c.Kind == Person || c.Kind == OIDC) && c.Name == g.name
	}
	return c.Kind == g.kind && c.Name == g.name
}

// mostName bounds the names of callers, in bytes.
const mostName = 128

// Parse reads the text of an access file. Its lines are
//
//	role NAME: VERB…
//	person NAME: ROLE… [site=A,B] [rack=A,B] [role=A,B] [by=certificate,oidc]
//	group NAME: ROLE… [site=A,B] [rack=A,B] [role=A,B]
//	token NAME: ROLE… [site=A,B] [rack=A,B] [role=A,B]
//	oidc SETTING: VALUE
//
//	design: true | VERB… [site=A,B]
//
// The settings of an issuer of OpenID Connect are those of Issuer. The last one lets the design grant these verbs: true is
// all but "grant". Without it the design grants nothing.
// Its errors begin with the line's number.
func Parse(text string) (*Policy, error) {
	p := &Policy{roles: map[string][]Verb{}}
	err := hostfile.EachSetting(text, "role NAME, person NAME, group NAME, token NAME, oidc SETTING and design", func(key, value string, _ int) (bool, error) {
		what, name, _ := strings.Cut(key, " ")
		name = strings.TrimSpace(name)
		switch what {
		case "role":
			return true, p.addRole(name, strings.Fields(value))
		case string(Person), string(group), string(Token):
			return true, p.addGrant(Kind(what), name, strings.Fields(value))
		case string(OIDC):
			if p.issuer == nil {
				p.issuer = &Issuer{}
			}
			return true, p.issuer.set(name, value)
		case "design":
			return name == "", p.addLimit(strings.Fields(value))
		}
		return false, nil
	})
	if err == nil && p.issuer != nil {
		err = p.issuer.complete()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Issuer is the issuer of OpenID Connect by which persons log in; nil for none.
func (p *Policy) Issuer() *Issuer { return p.issuer }

func (p *Policy) addRole(name string, verbs []string) error {
	if !isWord(name) {
		return fmt.Errorf("%q cannot be the name of a role: use letters, digits and hyphens", name)
	}
	if _, twice := p.roles[name]; twice {
		return fmt.Errorf("role %s is there twice: write all its verbs into one line", name)
	}
	if len(verbs) == 0 {
		return fmt.Errorf("role %s has no verb", name)
	}
	for _, v := range verbs {
		if _, known := meaningOf(Verb(v)); !known {
			return fmt.Errorf("role %s has %q, which is not one of the verbs: %s", name, v, allVerbs())
		}
		p.roles[name] = append(p.roles[name], Verb(v))
	}
	return nil
}

func allVerbs() string {
	var all []string
	for _, m := range Verbs {
		all = append(all, string(m.Verb))
	}
	return strings.Join(all, ", ")
}

func (p *Policy) addLimit(words []string) error {
	if len(words) == 0 {
		return errors.New("design says nothing: write \"design: true\", or the verbs that the design may grant")
	}
	var within grant
	var l designLimit
	for _, word := range words {
		key, values, isBound := strings.Cut(word, "=")
		switch _, isVerb := meaningOf(Verb(word)); {
		case isBound && key != "site":
			return fmt.Errorf("%q does not bound what the design may grant, since the design itself says which node is in which rack and role: write site=, or leave it out", key+"=")
		case isBound:
			if err := within.bound(key, values); err != nil {
				return err
			}
		case word == "true":
			for _, m := range Verbs {
				if m.Verb != Grant {
					l.verbs = append(l.verbs, m.Verb)
				}
			}
		case word == "false" && len(words) == 1:
			return nil
		case !isVerb:
			return fmt.Errorf("design has %q, which is neither \"true\" nor one of the verbs: %s", word, allVerbs())
		default:
			l.verbs = append(l.verbs, Verb(word))
		}
	}
	if len(l.verbs) == 0 {
		return errors.New("design has a bound and no verb: write \"true\", or the verbs that the design may grant")
	}
	l.sites = within.sites
	p.limits = append(p.limits, l)
	return nil
}

func (p *Policy) addGrant(kind Kind, name string, words []string) error {
	if kind == Token && !IsTokenName(name) {
		return fmt.Errorf("%q cannot be the name of a token: use lower case letters, digits and hyphens", name)
	}
	if err := CheckName(name); err != nil {
		return err
	}
	g := grant{kind: kind, name: name}
	for _, word := range words {
		if key, values, isBound := strings.Cut(word, "="); isBound {
			if err := g.bound(key, values); err != nil {
				return err
			}
			continue
		}
		verbs, known := p.roles[word]
		if !known {
			return fmt.Errorf("there is no role %q above: a line \"role %s: VERB…\" comes first", word, word)
		}
		g.verbs = append(g.verbs, verbs...)
	}
	if len(g.verbs) == 0 {
		return fmt.Errorf("%s %s has no role", kind, name)
	}
	for _, v := range g.verbs {
		if m, _ := meaningOf(v); m.ForPersons && kind == Token {
			return fmt.Errorf("token %s has a role with %q, which only persons may have: give that to a person", name, v)
		}
	}
	p.grants = append(p.grants, g)
	return nil
}

func (g *grant) bound(key, values string) error {
	into := map[string]*[]string{"site": &g.sites, "rack": &g.racks, "role": &g.roles}[key]
	if key == "by" && g.kind == Person {
		into = &g.by
	}
	if into == nil {
		return fmt.Errorf("%q is no bound: write site=, rack= or role=, and for persons by=", key+"=")
	}
	if *into != nil {
		return fmt.Errorf("%q is there twice: separate values by commas", key+"=")
	}
	*into = strings.Split(values, ",")
	if slices.Contains(*into, "") {
		return fmt.Errorf("%s=%s has an empty value, which would bound nothing", key, values)
	}
	for _, means := range g.by {
		if means != meansOf(Person) && means != meansOf(OIDC) {
			return fmt.Errorf("by=%s: persons are known by certificate or by oidc", values)
		}
	}
	return nil
}

// Allows says whether a caller may use a verb on a target. The error says in a sentence why not.
func (p *Policy) Allows(c Caller, v Verb, t Target) error {
	m, known := meaningOf(v)
	switch {
	case !known:
		return fmt.Errorf("%w: %q is not a verb", ErrDenied, v)
	case c.Kind == User:
		return nil
	case c.Kind == Nobody || c.Name == "":
		return fmt.Errorf("%w: who asks is not known", ErrDenied)
	case m.ForPersons && !c.IsPerson():
		return fmt.Errorf("%w: %s is for persons only, who show a certificate or log in; %s is a program", ErrDenied, v, c)
	}
	for g := range p.of(c) {
		if slices.Contains(g.verbs, v) && g.includes(t) {
			return nil
		}
	}
	if p.designLets(c, v, t.Site, t.Node) {
		return nil
	}
	return fmt.Errorf("%w: %s may not %s %s: no line of the access file on the daemon's host allows it%s", ErrDenied, c, v, t, p.needed(c, v, t))
}

// needed says which roles would allow a verb on a target. It is said to callers who have a role already.
func (p *Policy) needed(c Caller, v Verb, t Target) string {
	if !p.Names(c) {
		return ""
	}
	var roles []string
	for _, name := range slices.Sorted(maps.Keys(p.roles)) {
		if slices.Contains(p.roles[name], v) {
			roles = append(roles, name+" (access file)")
		}
	}
	waits := false
	if p.letsDesignGrant(v, t.Site) {
		for _, name := range slices.Sorted(maps.Keys(p.design.InForce.Roles)) {
			if reachOf(p.design.InForce, []string{name}, v).includes(t.Node) {
				roles = append(roles, name+" (design)")
			}
		}
		waits = reachOf(p.design.InForce, c.rolesIn(p.design.InForce), v).includes(t.Node)
	}
	switch {
	case waits:
		return ", and what the design says about that was not approved: `slipway grant` shows it"
	case len(roles) == 0:
		return "; no role allows that"
	}
	return "; that needs one of the roles " + say.Some(roles, mostNamed)
}

// ErrDenied is wrapped when a caller may not do something.
var ErrDenied = errors.New("denied")

// MaySome says whether a caller may use a verb on anything of a site.
func (p *Policy) MaySome(c Caller, v Verb, siteName string) bool {
	m, known := meaningOf(v)
	switch {
	case !known, m.ForPersons && !c.IsPerson():
		return false
	case c.Kind == User:
		return true
	}
	for g := range p.of(c) {
		if slices.Contains(g.verbs, v) && allows(g.sites, siteName) {
			return true
		}
	}
	return p.designLetsSome(c, v, siteName)
}

// Names says whether the caller is a user of the host, has a line or has a role of the design, whatever it allows.
func (p *Policy) Names(c Caller) bool {
	for range p.of(c) {
		return true
	}
	return c.Kind == User || len(p.limits) > 0 && len(c.rolesIn(p.design.Approved)) > 0
}

// Waits says whether the design in force has a role for a caller that counts once a person approves it.
func (p *Policy) Waits(c Caller) bool {
	mayGrant := slices.ContainsFunc(p.limits, func(l designLimit) bool { return allows(l.sites, p.design.Site) })
	return mayGrant && len(c.rolesIn(p.design.InForce)) > 0 && len(c.rolesIn(p.design.Approved)) == 0
}

// of are the grants of a caller.
func (p *Policy) of(c Caller) func(func(grant) bool) {
	return func(yield func(grant) bool) {
		for _, g := range p.grants {
			if g.isFor(c) && !yield(g) {
				return
			}
		}
	}
}

// includes says whether a target is within the bounds. A grant for some racks or roles never includes
// the whole site, nor a node that is not known.
func (g grant) includes(t Target) bool {
	return allows(g.sites, t.Site) && allows(g.racks, t.Rack) && allows(g.roles, t.Role)
}

func allows(values []string, value string) bool {
	return len(values) == 0 || value != "" && slices.Contains(values, value)
}

// CheckName refuses a name that could be taken for another one, or forge a line of a log.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > mostName:
		return fmt.Errorf("the name has more than %d bytes", mostName)
	case !utf8.ValidString(name):
		return errors.New("the name is not valid UTF-8")
	}
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) || strings.ContainsRune(`"\:#`+"`", r) {
			return fmt.Errorf("the name has the character %q: names have printable ASCII characters, without double and back quotes, colon, # and backslash", r)
		}
	}
	if strings.TrimSpace(name) != name || strings.Contains(name, "  ") {
		return errors.New("the name begins or ends with a space, or has two in a row")
	}
	return nil
}

func isWord(s string) bool {
	return s != "" && len(s) <= mostName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
