package openid

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/access"
)

// mostGroups is how many groups a person may be in. With more than about 200, issuers leave the claim out.
const mostGroups = 200

// personOf is whom the claims of a verified token name, as an access file says where to look. The error wraps
// ErrToken.
func personOf(i *access.Issuer, c Claims) (access.Caller, error) {
	p := access.Caller{Kind: access.OIDC, Issuer: i.URL, Name: c.text(i.Name)}
	if p.Name == "" {
		return p, fmt.Errorf("%w: it has no text as claim %q, which names the person (\"oidc name\" of the access file)", ErrToken, i.Name)
	}
	if err := access.CheckName(p.Name); err != nil {
		return p, fmt.Errorf("%w: the claim %q cannot be the name of a person: %w", ErrToken, i.Name, err)
	}
	if i.Name == "email" || len(i.Domains) > 0 {
		if err := checkMail(i, c); err != nil {
			return p, err
		}
	}
	groups, err := groupsOf(i, c)
	p.Groups = groups
	return p, err
}

// checkMail refuses an e-mail address that the issuer has not verified: its user may have typed in that of somebody
// else.
func checkMail(i *access.Issuer, c Claims) error {
	mail := c.text("email")
	at := strings.LastIndexByte(mail, '@')
	switch {
	case at < 1 || at == len(mail)-1 || strings.Count(mail, "@") != 1:
		return fmt.Errorf("%w: it has no e-mail address", ErrToken)
	case !c.isTrue("email_verified"):
		return fmt.Errorf("%w: the issuer has not verified the e-mail address %s", ErrToken, printable(mail))
	case len(i.Domains) > 0 && !slices.Contains(i.Domains, strings.ToLower(mail[at+1:])):
		return fmt.Errorf("%w: the e-mail address %s is in none of the domains that the access file allows", ErrToken, printable(mail))
	}
	return nil
}

// isTrue says whether a claim is true. Some issuers write a text there.
func (c Claims) isTrue(name string) bool {
	var b bool
	if json.Unmarshal(c[name], &b) == nil {
		return b
	}
	return c.text(name) == "true"
}

// groupsOf are the groups of a person, in order. A claim that is one text is one group, whatever characters it has:
// splitting it would let the name of a group be that of others. No claim is no group. Names that cannot be in an
// access file are left out, as they give no right.
func groupsOf(i *access.Issuer, c Claims) ([]string, error) {
	said := c[i.Groups]
	if i.Groups == "" || said == nil || string(said) == "null" {
		var elsewhere map[string]string // OpenID Connect Core 5.6.2; Entra ID does so with too many groups
		if json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[i.Groups] != "" {
			return nil, fmt.Errorf("%w: the issuer leaves out the groups, as there are too many: have it name only those that are for this client", ErrToken)
		}
		return nil, nil
	}
	var all []string
	if json.Unmarshal(said, &all) != nil {
		one := c.text(i.Groups)
		if one == "" {
			return nil, fmt.Errorf("%w: the claim %q is not a list of names of groups", ErrToken, i.Groups)
		}
		all = []string{one}
	}
	if len(all) > mostGroups {
		return nil, fmt.Errorf("%w: it names %d groups, more than %d: have the issuer name only those that are for this client", ErrToken, len(all), mostGroups)
	}
	all = slices.DeleteFunc(all, func(g string) bool { return access.CheckName(g) != nil })
	slices.Sort(all)
	return slices.Compact(all), nil
}
